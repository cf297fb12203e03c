"""Dashboard and alerts name metrics that the service tells, and `veristream status` shows it at one look."""

import asyncio
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import ClientSession

from streams.runtime.lag import COMMANDS
from tests.agents.support import until
from tests.journeys.service import (
    METRICS,
    SHOW_METRICS,
    START_S,
    Service,
    begin_deployment,
    environment,
    run_preloaded,
    small_request,
)
from tests.prefork import fork, run_veristream

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
ALERTS: Final = DEPLOY / "prometheus-alerts.yml"
STORED: Final = ("events", "audit_chains", "audit_rows", "evidence", "erasures")
"""What waits in the store."""
OF_PROMETHEUS: Final = frozenset({"up"})
"""What the scraper itself tells."""


def dashboard() -> Iterator[str]:
    """The expressions of the dashboard."""
    for panel in json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def rules() -> list[dict[str, Any]]:
    """The rules of the alerts."""
    read: Any = yaml.safe_load  # untyped
    groups = read(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def metrics_in(expression: str) -> set[str]:
    """The metrics an expression reads: names that are neither functions, nor labels, nor in quotes."""
    plain = re.sub(r'\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)|"[^"]*"', "", expression)
    return set(re.findall(r"\b[a-z][a-z0-9_]*\b(?!\s*\()", plain)) - {"sum", "max", "min", "by"}


def sample_names(text: str) -> set[str]:
    """The names of the samples that metrics of these types have."""
    names = set(OF_PROMETHEUS)
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        suffixes = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        names |= {f"{name}{suffix}" for suffix in suffixes}
    return names


async def metrics_of(service: Service) -> str:
    """The metrics of the running service."""
    async with (
        ClientSession() as client,
        client.get(f"{service.url}/metrics", headers=SHOW_METRICS) as answer,
    ):
        assert answer.status == 200
        return await answer.text()


async def test_every_metric_of_the_dashboard_and_the_alerts_is_reported_by_the_service(
    service: Service,
) -> None:
    result = sample_names(await metrics_of(service))

    shown = [metrics_in(expression) for expression in dashboard()]
    watched = [metrics_in(rule["expr"]) for rule in rules()]

    assert [names - result for names in (*shown, *watched) if names - result] == []
    assert [names for names in (*shown, *watched) if not names] == []


async def verify(service: Service) -> None:
    """Post a verification; a child examines its images, which is a job to tell of."""
    headers = {"Authorization": f"Bearer {service.test_key}"}
    body = small_request("sim:approved@metrics")
    async with (
        ClientSession() as client,
        client.post(f"{service.url}/v1/verifications", json=body, headers=headers) as answer,
    ):
        assert answer.status == 201


async def test_the_labels_of_the_backlog_are_those_the_alerts_choose_by(service: Service) -> None:
    text = ""
    await verify(service)

    async def measured() -> bool:
        nonlocal text
        text = await metrics_of(service)
        return "veristream_backlog{" in text

    await until(measured)

    kinds = set(re.findall(r'veristream_backlog\w*\{kind="(\w+)"', text))
    chosen = {kind for rule in rules() for kind in re.findall(r'backlog\w*\{kind="(\w+)"', rule["expr"])}
    assert kinds == {"events", "audit_chains", "audit_rows", "dead_letters", "unavailable"}
    assert chosen <= kinds
    topics = re.findall(r'veristream_commands_oldest_seconds\{topic="([\w.]+)"', text)
    assert set(topics) == set(COMMANDS)
    assert 'veristream_vision_job_seconds_bucket{kind="' in text


def test_a_metric_that_nobody_tells_is_noticed() -> None:
    expression = (
        'histogram_quantile(0.9, sum by (le) (rate(veristream_a_bucket{route="b"}[5m]))) > 2 * veristream_c'
    )

    assert metrics_in(expression) == {"veristream_a_bucket", "veristream_c"}
    assert sample_names("# TYPE veristream_a histogram\n") >= {"veristream_a_bucket"}


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "fix"}, rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}, rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is in Debian's package prometheus")
async def test_prometheus_takes_the_alerts() -> None:
    check = await asyncio.create_subprocess_exec("promtool", "check", "rules", str(ALERTS))

    assert await check.wait() == 0


async def test_status_shows_a_running_service_at_one_look(service: Service) -> None:
    await verify(service)
    status, out, err = await run_preloaded(service.data_dir, "status", "--json", given=METRICS)

    found = json.loads(out)
    assert (status, found["ready"], found["broker"]) == (0, True, None), err
    assert found["service"] == f"ready at {service.url}"
    assert set(found["lag"]) >= {"idv.verifications.commands.v1", "idv.audit.v1"}
    assert set(found["waiting"]) == {*STORED, "dead_letters"}
    assert found["oldest_command_s"]["idv.verifications.commands.v1"] >= 0
    assert found["disk_used_bytes"]["store"] > 0
    assert found["model_latency_s"]
    assert min(found["model_latency_s"].values()) > 0
    assert isinstance(found["lists"], dict)
    assert "lists.none_loaded" in service.role.log.read_text()


async def test_status_can_be_followed_line_by_line_until_it_is_interrupted(
    service: Service, tmp_path: Path
) -> None:
    words = ("status", "--watch", "--json", "--data-dir", str(service.data_dir))
    process = await fork(run_veristream, words, environment(), tmp_path / "log")
    try:
        async with asyncio.timeout(START_S):
            lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            status = await process.wait()
    finally:
        process.kill()

    assert [line["ready"] for line in lines] == [True, True]
    assert lines[0]["at"] < lines[1]["at"]
    assert (status, (tmp_path / "log").read_text()) == (0, "")


async def test_status_shows_that_no_command_waits_once_the_last_is_acknowledged(service: Service) -> None:
    async def no_command_waits() -> bool:
        _, out, _ = await run_preloaded(service.data_dir, "status", "--json")
        return set(json.loads(out)["oldest_command_s"].values()) == {0}

    await until(no_command_waits)


async def test_status_of_a_stopped_service_names_what_is_away_and_still_counts(tmp_path: Path) -> None:
    begin_deployment(tmp_path)

    status, out, err = await run_preloaded(tmp_path, "status", "--json")

    found = json.loads(out)
    assert status == 1
    assert not found["ready"]
    assert "no broker runs" in found["broker"]
    assert found["waiting"] == dict.fromkeys(STORED, 0)
    assert found["model_latency_s"] == {}
    assert "Traceback" not in err
