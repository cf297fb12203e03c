"""The window: keys side by side, each in order, and no offset acknowledged past an unsettled record."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.broker.server import Broker
from app.kafka.request_reply import Gateway
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.producer import LogWriter, Outgoing, partition_of
from streams.runtime.supervisor import running_worker
from streams.runtime.window import MOST_BYTES, MOST_UNACKNOWLEDGED, MOST_UNDER_WAY, Window
from tests.agents.support import (
    ask,
    committed,
    decided,
    names,
    quick_settings,
    submission,
    until_settled,
    verification_app,
)


@dataclass(eq=False)
class Message:
    """What a window sees of a record."""

    key: bytes
    offset: int
    value: bytes = b""


@dataclass(eq=False)
class Event:
    """What Faust hands out."""

    message: Message


class Stage:
    """A window, and what became of its records."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.abandoned: list[int] = []
        self.begun: list[int] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.window = Window(
            lambda message: self.acknowledged.append(cast("Any", message).offset),
            lambda message: self.abandoned.append(cast("Any", message).offset),
            self.tasks,
        )
        self._offset = 0

    def start(self, key: str, work: Callable[[], Awaitable[object]], value: bytes = b"") -> None:
        """Let the window take the next record and do the work for it."""
        offset, self._offset = self._offset, self._offset + 1
        entry = self.window.take(cast("Any", Event(Message(key.encode(), offset, value))))

        async def carry_out() -> None:
            self.begun.append(offset)
            await work()

        self.window.start(entry, carry_out)

    async def settle(self) -> None:
        """Let the loop do whatever can be done now."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def has_room(self) -> bool:
        """Whether another record may be taken now."""
        waiting = asyncio.create_task(self.window.wait_for_room())
        await self.settle()
        return waiting.done() or not waiting.cancel()


async def at_once() -> None:
    """Work that is done at once."""


async def broken() -> None:
    """Work that fails in a way nobody thought of."""
    raise ArithmeticError


async def test_a_record_that_takes_long_holds_back_its_key_and_the_offsets_behind_it_alone() -> None:
    stage, door = Stage(), asyncio.Event()
    stage.start("slow", door.wait)
    stage.start("other", at_once)
    stage.start("slow", at_once)
    await stage.settle()
    assert (stage.begun, stage.acknowledged) == ([0, 1], [])

    door.set()
    await stage.settle()
    assert (stage.begun, stage.acknowledged) == ([0, 1, 2], [0, 1, 2])
    assert (stage.abandoned, stage.tasks) == ([], set())


async def test_a_record_whose_handling_broke_is_abandoned_in_its_turn() -> None:
    stage, door = Stage(), asyncio.Event()
    stage.start("first", door.wait)
    stage.start("second", broken)
    stage.start("second", at_once)
    await stage.settle()
    assert (stage.begun, stage.abandoned) == ([0, 1, 2], [])

    door.set()
    await stage.settle()
    assert (stage.acknowledged, stage.abandoned) == ([0, 2], [1])


async def test_a_window_cut_short_abandons_what_was_not_acknowledged_and_leaves_nothing_running() -> None:
    stage, ended = Stage(), list[int]()

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    stage.start("quick", at_once)
    await stage.settle()
    stage.start("long", long)
    stage.start("settled", at_once)
    stage.start("long", at_once)
    await stage.settle()

    await stage.window.cut_short()

    assert (stage.acknowledged, stage.abandoned) == ([0], [1, 2, 3])
    assert (ended, stage.begun, stage.tasks) == ([1], [0, 1, 2], set())


async def test_a_window_takes_so_many_records_and_no_more() -> None:
    stage, door = Stage(), asyncio.Event()
    for number in range(MOST_UNDER_WAY):
        assert await stage.has_room()
        stage.start(f"key-{number}", door.wait)
    assert not await stage.has_room()

    door.set()
    await stage.settle()
    assert await stage.has_room()


async def test_a_window_holds_so_many_bytes_and_no_more() -> None:
    stage, door = Stage(), asyncio.Event()
    stage.start("large", door.wait, bytes(MOST_BYTES))
    assert not await stage.has_room()

    door.set()
    await stage.settle()
    assert await stage.has_room()


async def test_one_record_holds_back_so_many_offsets_and_no_more() -> None:
    stage, door = Stage(), asyncio.Event()
    stage.start("slow", door.wait)
    for number in range(1, MOST_UNACKNOWLEDGED):
        assert number % 100 or await stage.has_room()
        stage.start(f"key-{number}", at_once)
        await asyncio.sleep(0)
    await stage.settle()
    assert not await stage.has_room()

    door.set()
    await stage.settle()
    assert stage.acknowledged == list(range(MOST_UNACKNOWLEDGED))
    assert await stage.has_room()


def of_one_partition(prefix: str, count: int) -> list[str]:
    """Names of commands that the log keeps in one partition."""

    def place(name: str) -> int:
        key = submission(name).verification_id.encode()
        return partition_of(Outgoing(Topic.VERIFICATION_COMMANDS, key, None))

    return [name for name in names(prefix, 40 * count) if place(name) == 0][:count]


async def test_a_slow_command_delays_none_of_its_partition_and_comes_again_after_a_stop(
    broker: Broker, writer: LogWriter, gateway: Gateway, tmp_path: Path
) -> None:
    """What was answered behind it comes again as well, for its offset could not be committed."""
    slow, *others = of_one_partition("window", 30)
    handled: Counter[str] = Counter()
    begun = asyncio.Event()

    async def handle(command: SubmitVerification) -> VerificationDecided:
        handled[command.request_id] += 1
        if command.request_id == slow and handled[slow] == 1:
            begun.set()
            await asyncio.Event().wait()
        return decided(command)

    def build() -> Any:
        return verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: handle)

    async with running_worker(build):
        asking = asyncio.create_task(ask(gateway, slow))
        await begun.wait()
        await asyncio.gather(*(ask(gateway, name) for name in others))
    assert (await committed(broker.address, Topic.VERIFICATION_COMMANDS))[0] == 0

    async with running_worker(build):
        await asking
        await until_settled(broker.address)
    assert handled == dict.fromkeys([slow, *others], 2)


async def test_commands_of_one_key_are_handled_one_after_another_beside_those_of_others(
    broker: Broker, writer: LogWriter, gateway: Gateway, tmp_path: Path
) -> None:
    """None ends before two keys of the partition were at work at once."""
    at_work: Counter[str] = Counter()
    most: Counter[str] = Counter()
    side_by_side = asyncio.Event()

    async def handle(command: SubmitVerification) -> VerificationDecided:
        name = command.request_id
        at_work[name] += 1
        most[name] = max(most[name], at_work[name])
        if len(+at_work) > 1:
            side_by_side.set()
        await side_by_side.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        at_work[name] -= 1
        return decided(command)

    asked = of_one_partition("ordered", 8) * 8
    settings = quick_settings(broker.address, tmp_path)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: handle)) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in asked))

    assert most == dict.fromkeys(asked, 1)
