"""The guard: every record ends answered, refused or buried, and none is acknowledged before."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import faust
import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from schemas.base import Event
from schemas.problems import Overloaded, ProblemCode, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.agents import attach
from streams.runtime.dead_letters import MAX_VALUE_BYTES, list_dead_letters
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.guard import FAILED, Contract, Guard, Poison, read
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import CLOCK_KEY, LogWriter, Outgoing
from streams.runtime.replies import CLOCKS_APART, Reply, ReturnAddress
from streams.runtime.supervisor import running_worker
from streams.runtime.tenant_scope import tenant_in_work
from tests.agents.support import (
    ACME,
    KEYS,
    QUICK,
    Evaluate,
    ask,
    decided,
    everything_in,
    names,
    now,
    quick_guard,
    quick_settings,
    settle,
    signed,
    submission,
    until_settled,
    verification_app,
)
from tests.builders import build_decision_event

CONTRACT = Contract(SubmitVerification, lambda command: command.verification_id)
COMMAND = submission("guarded")
KEY = COMMAND.verification_id.encode()


@pytest.fixture
def guard(broker: Broker, writer: LogWriter) -> Guard:
    """A guard of little patience."""
    return quick_guard(writer, LogAccess(broker.address))


def delivery(
    value: bytes | None = COMMAND.to_bytes(), key: bytes | None = KEY, wait_s: float = 30
) -> Delivery:
    """A record with a command and a return address."""
    address = ReturnAddress("question-1", Topic.REPLIES, 3, now() + timedelta(seconds=wait_s))
    return signed(Delivery(Topic.VERIFICATION_COMMANDS, 5, 42, key, value, dict(address.headers())))


class Failing:
    """A handler that raises a number of times before it decides."""

    def __init__(self, error: BaseException, times: int) -> None:
        self._error = error
        self._times = times
        self.calls = 0

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Raise, or decide."""
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return decided(command)


async def replies(broker: Broker) -> list[Reply]:
    """Every reply in the log."""
    return [Reply.from_bytes(record.value) for record in await answers(broker)]


async def answers(broker: Broker) -> list[Any]:
    """Every reply in the log, as a record; writers asking for the time are none."""
    found = await everything_in(broker.address, Topic.REPLIES)
    return [record for record in found if record.key != CLOCK_KEY]


async def test_an_answer_goes_to_the_partition_it_was_asked_from(broker: Broker, guard: Guard) -> None:
    await settle(guard, delivery(), CONTRACT, Failing(ValueError(), 0))

    (record,) = await answers(broker)
    assert (record.partition, record.key) == (3, b"question-1")
    assert Reply.from_bytes(record.value) == Reply.of(decided(COMMAND))


@pytest.mark.parametrize(
    "error", [StoreUnavailable("away"), Overloaded()], ids=lambda error: type(error).__name__
)
async def test_what_passes_is_waited_for_as_long_as_it_takes(
    broker: Broker, guard: Guard, error: Exception
) -> None:
    handler = Failing(error, 12)

    await settle(guard, delivery(), CONTRACT, handler)

    assert handler.calls == 13
    assert await list_dead_letters(LogAccess(broker.address), KEYS, 10) == []


async def test_a_refusal_is_the_answer(broker: Broker, guard: Guard) -> None:
    refused = Refused.at("/selfie", ProblemCode.IMAGE_UNDECODABLE, "The image cannot be decoded.")
    handler = Failing(refused, 1)

    await settle(guard, delivery(), CONTRACT, handler)

    assert handler.calls == 1
    assert await replies(broker) == [Reply(refusal=refused.refusal)]


async def test_an_unexpected_error_that_passes_leaves_no_trace(broker: Broker, guard: Guard) -> None:
    await settle(guard, delivery(), CONTRACT, Failing(RuntimeError("once"), QUICK.failures))

    assert await replies(broker) == [Reply.of(decided(COMMAND))]
    assert await list_dead_letters(LogAccess(broker.address), KEYS, 10) == []


