"""The process tells how it is, dependency by dependency."""

import asyncio

import pytest

from app.http.routes.health import LATE
from tests.http.support import Front, build_body, open_front


async def up() -> str | None:
    """A dependency that works."""
    return None


async def down() -> str | None:
    """One that does not."""
    return "connection refused"


async def hangs() -> str | None:
    """One that never answers."""
    await asyncio.Event().wait()
    return None


async def test_a_process_that_answers_lives(front: Front) -> None:
    told = await front.ask("GET", "/livez", None)

    assert (told.status, told.json) == (200, {"status": "live"})


async def test_it_is_ready_when_every_dependency_is_up() -> None:
    async with open_front(probes={"store": up, "broker": up}) as front:
        told = await front.ask("GET", "/readyz", None)

    assert told.status == 200
    assert told.json["dependencies"] == {"store": {"status": "up"}, "broker": {"status": "up"}}


@pytest.mark.parametrize(("probe", "cause"), [(down, "connection refused"), (hangs, LATE)])
async def test_it_is_not_ready_while_one_is_down_and_says_which(probe: object, cause: str) -> None:
    probes = {"store": up, "broker": probe}
    async with open_front(probes=probes, probe_timeout_s=0.05) as front:  # type: ignore[arg-type]  # both are probes
        told = await front.ask("GET", "/readyz", None)
        live = await front.ask("GET", "/livez", None)

    assert (told.status, live.status) == (503, 200)
    assert told.json["dependencies"] == {
        "store": {"status": "up"},
        "broker": {"status": "down", "cause": cause},
    }
    assert told.headers["Retry-After"]


async def test_metrics_count_by_route_and_never_by_tenant_or_subject(front: Front) -> None:
    submitted = await front.submit(build_body("sim:approved@canary"))
    await front.ask("GET", f"/v1/verifications/{submitted.json['verification_id']}")
    await front.ask("GET", "/nowhere/canary")
    told = (await front.ask("GET", "/metrics", None)).body.decode()

    assert 'veristream_http_requests_total{method="POST",route="/v1/verifications",status="201"} 1.0' in told
    assert 'route="/v1/verifications/{verification_id}"' in told
    assert 'route="(none)"' in told
    assert "canary" not in told
    assert submitted.json["verification_id"] not in told
    assert "ten_" not in told


async def test_nothing_is_in_flight_when_all_is_answered(front: Front) -> None:
    await front.submit()
    await front.submit(build_body(""))

    assert front.ports.registry.get_sample_value("veristream_http_in_flight") == 0
