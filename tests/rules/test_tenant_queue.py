"""The queue between tenants: who used least comes first, nobody starves, and little is remembered."""

import asyncio
from collections.abc import Sequence
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.fair_queue import MOST_REMEMBERED, TenantQueue

CREDIT_S = 4.0

LENGTHS_S = st.lists(st.floats(0.01, 2.0), min_size=1, max_size=30)
"""What a tenant waits for, each with the seconds it will use."""


class Place:
    """One place, and who had it in which order."""

    def __init__(self) -> None:
        self.queue = TenantQueue(CREDIT_S)
        self.had: list[tuple[str, int]] = []
        """The tenant, and which of its waits it was."""
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, tenant: str, times: int) -> None:
        """Let a tenant wait so many times."""
        self._tasks += [asyncio.create_task(self._wait(tenant, number)) for number in range(times)]
        await asyncio.sleep(0)

    async def _wait(self, tenant: str, number: int) -> None:
        await self.queue.wait(tenant, lambda: None)
        self.had.append((tenant, number))

    async def call(self) -> str:
        """Give the place to the next and return its tenant."""
        assert self.queue.call_next()
        await asyncio.sleep(0)
        return self.had[-1][0]

    async def aclose(self) -> None:
        """Drop those that wait."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def used_through(waits: Sequence[Sequence[float]]) -> tuple[Place, float]:
    """Serve tenants that all come at once; return the place, and the widest gap between two that wait."""
    place, left = Place(), {str(name): list(lengths_s) for name, lengths_s in enumerate(waits)}
    used_s, widest_s = dict.fromkeys(left, 0.0), 0.0
    for tenant, lengths_s in left.items():
        await place.ask(tenant, len(lengths_s))
    while any(left.values()):
        waiting_s = [used_s[tenant] for tenant, lengths_s in left.items() if lengths_s]
        widest_s = max(widest_s, max(waiting_s) - min(waiting_s))
        tenant = await place.call()
        seconds = left[tenant].pop(0)
        used_s[tenant] += seconds
        place.queue.charge(tenant, seconds)
    return place, widest_s


@given(st.lists(LENGTHS_S, min_size=1, max_size=4))
def test_everyone_is_served_in_the_order_of_the_own_waits(waits: list[list[float]]) -> None:
    place, _ = asyncio.run(used_through(waits))

    for name, lengths_s in enumerate(waits):
        own = [number for tenant, number in place.had if tenant == str(name)]
        assert own == list(range(len(lengths_s)))
    assert not place.queue.call_next()


@given(st.lists(LENGTHS_S, min_size=2, max_size=4))
def test_tenants_that_come_at_once_have_used_the_same_but_for_one_length(waits: list[list[float]]) -> None:
    _, widest_s = asyncio.run(used_through(waits))

    assert widest_s <= max(max(lengths_s) for lengths_s in waits) + 1e-6


async def at_rest_then_beside(earlier_s: float, lengths_s: Sequence[float]) -> float:
    """Return what a tenant may use that comes from rest before one that has used the place is called."""
    place = Place()
    await place.ask("busy", 1)
    await place.call()
    place.queue.charge("busy", earlier_s)
    place.queue.call_next()
    await place.ask("busy", 1)
    await place.ask("rested", len(lengths_s))
    used_s = 0.0
    for seconds in lengths_s:
        if await place.call() == "busy":
            break
        used_s += seconds
        place.queue.charge("rested", seconds)
    await place.aclose()
    return used_s


@given(st.floats(0.01, 1e6), LENGTHS_S)
def test_a_tenant_from_rest_delays_a_busy_one_by_its_credit_and_one_length_at_most(
    earlier_s: float, lengths_s: list[float]
) -> None:
    used_s = asyncio.run(at_rest_then_beside(earlier_s, lengths_s))

    assert used_s <= min(earlier_s, CREDIT_S) + max(lengths_s) + 1e-6


@given(st.floats(CREDIT_S, 1e6), st.integers(1, 20))
def test_a_tenant_from_rest_waits_for_none_of_a_busy_ones_turns_within_its_credit(
    earlier_s: float, times: int
) -> None:
    lengths_s = [CREDIT_S / times * 0.99] * times

    assert asyncio.run(at_rest_then_beside(earlier_s, lengths_s)) == sum(lengths_s)


async def test_who_used_less_between_turns_goes_first_again() -> None:
    place = Place()
    await place.ask("busy", 6)
    for number in range(3):
        assert await place.call() == "busy"
        place.queue.charge("busy", 2.0)
        await place.ask("quiet", 1)
        assert await place.call() == "quiet", number
        place.queue.charge("quiet", 1.0)
    await place.aclose()


async def test_tenants_that_never_come_again_are_forgotten() -> None:
    queue, names = TenantQueue(CREDIT_S), count()
    for _ in range(2 * MOST_REMEMBERED):
        queue.charge(str(next(names)), 1.0)
        queue.call_next()
    assert len(queue._used_s) <= MOST_REMEMBERED

    for _ in range(10):
        queue.charge("busy", 1.0)
        queue.call_next()
    assert set(queue._used_s) == {"busy"}
