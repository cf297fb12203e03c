"""The gateway: each question gets its own answer, or the right word for not having one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from schemas.problems import (
    DecisionPending,
    Overloaded,
    ProblemCode,
    Refused,
    StoreUnavailable,
)
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.authentication import RecordKeys, Stamp
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.supervisor import Worker, running_worker
from tests.agents.support import (
    KEYS,
    ask,
    decided,
    names,
    now,
    open_broker,
    quick_settings,
    submission,
    verification_app,
)


class FaultyKeys(RecordKeys):
    """Keys whose first check ends with an unexpected error."""

    def __init__(self) -> None:
        super().__init__(RootKey(b"r" * 32).derive)
        self._faulty = True

    @override
    def check(self, delivery: Delivery) -> Stamp:
        if self._faulty:
            self._faulty = False
            raise RuntimeError("a defect")
        return super().check(delivery)


SENT_S = 3.0
"""Within this a question is in the log, also on a busy machine; it is waited for in vain."""


class Doorkeeper:
    """A handler that decides only while its door is open."""

    def __init__(self) -> None:
        self.door = asyncio.Event()
        self.door.set()
        self.came = list[str]()
        self.arrival = asyncio.Event()

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Decide; refuse a request of that name."""
        self.came.append(command.request_id)
        self.arrival.set()
        await self.door.wait()
        if command.request_id == "refused":
            raise Refused.because(ProblemCode.IDEMPOTENCY_KEY_REUSED, "The key was used for another body.")
        return decided(command)


@pytest.fixture
def handler() -> Doorkeeper:
    """A handler with a door."""
    return Doorkeeper()


@pytest.fixture
async def worker(
    broker: Broker, writer: LogWriter, handler: Doorkeeper, tmp_path: Path
) -> AsyncIterator[Worker]:
    """A worker that answers."""
    settings = quick_settings(broker.address, tmp_path)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: handler)) as running:
        await running.wait_ready()
        yield running


@pytest.mark.usefixtures("worker")
async def test_many_questions_at_once_get_their_own_answers(gateway: RequestReply) -> None:
    asked = names("many", 300)

    answers = await asyncio.gather(*(ask(gateway, name) for name in asked))

    assert list(answers) == [decided(submission(name)) for name in asked]
    assert gateway.pending == 0


@pytest.mark.usefixtures("worker")
async def test_a_refusal_is_raised_in_its_own_words(gateway: RequestReply) -> None:
    with pytest.raises(Refused) as refused:
        await ask(gateway, "refused")

    assert refused.value.refusal.code is ProblemCode.IDEMPOTENCY_KEY_REUSED


@pytest.mark.usefixtures("worker")
async def test_two_fronts_do_not_take_each_others_answers(
    broker: Broker, writer: LogWriter, gateway: RequestReply
) -> None:
    async with RequestReply(
        LogAccess(broker.address), writer, KEYS, name="other", now=now, instance=1
    ) as other:
        await asyncio.gather(*(ask(front, "shared") for front in (gateway, other, gateway, other)))

        assert (gateway.late_answers, other.late_answers) == (0, 0)


@pytest.mark.usefixtures("worker")
async def test_an_unexpected_error_of_the_reader_costs_one_answer_and_no_other(
    broker: Broker, writer: LogWriter
) -> None:
    access = LogAccess(broker.address)
    async with RequestReply(access, writer, FaultyKeys(), name="faulty", now=now) as gateway:
        with pytest.raises(DecisionPending):
            await ask(gateway, "first", timeout_s=SENT_S)

        assert await ask(gateway, "second") == decided(submission("second"))


@pytest.mark.usefixtures("worker")
async def test_a_late_answer_is_counted_and_dropped(
    broker: Broker, writer: LogWriter, handler: Doorkeeper
) -> None:
    """The front's clock is ahead here, so that the agent still answers after the front gave up."""
    handler.door.clear()
    async with RequestReply(
        LogAccess(broker.address), writer, KEYS, name="ahead", now=lambda: now() + timedelta(hours=1)
    ) as gateway:
        with pytest.raises(DecisionPending):
            await ask(gateway, "late", timeout_s=SENT_S)
        handler.door.set()
        await ask(gateway, "late")

        assert gateway.late_answers == 1


async def until_sent(gateway: RequestReply, handler: Doorkeeper) -> None:
    """Return once the command is carried out, and the gateway knows that the log has it."""
    await handler.arrival.wait()
    with suppress(DecisionPending):
        while True:
            with suppress(StoreUnavailable):
                await ask(gateway, "paid", timeout_s=0.01, once="paid")


