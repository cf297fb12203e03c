"""The dead letters: reported with their reason, and sent again once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from app.broker.server import Broker
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.authentication import without_authentication
from streams.runtime.dead_letters import (
    REDRIVEN,
    Redriven,
    dead_letter,
    list_dead_letters,
    redrive,
)
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.lag import measure_waiting
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from tests.agents.support import (
    KEYS,
    decided,
    everything_in,
    names,
    now,
    quick_settings,
    signed,
    submission,
    until_settled,
    verification_app,
)


def buried(name: str, offset: int = 7, headers: Mapping[str, bytes] = MappingProxyType({})) -> Delivery:
    """A command that lies among the dead letters."""
    command = submission(name)
    key = command.verification_id.encode()
    return signed(Delivery(Topic.VERIFICATION_COMMANDS, 1, offset, key, command.to_bytes(), headers))


async def bury(writer: LogWriter, *deliveries: Delivery) -> None:
    """Bury records as the guard does."""
    await writer.write(*(dead_letter(delivery, "handler raised KeyError", now()) for delivery in deliveries))


async def test_a_letter_tells_what_it_was_and_why_it_lies_there(broker: Broker, writer: LogWriter) -> None:
    delivery = buried("told", headers={"cid": b"question"})

    await bury(writer, delivery)

    (letter,) = await list_dead_letters(LogAccess(broker.address), KEYS, 10)
    stood = replace(delivery, appended_ms=None)
    assert (letter.delivery, letter.reason) == (stood, "handler raised KeyError")
    assert not letter.redriven


async def test_the_newest_letters_are_listed_oldest_first(broker: Broker, writer: LogWriter) -> None:
    await bury(writer, *(buried(name, offset) for offset, name in enumerate(names("listed", 5))))

    listed = await list_dead_letters(LogAccess(broker.address), KEYS, 2)
    assert [letter.delivery.offset for letter in listed] == [3, 4]


async def test_letters_are_counted_until_they_are_sent_again(broker: Broker, writer: LogWriter) -> None:
    access = LogAccess(broker.address)
    counted = [(await measure_waiting(access)).dead_letters]
    await bury(writer, *(buried(name) for name in names("counted", 3)))
    counted.append((await measure_waiting(access)).dead_letters)
    await redrive(access, KEYS, writer, limit=2)
    counted.append((await measure_waiting(access)).dead_letters)

    assert counted == [0, 3, 1]


async def test_letters_are_sent_again_once_and_handled(
    broker: Broker, writer: LogWriter, tmp_path: Path
) -> None:
    handled: list[str] = []

    async def decide(command: SubmitVerification) -> VerificationDecided:
        handled.append(command.request_id)
        return decided(command)

    await bury(writer, *(buried(name) for name in names("again", 3)))

    assert [(await redrive(LogAccess(broker.address), KEYS, writer, limit=2)).sent for _ in range(3)] == [
        2,
        1,
        0,
    ]
    settings = quick_settings(broker.address, tmp_path)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: decide)):
        await until_settled(broker.address)
    sent_again = await everything_in(broker.address, Topic.VERIFICATION_COMMANDS)
    assert len(sent_again) == 3
    assert set(handled) == set(names("again", 3))
    assert [letter.redriven for letter in await list_dead_letters(LogAccess(broker.address), KEYS, 10)] == [
        True
    ] * 3


async def test_a_letter_sent_again_has_its_key_and_no_one_who_waits(
    broker: Broker, writer: LogWriter
) -> None:
    waited = {"reply-to": b"idv.replies.v1/0", "deadline": b"1", "cid": b"question"}
    await bury(writer, buried("headers", headers=waited))

    await redrive(LogAccess(broker.address), KEYS, writer)

    (record,) = await everything_in(broker.address, Topic.VERIFICATION_COMMANDS)
    assert record.key == submission("headers").verification_id.encode()
    assert without_authentication(dict(record.headers)) == {"cid": b"question", REDRIVEN: b"0"}


async def test_a_letter_that_was_cut_stays_where_it_is(broker: Broker, writer: LogWriter) -> None:
    await writer.write(dead_letter(buried("cut"), "too long", now(), max_bytes=10))

    assert await redrive(LogAccess(broker.address), KEYS, writer) == Redriven(0, 1)
    assert await everything_in(broker.address, Topic.VERIFICATION_COMMANDS) == []
