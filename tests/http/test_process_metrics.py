"""A process tells how its event loop and its agents are."""

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import ClientSession

from app.http.health_port import serving_health
from app.observability.process_metrics import process_registry, watching_loop
from app.vision.job_times import job_times
from schemas.topics import Topic
from streams.runtime.supervisor import Figure


class Behind:
    """Agents that are three records behind."""

    lag: Mapping[str, int] = {Topic.AUDIT: 3}


async def test_tasks_are_counted_when_they_are_asked_for() -> None:
    registry = process_registry()
    forever = asyncio.Event()
    async with watching_loop(registry):
        before = registry.get_sample_value("veristream_loop_tasks") or 0
        tasks = [asyncio.create_task(forever.wait()) for _ in range(5)]
        during = registry.get_sample_value("veristream_loop_tasks")
        forever.set()
        await asyncio.gather(*tasks)
        after = registry.get_sample_value("veristream_loop_tasks")

    assert (during, after) == (before + 5, before)


async def test_every_beat_of_the_loop_is_measured() -> None:
    registry = process_registry()
    async with watching_loop(registry, beat_s=0.001), asyncio.timeout(60):
        while not registry.get_sample_value("veristream_loop_late_seconds_count"):  # noqa: ASYNC110 - a metric
            await asyncio.sleep(0)


async def test_the_lag_of_agents_is_reported_by_topic() -> None:
    registry = process_registry(Behind())

    assert registry.get_sample_value("veristream_agent_lag", {"topic": "idv.audit.v1"}) == 3


async def test_what_a_part_says_of_itself_is_reported_as_it_is_then() -> None:
    ends = {"delivered": 1}
    registry = process_registry(figures=[Figure("a_things_total", "Things.", "outcome", lambda: ends)])
    ends["delivered"] = 2

    assert registry.get_sample_value("a_things_total", {"outcome": "delivered"}) == 2


async def test_how_long_jobs_took_is_reported_as_a_histogram() -> None:
    times = job_times()
    registry = process_registry(figures=[times])
    for seconds in (0.004, 0.03, 0.03, 99.0):
        times.labels("decode").observe(seconds)

    def sample(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"veristream_vision_job_seconds_{name}", {"kind": "decode", **more})

    assert [sample("bucket", le=le) for le in ("0.005", "0.025", "0.05", "30.0", "+Inf")] == [1, 1, 3, 3, 4]
    assert sample("count") == 4
    assert sample("sum") == pytest.approx(99.064)


async def test_a_process_without_a_front_tells_how_it_is_on_loopback() -> None:
    async def down() -> str | None:
        return "connection refused"

    registry = process_registry(Behind())
    async with serving_health(0, {"broker": down}, registry) as url, ClientSession() as client:
        async with client.get(f"{url}/livez") as live, client.get(f"{url}/readyz") as ready:
            answer = await ready.json()
        async with client.get(f"{url}/metrics") as metrics:
            counted = await metrics.text()

    assert (live.status, ready.status) == (200, 503)
    assert answer["dependencies"] == {"broker": {"status": "down", "cause": "connection refused"}}
    assert 'veristream_agent_lag{topic="idv.audit.v1"} 3.0' in counted
