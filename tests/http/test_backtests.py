"""Backtests: a text decides stored transactions again, exactly, and nothing else changes (G115)."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from schemas.backtests import BacktestProgress, BacktestResult, StoredBacktest
from schemas.base import rfc3339
from streams.backtests.past import PastTransaction, StoredSpan, in_order
from streams.backtests.records import load_text
from streams.backtests.replaying import Replay, Tell
from streams.backtests.runner import (
    CLAIM,
    STARTS,
    BacktestFailed,
    BacktestInterrupted,
    BacktestProcess,
    BacktestRunner,
)
from streams.policies.compiling import compile_policy
from streams.policies.loading import load
from streams.ports.records import RecordKind
from streams.verification.records import by_mode
from tests.builders import ACME
from tests.http.support import BARE, FOREIGN, HASHES, LIVE, TEST, Front, SignedIn, now, open_front
from tests.http.test_policies import PATH, actions, publish, put
from tests.http.test_policy_shadow import PUBLISHED, STRICTER, pay
from tests.http.test_transaction_history import past, send
from tests.http.test_transactions import publish_suspending

BACKTESTS: Final = f"{PATH}/backtests"
THROW_AWAY: Final = {"kind": "PERSON", "email": "amina@mailinator.com", "name": "Amina"}


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front."""
    async with open_front() as opened:
        yield opened


@pytest.fixture
async def lead(front: Front) -> SignedIn:
    """A member who publishes."""
    return await front.sign_in()


def runner_of(front: Front, worker_id: str = "wrk_1", **more: Any) -> BacktestRunner:
    """A worker that runs backtests in this process."""

    async def replay(job: StoredBacktest, tell: Tell) -> BacktestResult:
        policy = compile_policy(
            load(await load_text(front.stores.records, job)), job.revision or 0, job.sha256
        )
        return await Replay(front.stores, HASHES, policy, job, tell).run()

    clock, process = more.pop("clock", now), more.pop("process", replay)
    return BacktestRunner(front.stores.records, front.ports.commit, process, worker_id, clock, **more)


def span(**changes: Any) -> dict[str, Any]:
    """A body about every transaction of the test."""
    start, end = now() - timedelta(hours=1), now() + timedelta(hours=1)
    return {"from": rfc3339(start), "to": rfc3339(end), **changes}


async def ask(front: Front | SignedIn, **changes: Any) -> Any:
    """Ask for a backtest."""
    answer = await front.ask("POST", BACKTESTS, json=span(**changes))
    assert answer.status == 202, answer.body
    return answer.json


async def run(front: Front, **changes: Any) -> Any:
    """Run a backtest to its end and return it."""
    asked = await ask(front, **changes)
    assert await runner_of(front).run_next()
    return (await front.ask("GET", f"{BACKTESTS}/{asked['backtest_id']}")).json


