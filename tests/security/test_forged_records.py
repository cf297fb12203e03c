"""Issue 13.7: answers, dead letters and remembered values that an intruder wrote are believed by nobody."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.kafka.request_reply import RequestReply
from schemas.people import Reviewer, Role
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.ports.records import Change, RecordKind
from streams.ports.stores import WorkingState
from streams.runtime.app import GROUP
from streams.runtime.authentication import FRESH_MS, LATE, Unauthentic, require_fresh
from streams.runtime.dead_letters import Redriven, dead_letter, redrive
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import CLOCK_JUMP_S, CLOCK_KNOWN_FOR_S, BrokerClock, LogWriter, Outgoing
from streams.runtime.replays import delivery_of
from streams.runtime.replies import Reply
from streams.runtime.supervisor import running_worker
from streams.runtime.tables import partitions_of
from streams.runtime.topics import changelog_of
from streams.verification.agent import TABLE
from streams.verification.change import Remembered
from tests.agents.support import (
    KEYS,
    Evaluate,
    ask,
    decided,
    everything_in,
    now,
    open_broker,
    quick_settings,
    remembered,
    signed,
    submission,
    until,
    verification_app,
)
from tests.builders import ACME
from tests.http.support import open_front
from tests.http.test_review_cases import conclude, open_case
from tests.security.intruder import open_intruder


async def test_a_forged_answer_is_not_believed_and_the_true_one_still_is(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def after_the_lie(command: SubmitVerification) -> VerificationDecided:
        await heard.wait()
        return decided(command)

    async with open_broker(tmp_path / "broker") as broker:
        access = LogAccess(broker.address)
        async with (
            LogWriter(access, KEYS) as writer,
            RequestReply(access, writer, KEYS, name="front", now=now) as gateway,
            open_intruder(access) as intruder,
            running_worker(
                lambda: verification_app(
                    writer, quick_settings(broker.address, tmp_path), lambda _: after_the_lie
                )
            ) as worker,
        ):
            await worker.wait_ready()
            asking = asyncio.create_task(ask(gateway, "true"))

            async def answered() -> bool:
                return gateway.forged_answers > 0 or asking.done()

            lie = Reply.of(decided(submission("a lie"))).to_bytes()
            await intruder.write(Delivery(Topic.REPLIES, 0, 0, b"front-0", lie))
            await until(answered)
            heard.set()

            assert await asking == decided(submission("true"))
            assert gateway.forged_answers == 1


async def test_a_dead_letter_copied_among_the_dead_letters_is_redriven_once(tmp_path: Path) -> None:
    command = submission("copied")
    key = command.verification_id.encode()
    sound = signed(Delivery(Topic.VERIFICATION_COMMANDS, 1, 7, key, command.to_bytes()))
    async with open_broker(tmp_path / "broker") as broker:
        access = LogAccess(broker.address)
        async with LogWriter(access, KEYS) as writer, open_intruder(access) as intruder:
            await writer.write(dead_letter(sound, "handler raised KeyError", now()))
            [buried] = await everything_in(broker.address, Topic.DEAD_LETTERS)
            first = await redrive(access, KEYS, writer)
            await intruder.write(delivery_of(buried), delivery_of(buried))

            assert (first, await redrive(access, KEYS, writer)) == (Redriven(1, 0), Redriven(0, 2))


async def test_what_an_intruder_puts_into_an_agents_memory_is_forgotten(tmp_path: Path) -> None:
    """Entries are signed for their key: an invented one, and one moved to another key, are not there."""
    known = submission("known")
    key, other = known.verification_id.encode(), submission("other").verification_id.encode()
    value = remembered(known).to_bytes()
    entry = KEYS.seal_entry(f"table.{TABLE}", key, value)

    assert KEYS.open_entry(f"table.{TABLE}", key, entry) == value
    assert KEYS.open_entry(f"table.{TABLE}", key, value) is None
    assert KEYS.open_entry(f"table.{TABLE}", other, entry) is None
    assert KEYS.open_entry("table.reviews", key, entry) is None

    handled: list[str] = []

    async def decide(command: SubmitVerification) -> VerificationDecided:
        handled.append(command.request_id)
        return decided(command, replayed=state[0].get(command.verification_id) is not None)

    state: list[WorkingState[Remembered]] = []
    async with open_broker(tmp_path / "broker") as broker:
        access = LogAccess(broker.address)
        async with (
            LogWriter(access, KEYS) as writer,
            RequestReply(access, writer, KEYS, name="front", now=now) as gateway,
            open_intruder(access) as intruder,
        ):
            changelog = changelog_of(GROUP, TABLE)
            parts = range(partitions_of(Topic.VERIFICATION_COMMANDS))
            await intruder.write(*(Delivery(changelog, part, 0, key, value) for part in parts))

            def build(memory: WorkingState[Remembered]) -> Evaluate:
                state[:] = [memory]
                return decide

            settings = quick_settings(broker.address, tmp_path)
            async with running_worker(lambda: verification_app(writer, settings, build)) as worker:
                await worker.wait_ready()
                answer = await ask(gateway, "known")

    assert (handled, answer.replayed) == (["known"], False)


async def test_the_embedded_broker_dates_our_records_itself(tmp_path: Path) -> None:
    """Else an intruder would date a copy to when the original was signed (KIP-32)."""
    command = submission("dated")
    async with open_broker(tmp_path / "broker") as broker:
        access = LogAccess(broker.address)
        async with open_intruder(access) as intruder:
            before = int(datetime.now(UTC).timestamp() * 1000)
            sent = await intruder.producer.send_and_wait(
                Topic.VERIFICATION_COMMANDS, command.to_bytes(), partition=0, timestamp_ms=1
            )
        [record] = await everything_in(broker.address, Topic.VERIFICATION_COMMANDS)

    assert record.timestamp_type == sent.timestamp_type == 1
    assert before - 1_000 <= record.timestamp == sent.timestamp


def test_a_writer_asks_for_the_time_again_when_it_may_have_slept_or_was_set() -> None:
    steady, wall = [100.0], [5_000.0]
    clock = BrokerClock(lambda: steady[0], lambda: wall[0])
    assert clock.now_ms() is None

    clock.set(1_000_000)
    steady[0] += 2.5
    wall[0] += 2.5
    assert clock.now_ms() == 1_002_500
    wall[0] += CLOCK_JUMP_S + 0.1
    assert clock.now_ms() is None

    clock.set(2_000_000)
    steady[0] += CLOCK_KNOWN_FOR_S + 1
    wall[0] += CLOCK_KNOWN_FOR_S + 1
    assert clock.now_ms() is None


async def test_a_writer_learns_that_a_record_was_appended_long_after_it_was_signed(tmp_path: Path) -> None:
    """As when its process is suspended in between: nobody acts on that record, so it is written again."""
    record = Outgoing(Topic.VERIFICATION_COMMANDS, b"key", submission("late").to_bytes(), partition=0)
    async with open_broker(tmp_path / "broker") as broker:
        async with LogWriter(LogAccess(broker.address), KEYS) as writer:
            writer._clock.set(int(datetime.now(UTC).timestamp() * 1000) - FRESH_MS - 10_000)
            with pytest.raises(StoreUnavailable, match="too long after, or before, it was signed"):
                await writer.write(record)
            await writer.write(record)
        late, again = map(delivery_of, await everything_in(broker.address, Topic.VERIFICATION_COMMANDS))

    with pytest.raises(Unauthentic, match=LATE):
        require_fresh(KEYS.check(late), late.appended_ms)
    require_fresh(KEYS.check(again), again.appended_ms)


@pytest.mark.parametrize("change", [{"active": False}, {"role": Role.DEVELOPER}])
async def test_a_reviewer_who_lost_the_right_meanwhile_concludes_nothing(change: dict[str, Any]) -> None:
    """The front let them in; before the case's actor looks they are suspended, or have another role."""
    async with open_front() as front:
        _, case = await open_case(front)
        reviewer = await front.sign_in(Role.REVIEWER)
        ask_agents = front.ports.request_reply.request

        async def later(topic: Topic, key: str, command: Any, *more: Any, **named: Any) -> Any:
            record = await front.stores.records.get(ACME, RecordKind.REVIEWER, command.reviewer_id)
            member = Reviewer.from_bytes(record.body).model_copy(update=change)
            after = replace(record, body=member.to_bytes(), version=record.version + 1)
            await front.stores.journal.commit(Change(ACME, (after,)))
            return await ask_agents(topic, key, command, *more, **named)

        vars(front.ports.request_reply)["request"] = later
        result = await conclude(reviewer, case)
        shown = await front.ask("GET", case)

    assert (result.status, result.json.get("code")) == (403, "PERMISSION_DENIED")
    assert shown.status != 200 or shown.json["status"] == "OPEN"
