"""Turns at the engines: so many at one time, and many of one tenant keep nobody else waiting."""

import asyncio
from collections.abc import Iterator
from itertools import repeat

from streams.verification.evaluation_limits import EngineSlots
from streams.vision_ports import on_behalf_of


class Engine:
    """What is done in a turn; it ends when it is asked to."""

    def __init__(self, places: int) -> None:
        self.turns = EngineSlots(places)
        self.order: list[str] = []
        self._doors: dict[asyncio.Task[None], asyncio.Event] = {}

    def ask(self, *tenants: str) -> list[asyncio.Task[None]]:
        """Ask for a turn for each."""
        return [asyncio.create_task(self._look(tenant)) for tenant in tenants]

    async def _look(self, tenant: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        with on_behalf_of(tenant):
            async with self.turns.taken():
                self.order.append(tenant)
                door = self._doors[task] = asyncio.Event()
                await door.wait()

    async def end_one(self) -> None:
        """Let the one that has looked for longest come to its end."""
        await asyncio.sleep(0)
        task = next(iter(self._doors))
        self._doors.pop(task).set()
        await task
        await asyncio.sleep(0)


def load(count: int) -> Iterator[str]:
    """So many requests of one tenant."""
    return repeat("many", count)


async def test_so_many_look_at_one_time() -> None:
    engine = Engine(2)
    asked = engine.ask(*load(5))
    await asyncio.sleep(0)
    assert len(engine.order) == 2

    for _ in asked:
        await engine.end_one()
    assert len(engine.order) == 5


async def test_a_tenant_that_comes_late_waits_for_one_turn_of_many() -> None:
    engine = Engine(1)
    asked = engine.ask(*load(5), "late", "later")

    for _ in asked:
        await engine.end_one()

    assert engine.order == ["many", "many", "late", "later", *load(3)]


async def test_a_turn_that_is_given_up_goes_to_the_next() -> None:
    engine = Engine(1)
    _, waiting, _ = engine.ask("first", "gone", "last")
    await asyncio.sleep(0)
    waiting.cancel()

    await engine.end_one()
    assert engine.order == ["first", "last"]
    await engine.end_one()

    engine.ask("after")
    await asyncio.sleep(0)
    assert engine.order == ["first", "last", "after"]
    await engine.end_one()