async def pay_often(front: Front) -> list[Any]:
    """Two subjects pay in turn: some flagged, one held for a name, one with a wallet, one magic subject."""
    wallet = {"chain": "BTC", "address": "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "role": "DESTINATION"}
    decided = []
    for number in range(12):
        more: dict[str, Any] = {"subject_id": f"user-{number % 2}"}
        if number == 6:
            more |= {"type": "CRYPTO_TRANSFER", "wallet": wallet}
        if number % 3 == 0:
            more["counterparty"] = THROW_AWAY
        decided.append(await pay(front, number, f"{20 + number}", **more))
    decided.append(await pay(front, 12, "5", subject_id="sim:review"))
    return decided


async def test_the_published_policy_over_its_own_time_changes_nothing(front: Front) -> None:
    """Checks, wallets, suspensions, magic subjects and features are as they were, to the last value."""
    await publish_suspending(front)
    decided = await pay_often(front)
    asked = {"metadata": {"ask": "SUSPEND"}, "subject_id": "user-1"}
    decided.append(await pay(front, 13, "5", **asked))
    decided.append(await pay(front, 14, "5", subject_id="user-1"))

    tested = await run(front, revision=2)

    result = tested["result"]
    assert (tested["status"], tested["progress"]) == ("DONE", {"done": 15, "total": 15})
    assert {one["decision"] for one in decided} >= {"ALLOW", "FLAG", "WARN", "SUSPEND", "BLOCK"}
    assert (result["evaluated"], result["changed"], result["unknown"]) == (15, 0, 0)
    assert all(one["hits"] == one["hits_before"] for one in result["rules"])
    assert sum(one["hits"] for one in result["rules"]) > 0


async def test_another_text_is_tried_with_features_of_its_own(front: Front, lead: SignedIn) -> None:
    await put(lead, PUBLISHED)
    await publish(lead)
    decided = [await pay(front, n, "60", subject_id=f"user-{n % 2}") for n in range(4)]
    odd = await pay(front, 4, "60", counterparty=THROW_AWAY)
    await put(lead, STRICTER)
    stored = dict(front.shelves.records)
    result = (await run(front, draft=True))["result"]
    one_subject = (await run(front, draft=True, subject_id="user-1"))["result"]

    assert result["matrix"] == {"ALLOW": {"ALLOW": 2, "BLOCK": 2}, "FLAG": {"BLOCK": 1}}
    assert (result["evaluated"], result["changed"], result["unknown"]) == (5, 3, 1)
    assert result["rules"] == [
        {"id": "second", "hits": 3, "hits_before": 0},
        {"id": "much", "hits": 1, "hits_before": 1},
    ]
    assert {one["transaction_id"] for one in result["examples"]} == {
        decided[2]["transaction_id"], decided[3]["transaction_id"], odd["transaction_id"],
    }  # fmt: skip
    assert one_subject["evaluated"] == 3
    written = {key[1] for key, one in front.shelves.records.items() if stored.get(key) != one}
    assert {str(kind) for kind in written} == {"backtest", "backtest_text", "backtest_watch"}


async def test_a_span_is_decided_with_what_came_before_it(front: Front, lead: SignedIn) -> None:
    await put(lead, STRICTER)
    await pay(front, 1, "60")
    await asyncio.sleep(0.002)
    middle = now()
    await pay(front, 2, "60")

    result = (await run(front, draft=True, **{"from": rfc3339(middle)}))["result"]
    empty = (await run(front, draft=True, to=rfc3339(now() - timedelta(minutes=30))))["result"]

    assert result["matrix"] == {"ALLOW": {"BLOCK": 1}}
    assert empty == {
        "evaluated": 0, "changed": 0, "unknown": 0, "matrix": {}, "examples": [],
        "rules": [{"id": rule, "hits": 0, "hits_before": 0} for rule in ("second", "much")],
    }  # fmt: skip


async def test_imported_transactions_count_from_their_import_on(front: Front, lead: SignedIn) -> None:
    await put(lead, STRICTER)
    await publish(lead)
    before = await pay(front, 1, "60", subject_id="user-1")
    await send(front, "import-1", [past(f"old-{number}", subject_id="user-2") for number in range(3)])
    after = await pay(front, 2, "60", subject_id="user-2")

    tested = await run(front, revision=2)

    assert (before["decision"], after["decision"]) == ("ALLOW", "BLOCK")
    assert (tested["progress"], tested["result"]["changed"]) == ({"done": 2, "total": 2}, 0)


async def test_transactions_of_one_millisecond_are_decided_in_the_order_they_were(front: Front) -> None:
    for number in range(5):
        await pay(front, number, "5")
    span_read = StoredSpan(front.stores, ACME, by_mode(livemode=False), now() - timedelta(hours=1), now())
    starts, counted = await span_read.pages(now() - timedelta(hours=1))
    found = [one async for one in span_read.oldest_first(starts)]
    same = [replace(one, record=replace(one.record, created_at=found[0].record.created_at)) for one in found]

    ordered: list[PastTransaction] = list(in_order(sorted(same, key=lambda one: one.record.id)))

    assert counted == 5
    assert [one.record.id for one in ordered] == [one.record.id for one in found]


class Endless:
    """A backtest that never comes to its end."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), False

    async def __call__(self, job: StoredBacktest, tell: Tell) -> BacktestResult:
        """Tell some progress and wait."""
        tell(BacktestProgress(done=3, total=9))
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True
        raise AssertionError(job)


async def test_a_cancelled_backtest_ends_its_process_and_is_not_run_again(
    front: Front, lead: SignedIn
) -> None:
    await put(lead, STRICTER)
    path = f"{BACKTESTS}/{(await ask(front, draft=True))['backtest_id']}"
    endless = Endless()
    running = asyncio.create_task(runner_of(front, process=endless, progress_s=0.01).run_next())
    await endless.began.wait()
    for _ in range(6_000):
        if (await front.ask("GET", path)).json["progress"]["done"] == 3:
            break
        await asyncio.sleep(0.01)
    cancelled = (await front.ask("POST", f"{path}/cancel")).json
    again = (await front.ask("POST", f"{path}/cancel")).json

    assert await running
    assert endless.ended
    assert (cancelled["status"], cancelled["result"], again) == ("CANCELLED", None, cancelled)
    assert not await runner_of(front).run_next()
    assert (await front.ask("GET", path)).json == cancelled


async def test_a_backtest_whose_worker_is_gone_is_taken_up_by_another(front: Front, lead: SignedIn) -> None:
    await put(lead, STRICTER)
    await pay(front, 1, "60")
    path = f"{BACKTESTS}/{(await ask(front, draft=True))['backtest_id']}"
    endless = Endless()
    lost = asyncio.create_task(runner_of(front, process=endless).run_next())
    await endless.began.wait()
    lost.cancel()
    await asyncio.wait({lost})
    early = await runner_of(front, "wrk_2").run_next()
    status = (await front.ask("GET", path)).json["status"]
    later = await runner_of(front, "wrk_2", clock=lambda: now() + CLAIM).run_next()

    assert (endless.ended, early, status, later) == (True, False, "RUNNING", True)
    assert (await front.ask("GET", path)).json["status"] == "DONE"


async def test_a_backtest_that_cannot_be_run_says_why(front: Front, lead: SignedIn) -> None:
    async def fail(job: StoredBacktest, tell: Tell) -> BacktestResult:
        raise BacktestFailed(f"its process ended with status -9 after {tell!r:.0}{job.status}")

    await put(lead, STRICTER)
    path = f"{BACKTESTS}/{(await ask(front, draft=True))['backtest_id']}"
    assert await runner_of(front, process=fail).run_next()

    shown = (await front.ask("GET", path)).json
    assert (shown["status"], shown["failure"]) == ("FAILED", "its process ended with status -9 after RUNNING")
    assert not await runner_of(front, process=fail).run_next()


async def test_a_process_that_is_killed_is_started_again_a_few_times(front: Front, lead: SignedIn) -> None:
    await put(lead, STRICTER)
    starts = list[StoredBacktest]()

    def killed(times: int) -> BacktestProcess:
        async def run(job: StoredBacktest, tell: Tell) -> BacktestResult:
            starts.append(job)
            if len(starts) <= times:
                raise BacktestInterrupted("its process ended with status -9")
            return await runner_of(front).process(job, tell)

        return run

    statuses = []
    for times in (STARTS - 1, STARTS):
        starts.clear()
        path = f"{BACKTESTS}/{(await ask(front, draft=True))['backtest_id']}"
        assert await runner_of(front, process=killed(times), progress_s=0.01).run_next()
        statuses.append((await front.ask("GET", path)).json["status"])

    assert statuses == ["DONE", "FAILED"]
    assert len(starts) == STARTS


async def test_its_process_has_the_lowest_priority(tmp_path: Path) -> None:
    program = (
        "import os, sys; from app.composition import backtest_child as child; child.main(*sys.argv[1:]);"
        "os.write(1, str(os.nice(0)).encode()); os._exit(0)"
    )
    command = (sys.executable, "-c", program, str(tmp_path), ACME, "bt_none")
    child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert child.stdout is not None

    said, priority = (await child.stdout.read()).splitlines()

    assert json.loads(said) == {"failure": "the stored transactions cannot be read"}
    assert priority == b"19"
    assert await child.wait() == 0


async def test_the_same_key_asks_for_one_backtest_of_the_text_as_it_was(front: Front, lead: SignedIn) -> None:
    await put(lead, STRICTER)
    body, headers = span(draft=True), {"Idempotency-Key": "monday"}
    first = await front.ask("POST", BACKTESTS, json=body, headers=headers)
    await put(lead, PUBLISHED)
    again = await front.ask("POST", BACKTESTS, json=body, headers=headers)
    other = await front.ask("POST", BACKTESTS, json=span(revision=1), headers=headers)
    listed = (await front.ask("GET", BACKTESTS)).json

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (202, 202, "true")
    assert first.headers["Location"] == f"{BACKTESTS}/{first.json['backtest_id']}"
    assert again.json == first.json == listed["backtests"][0]
    assert (other.code, len(listed["backtests"])) == ("IDEMPOTENCY_KEY_REUSED", 1)
    assert (await actions(lead)).count("policy.backtested") == 1


async def test_what_cannot_be_tested_is_refused_and_nothing_waits(front: Front, lead: SignedIn) -> None:
    start = rfc3339(now())
    for body, pointer in (
        (span(), ""), (span(draft=True, revision=1), ""), ({"draft": True}, "/from"),
        (span(revision=1, to=start, **{"from": start}), "/to"), (span(revision="1"), "/revision"),
        (span(revision=1, to="tomorrow"), "/to"), (span(revision=1, subject_id=""), "/subject_id"),
    ):  # fmt: skip
        refused = await front.ask("POST", BACKTESTS, json=body)
        assert refused.code == "VALIDATION_FAILED", body
        assert pointer in refused.pointers, refused.body
    for missing in ({"draft": True}, {"revision": 7}):
        assert (await front.ask("POST", BACKTESTS, json=span(**missing))).code == "NOT_FOUND"
    assert (await front.ask("POST", BACKTESTS, BARE, json=span(revision=1))).status == 403
    assert not await runner_of(front).run_next()
    assert (await lead.ask("GET", BACKTESTS)).json["backtests"] == []


async def test_a_backtest_is_seen_by_its_tenant_in_its_mode(front: Front, lead: SignedIn) -> None:
    await pay(front, 1, "60")
    test_only = await run(front, revision=1)
    live = await ask(lead, revision=1)
    path = f"{BACKTESTS}/{test_only['backtest_id']}"

    assert (test_only["livemode"], test_only["result"]["evaluated"], live["livemode"]) == (False, 1, True)
    for key in (LIVE, FOREIGN):
        assert (await front.ask("GET", path, key)).code == "NOT_FOUND"
        assert (await front.ask("POST", f"{path}/cancel", key)).code == "NOT_FOUND"
    assert len((await front.ask("GET", BACKTESTS, TEST)).json["backtests"]) == 1
    page = (await lead.ask("GET", f"{BACKTESTS}?limit=1")).json
    rest = (await lead.ask("GET", f"{BACKTESTS}?limit=1&cursor={page['next_cursor']}")).json
    assert [page["backtests"][0]["backtest_id"], rest["backtests"][0]["backtest_id"]] == [
        live["backtest_id"], test_only["backtest_id"],
    ]  # fmt: skip
    record = await front.stores.records.get(ACME, RecordKind.BACKTEST, test_only["backtest_id"])
    assert record.version > 1