@pytest.mark.parametrize("error", [RuntimeError("Ada Lovelace"), asyncio.CancelledError("Ada Lovelace")])
async def test_an_error_that_stays_buries_the_record_and_tells_the_asker(
    broker: Broker, guard: Guard, error: BaseException
) -> None:
    """A cancellation that a handler lets escape is an error like others; its words stay out of the log."""
    handler = Failing(error, 100)

    await settle(guard, delivery(), CONTRACT, handler)

    (letter,) = await list_dead_letters(LogAccess(broker.address), KEYS, 10)
    assert handler.calls == QUICK.failures + 1
    assert letter.reason.startswith("handler raised ")
    assert letter.reason.endswith(type(error).__name__)
    assert letter.delivery == delivery_without_deadline(letter.delivery)
    assert await replies(broker) == [Reply(refusal=FAILED)]


def delivery_without_deadline(like: Delivery) -> Delivery:
    """The record under test with the headers of another, whose deadline is its own."""
    return Delivery(Topic.VERIFICATION_COMMANDS, 5, 42, KEY, COMMAND.to_bytes(), like.headers)


async def test_nobody_is_answered_long_after_the_deadline(broker: Broker, guard: Guard) -> None:
    await settle(guard, delivery(wait_s=-CLOCKS_APART.total_seconds()), CONTRACT, Failing(ValueError(), 0))

    assert guard.ends == {"answered": 1}
    assert await replies(broker) == []


async def test_a_handler_without_an_answer_ends_too(broker: Broker, guard: Guard) -> None:
    async def silent(_: SubmitVerification) -> Event | None:
        return None

    await settle(guard, delivery(), CONTRACT, silent)

    assert guard.ends == {"answered": 1}
    assert await replies(broker) == []


async def test_a_command_is_settled_once_the_log_has_its_events(
    broker: Broker, writer: LogWriter, guard: Guard
) -> None:
    async with KafkaEventPublisher(writer, open_memory_stores(RootKey(b"r" * 32))) as publisher:

        async def handle(_: SubmitVerification) -> Event | None:
            await publisher.announce(ACME, [build_decision_event()], [])
            assert publisher._publishing  # it does not wait
            return None

        await settle(guard, delivery(), CONTRACT, handle)

        assert not publisher._publishing
        assert len(await everything_in(broker.address, Topic.DECISIONS)) == 1


@pytest.mark.parametrize("idle", [True, False])
async def test_a_command_is_passed_over_when_there_is_nothing_to_do(guard: Guard, *, idle: bool) -> None:
    """It counts as answered."""

    async def is_idle(_: SubmitVerification) -> bool:
        return idle

    assert await guard.passes_over(COMMAND, is_idle) is idle
    assert guard.ends == ({"answered": 1} if idle else {"answered": 0})


async def test_a_command_nobody_knows_to_be_idle_is_carried_out(guard: Guard) -> None:
    """Whatever went wrong with the question goes wrong again where it is handled."""

    async def is_idle(_: SubmitVerification) -> bool:
        raise RuntimeError("who knows")

    assert not await guard.passes_over(COMMAND, is_idle)


async def test_a_cancelled_guard_raises_and_settles_nothing(guard: Guard) -> None:
    begun = asyncio.Event()

    async def forever(_: SubmitVerification) -> VerificationDecided:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    settling = asyncio.create_task(settle(guard, delivery(), CONTRACT, forever))
    await begun.wait()
    settling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await settling
    assert guard.ends == {}


POISON: dict[str, Callable[[], tuple[bytes | None, bytes | None]]] = {
    "value missing": lambda: (KEY, None),
    "key missing": lambda: (None, COMMAND.to_bytes()),
    "key differs from the command's": lambda: (b"other", COMMAND.to_bytes()),
    "*: json_invalid": lambda: (KEY, b'{"verification_id": '),
    "tenant_id: missing; subject_id: missing": lambda: (
        KEY,
        COMMAND.model_dump_json(exclude={"tenant_id", "subject_id"}).encode(),
    ),
    "*: extra_forbidden": lambda: (KEY, COMMAND.to_bytes()[:-1] + b',"Ada Lovelace":1}'),
    "livemode: bool_parsing": lambda: (
        KEY,
        COMMAND.to_bytes().replace(b'"livemode":true', b'"livemode":"Ada Lovelace"'),
    ),
}


@pytest.mark.parametrize("reason", POISON)
def test_poison_is_reported_by_places_and_kinds_alone(reason: str) -> None:
    key, value = POISON[reason]()

    with pytest.raises(Poison) as poison:
        read(delivery(value, key), CONTRACT)

    assert str(poison.value) == reason


