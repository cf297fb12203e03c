"""Read how long jobs of the models take from the metrics of a running process."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout
from prometheus_client.parser import text_string_to_metric_families

from app.doctor.running_service import ANSWER_S
from app.http.listen import listening_url
from app.settings import Settings

METRIC: Final = "veristream_vision_job_seconds"

METRICS_BYTES: Final = 1 << 20
"""Most that is read; a process reports some tens of kilobytes."""


async def read_model_latency(settings: Settings, url: str | None) -> dict[str, float]:
    """Return the mean seconds of a job by kind since the process began; empty where nothing can be read.

    Metrics are on the health port, else for the operator's token at the service's own `url`.
    """
    address, headers = _place(settings, url)
    if address is None:
        return {}
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=ANSWER_S)) as client,
            client.get(f"{address}/metrics", headers=headers, allow_redirects=False) as answer,
        ):
            raw = await answer.content.read(METRICS_BYTES)
            return means_of(raw.decode()) if answer.status == HTTPStatus.OK else {}
    except (ClientError, OSError, TimeoutError, ValueError):
        return {}


def means_of(text: str) -> dict[str, float]:
    """Return the mean of the histogram by kind.

    Raises:
        ValueError: These are no metrics.
    """
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    parts: Mapping[str, dict[str, float]] = {f"{METRIC}_sum": sums, f"{METRIC}_count": counts}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in parts:
                parts[sample.name][sample.labels["kind"]] = sample.value
    return {kind: sums[kind] / count for kind, count in counts.items() if count}


def _place(settings: Settings, url: str | None) -> tuple[str | None, Mapping[str, str]]:
    if settings.metrics == "off":
        return None, {}
    if settings.health_port:
        return listening_url("127.0.0.1", settings.health_port), {}
    token = settings.platform_operator_token
    if settings.metrics != "token" or token is None:
        return None, {}
    return url, {"Authorization": f"Bearer {token.get_secret_value()}"}
