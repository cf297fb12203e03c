"""Calls that share requests: how many, in which, and what a failure of one means for the others."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from app.adapters.cassandra.coalescing import Coalescer
from schemas.problems import StoreUnavailable


@dataclass
class Store:
    """Answers what it is asked, twice the number; a request waits for `go`."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[list[int]] = field(default_factory=list)
    unreachable: frozenset[int] = frozenset()
    hanging: frozenset[int] = frozenset()

    async def __call__(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return the answers of one request."""
        self.asked.append(list(numbers))
        self.reached.set()
        await self.go.wait()
        if self.hanging & {*numbers}:
            await asyncio.Event().wait()
        if self.unreachable & {*numbers}:
            raise StoreUnavailable("a partition is away")
        return [2 * number for number in numbers]


async def test_calls_of_one_turn_share_a_request_and_those_made_meanwhile_the_next() -> None:
    store = Store()
    call = Coalescer(store, most=3)
    first = [asyncio.ensure_future(call(number)) for number in (1, 2)]
    await store.reached.wait()
    later = [asyncio.ensure_future(call(number)) for number in (3, 4, 5, 6)]
    await asyncio.sleep(0)

    store.go.set()

    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8, 10, 12]
    assert store.asked == [[1, 2], [3, 4, 5], [6]]


async def test_only_calls_of_one_group_share_a_request_and_a_large_item_has_its_own() -> None:
    store = Store()
    store.go.set()
    call = Coalescer(store, most=10, size_of=lambda number: number, group_of=lambda number: number % 2)

    assert await asyncio.gather(*map(call, (1, 2, 3, 4, 50))) == [2, 4, 6, 8, 100]

    assert store.asked == [[1, 3], [2, 4], [50]]


async def test_an_unreachable_partition_fails_no_call_but_its_own() -> None:
    store = Store(unreachable=frozenset({2}))
    store.go.set()
    call = Coalescer(store, most=9)

    answers = await asyncio.gather(*map(call, (1, 2, 3)), return_exceptions=True)

    assert answers[::2] == [2, 6]
    assert isinstance(answers[1], StoreUnavailable)


async def test_a_defect_reaches_every_caller_and_later_calls_are_answered() -> None:
    async def run(numbers: Sequence[int]) -> Sequence[int]:
        if 0 in numbers:
            raise ValueError("refused")
        return numbers

    call = Coalescer(run, most=9)

    answers = await asyncio.gather(call(0), call(1), return_exceptions=True)

    assert [type(answer) for answer in answers] == [ValueError, ValueError]
    assert await call(1) == 1


async def test_a_request_that_hangs_holds_back_nobody_for_long() -> None:
    store = Store(hanging=frozenset({1}))
    store.go.set()
    call = Coalescer(store, most=1)
    hanging = asyncio.ensure_future(call(1))
    await asyncio.sleep(0)

    async with asyncio.timeout(60):
        assert await call(2) == 4

    hanging.cancel()


async def test_who_was_cancelled_before_its_request_is_not_asked_for() -> None:
    store = Store()
    call = Coalescer(store, most=9)
    under_way = asyncio.ensure_future(call(1))
    await store.reached.wait()
    left, stays = asyncio.ensure_future(call(2)), asyncio.ensure_future(call(3))
    await asyncio.sleep(0)

    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    store.go.set()

    assert list(await asyncio.gather(under_way, stays)) == [2, 6]
    assert store.asked == [[1], [3]]


async def test_as_many_requests_as_allowed_are_under_way_and_further_calls_share_the_next() -> None:
    store = Store()
    call = Coalescer(store, most=2, at_once=2)
    first = [asyncio.ensure_future(call(number)) for number in (1, 2, 3, 4, 5, 6)]
    for _ in range(9):
        await asyncio.sleep(0)
    asked_before = list(store.asked)

    store.go.set()

    assert await asyncio.gather(*first) == [2, 4, 6, 8, 10, 12]
    assert asked_before == [[1, 2], [3, 4]]
    assert store.asked[2:] == [[5, 6]]
    assert await call(7) == 14