async def test_every_poison_in_the_log_is_buried_once_and_the_records_after_it_are_answered(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    poison = [make() for make in POISON.values()] + [(KEY, b"x" * 900_000)]
    await writer.write(*(Outgoing(Topic.VERIFICATION_COMMANDS, k, v, partition=2) for k, v in poison))
    app = verification_app(
        writer, quick_settings(broker.address, tmp_path), lambda _: Failing(ValueError(), 0)
    )

    async with running_worker(lambda: app):
        answered = await asyncio.gather(*(ask(gateway, f"after-{number}") for number in range(40)))
        await until_settled(broker.address)

    letters = await list_dead_letters(LogAccess(broker.address), KEYS, 100)
    assert len(answered) == 40
    assert [(letter.delivery.key, letter.delivery.value) for letter in letters] == [
        (key, value or b"") for key, value in poison
    ]
    assert [letter.delivery.offset for letter in letters] == list(range(len(poison)))
    assert [letter.reason for letter in letters] == [*POISON, "*: json_invalid"]


async def test_what_is_too_long_for_a_dead_letter_is_cut(broker: Broker, guard: Guard) -> None:
    await settle(guard, delivery(b"x" * 1_040_000), CONTRACT, Failing(ValueError(), 0))

    (letter,) = await list_dead_letters(LogAccess(broker.address), KEYS, 10)
    assert letter.cut
    assert letter.delivery.value == b"x" * MAX_VALUE_BYTES


async def test_a_handler_cut_short_by_a_stop_gets_its_record_again(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    begun = asyncio.Event()

    async def stuck(command: SubmitVerification) -> VerificationDecided:
        begun.set()
        await asyncio.Event().wait()
        return decided(command)

    async def quick(command: SubmitVerification) -> VerificationDecided:
        return decided(command)

    def run(handler: Evaluate) -> Callable[[], faust.App]:
        return lambda: verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: handler)

    async with running_worker(run(stuck)):
        asking = asyncio.create_task(ask(gateway, "stuck"))
        await begun.wait()
    async with running_worker(run(quick)):
        assert await asking == decided(submission("stuck"))


async def test_a_record_its_guard_broke_on_is_not_committed_over(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    """Records after it in its partition are answered; after a restart it comes again, and they as replays."""
    handled: list[str] = []
    begun = asyncio.Event()

    async def away_at_first(command: SubmitVerification) -> VerificationDecided:
        handled.append(command.request_id)
        begun.set()
        if handled == ["broken"]:
            raise StoreUnavailable("away")
        return decided(command)

    def broken_dice(low: float, high: float) -> float:
        raise ArithmeticError(low, high)

    def run(dice: Callable[[float, float], float]) -> Callable[[], faust.App]:
        settings = quick_settings(broker.address, tmp_path)
        return lambda: verification_app(writer, settings, lambda _: away_at_first, dice)

    async with running_worker(run(broken_dice)) as worker:
        await worker.wait_ready()
        asking = asyncio.create_task(ask(gateway, "broken"))
        await begun.wait()
        await asyncio.gather(*(ask(gateway, name) for name in names("next", 60)))
    assert handled.count("broken") == 1
    async with running_worker(run(random.uniform)):
        await asking
        await until_settled(broker.address)
    assert handled.count("broken") == 2


async def test_lines_logged_while_a_record_is_in_work_name_its_tenant(guard: Guard) -> None:
    seen: list[str | None] = []

    async def handle(_: SubmitVerification) -> Event | None:
        seen.append(tenant_in_work())
        return None

    await settle(guard, delivery(), CONTRACT, handle)

    assert (seen, tenant_in_work()) == ([COMMAND.tenant_id], None)


def test_an_agent_is_called_by_its_name_in_the_lines_of_the_library(guard: Guard) -> None:
    app = faust.App("names", autodiscover=False)

    async def handle(_: SubmitVerification) -> Event | None:
        return None

    attach(app, guard, Topic.VERIFICATION_COMMANDS, "verification", CONTRACT, handle)

    assert [agent.label for agent in app.agents.values()] == ["Agent: veristream.verification"]
