"""A process tells how its event loop and its agents are."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from aiohttp import ClientSession

from app.composition.transactions import transaction_figures
from app.http.routes.health import serving_health
from app.lists.serving import list_figures
from app.observability.metrics import process_registry, watching_loop
from app.vision.pool import job_times
from schemas.enums import CheckKind
from schemas.lists import EntityKind, NameEntry
from schemas.reasons import ReasonCode
from schemas.topics import Topic
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget
from streams.lists.listed_names import Entries, index_locally
from streams.lists.loaded import LoadedList, LoadedLists
from streams.runtime.supervisor import Figure
from streams.transactions.counters import TransactionCounters
from tests.rules.test_deciding import check, judge, policy

COUNTERPARTY: Final = ScreenedTarget.COUNTERPARTY


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


async def test_what_transactions_and_lists_came_to_is_reported() -> None:
    counters, at = TransactionCounters(), datetime(2026, 3, 9, tzinfo=UTC)
    counters.note(judge(policy([]), "50", check(CheckOutcome.ERROR, COUNTERPARTY, ReasonCode.LIST_MISSING)))
    counters.note(judge(policy([]), "50", check(CheckOutcome.CLEAR)))
    counters.rows["subject_rebuilt"] += 2
    counters.key_questions["answered"] += 3
    entries = [NameEntry(entity_id=name, kind=EntityKind.PERSON, names=(name,)) for name in ("Ada", "Bea")]
    names = await index_locally(in_one_part(entries))
    lists = LoadedLists([LoadedList("un", None, CheckKind.SANCTIONS, "1", at.date(), at, names)])
    registry = process_registry(
        figures=[*transaction_figures(counters), *list_figures(lists, lambda: at + timedelta(hours=2))]
    )

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"veristream_{name}", labels)

    assert sample("transactions_decided_total", outcome="HOLD") == 1
    assert sample("transactions_decided_total", outcome="ALLOW") == 1
    assert sample("transaction_check_errors_total", cause="LIST_MISSING") == 1
    assert sample("transaction_rows_total", source="subject_rebuilt") == 2
    assert sample("transaction_key_questions_total", end="answered") == 3
    assert sample("list_entries", list="un") == 2
    assert sample("list_age_seconds", list="un") == 7_200


def in_one_part(entries: Sequence[NameEntry]) -> Entries:
    """The entries as a list's storage gives them."""

    async def parts() -> AsyncIterator[Sequence[bytes]]:
        yield [entry.to_bytes() for entry in entries]

    return parts