@pytest.mark.usefixtures("worker")
async def test_a_command_is_sent_once_however_often_it_is_repeated_before_its_answer(
    gateway: RequestReply, handler: Doorkeeper
) -> None:
    """A late worker would have the more to do the longer everybody waits."""
    handler.door.clear()
    first = asyncio.create_task(ask(gateway, "paid", once="paid"))
    await until_sent(gateway, handler)
    for _ in range(3):
        with pytest.raises(DecisionPending):
            await ask(gateway, "paid", timeout_s=0.01, once="paid")
    others = [asyncio.create_task(ask(gateway, "paid", once="paid")) for _ in range(3)]
    handler.door.set()

    assert await asyncio.gather(first, *others) == [decided(submission("paid"))] * 4
    assert handler.came == ["paid"]


@pytest.mark.usefixtures("worker")
async def test_a_command_that_was_late_is_answered_where_it_is_repeated(
    gateway: RequestReply, handler: Doorkeeper
) -> None:
    handler.door.clear()
    first = asyncio.create_task(ask(gateway, "paid", once="paid"))
    await until_sent(gateway, handler)
    first.cancel()  # as at the end of its time
    await asyncio.wait({first})
    second = asyncio.create_task(ask(gateway, "paid", once="paid"))
    await asyncio.sleep(0)
    handler.door.set()

    assert await second == decided(submission("paid"))
    assert handler.came == ["paid"]


@pytest.mark.usefixtures("worker")
async def test_a_command_that_may_have_been_lost_is_sent_again(
    broker: Broker, writer: LogWriter, handler: Doorkeeper
) -> None:
    handler.door.clear()
    async with RequestReply(
        LogAccess(broker.address), writer, KEYS, name="brief", now=now, late_s=0.0
    ) as gateway:
        first = asyncio.create_task(ask(gateway, "paid", once="paid"))
        await handler.arrival.wait()
        first.cancel()
        await asyncio.wait({first})
        second = asyncio.create_task(ask(gateway, "paid", once="paid"))
        handler.door.set()

        assert await second == decided(submission("paid"))
        assert handler.came == ["paid", "paid"]


@pytest.mark.usefixtures("worker")
async def test_more_questions_than_may_wait_are_sent_away(
    broker: Broker, writer: LogWriter, handler: Doorkeeper
) -> None:
    handler.door.clear()
    async with RequestReply(
        LogAccess(broker.address), writer, KEYS, name="small", now=now, most_pending=2
    ) as gateway:
        waiting = [asyncio.create_task(ask(gateway, name)) for name in ("one", "two")]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await ask(gateway, "three")
        handler.door.set()

        await asyncio.gather(*waiting)


async def test_a_closing_gateway_leaves_the_decision_pending(broker: Broker, writer: LogWriter) -> None:
    async with RequestReply(LogAccess(broker.address), writer, KEYS, name="closing", now=now) as gateway:
        asking = asyncio.create_task(ask(gateway, "nobody-answers"))
        await asyncio.sleep(0)

    with pytest.raises(DecisionPending):
        await asking


async def test_a_stop_tells_who_still_waits_after_the_grace(gateway: RequestReply) -> None:
    waiting = asyncio.create_task(ask(gateway, "unanswered"))
    await asyncio.sleep(0)

    await gateway.release(grace_s=0.01)

    with pytest.raises(DecisionPending):
        await waiting


async def test_an_answer_that_cannot_be_read_is_not_an_answer(
    gateway: RequestReply, writer: LogWriter
) -> None:
    asking = asyncio.create_task(ask(gateway, "unreadable", timeout_s=SENT_S))
    await writer.write(Outgoing(Topic.REPLIES, b"front-0", b"{", partition=0))

    with pytest.raises(DecisionPending):
        await asking


async def test_without_a_broker_nothing_opens() -> None:
    with pytest.raises(StoreUnavailable):
        await LogWriter(LogAccess("127.0.0.1:1"), KEYS).__aenter__()


async def test_a_question_asked_while_the_broker_restarts_is_answered(tmp_path: Path) -> None:
    """Writer, worker and gateway find the broker again by themselves."""
    async with open_broker(tmp_path / "broker") as first:
        port, address = first.port, first.address
        writer = await LogWriter(LogAccess(address), KEYS).__aenter__()
        gateway = await RequestReply(LogAccess(address), writer, KEYS, name="front", now=now).__aenter__()
        settings = quick_settings(address, tmp_path)
        worker = Worker(lambda: verification_app(writer, settings, lambda _: Doorkeeper()))
        worker.start()
        await worker.wait_ready()
        await ask(gateway, "before")
    with pytest.raises(StoreUnavailable):
        await ask(gateway, "during", timeout_s=0.5)
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("through", 20)]
    async with open_broker(tmp_path / "broker", port):
        await asyncio.gather(*asking)
        await ask(gateway, "during")
        await worker.stop()
        await gateway.__aexit__(None, None, None)
        await writer.__aexit__(None, None, None)
