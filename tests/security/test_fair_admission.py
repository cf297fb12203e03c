"""S62: verifications that need models enter the log few at a time, in turns between tenants, or never."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from app.intake.admission import Admission
from schemas.ids import TenantId, VerificationId
from schemas.problems import DecisionPending, Overloaded
from tests.builders import ACME, GLOBEX

INITECH = TenantId("ten_initech")
PARTITIONS = 8

WAIT_S = 60.0
"""For what takes a moment; only a failure takes this long."""


class Clock:
    """Seconds that pass when reported."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Stage:
    """An admission and the requests before it; an id's last digits are its partition."""

    def __init__(self, places: int = 2, longest_wait_s: float = 100.0, late_s: float = 60.0) -> None:
        self.clock = Clock()
        self.fresh: Iterator[int] = count(100)
        self.admission = Admission(
            places, longest_wait_s, lambda name: int(name[-3:]) % PARTITIONS, self._draw, self.clock, late_s
        )
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _draw(self) -> VerificationId:
        return VerificationId(f"ver_{next(self.fresh):03d}")

    async def ask(self, tenant_id: TenantId, name: str, verification_id: str | None = None) -> None:
        """Let a request of a tenant come in and go as far as it gets."""
        self._ends[name] = asyncio.Event()
        wanted = None if verification_id is None else VerificationId(verification_id)

        async def request() -> None:
            async with self.admission.place(tenant_id, wanted):
                self.order.append(name)
                await self._ends[name].wait()

        self._tasks[name] = asyncio.create_task(request())
        await settle()

    async def end(self, name: str, after_s: float = 0.0) -> None:
        """Let a request be decided."""
        self.clock.now += after_s
        self._ends[name].set()
        await self._tasks[name]
        await settle()

    async def refusal_of(self, name: str) -> Overloaded:
        """Return what a request was refused with."""
        with pytest.raises(Overloaded) as refused:
            await self._tasks[name]
        return refused.value

    async def aclose(self) -> None:
        """Drop every request."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.admission.aclose()


async def settle() -> None:
    """Let everything that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def stage(places: int = 2, longest_wait_s: float = 100.0, late_s: float = 60.0) -> AsyncIterator[Stage]:
    """Open a stage."""
    opened = Stage(places, longest_wait_s, late_s)
    try:
        yield opened
    finally:
        await opened.aclose()


async def test_s62_no_more_are_released_than_there_are_places() -> None:
    async with stage(places=2) as on:
        for number in range(5):
            await on.ask(ACME, f"a{number}")

        assert (on.order, on.admission.waiting) == (["a0", "a1"], 3)


async def test_s62_a_tenant_alone_has_every_place_in_its_own_order() -> None:
    async with stage(places=2) as on:
        for number in range(4):
            await on.ask(ACME, f"a{number}")
        await on.end("a1")
        await on.end("a0")

        assert on.order == ["a0", "a1", "a2", "a3"]


async def test_s62_another_tenants_first_request_does_not_wait_for_the_busy_one() -> None:
    async with stage(places=2) as on:
        for number in range(16):
            await on.ask(ACME, f"a{number}")
        await on.ask(GLOBEX, "b0")

        assert on.order == ["a0", "a1", "b0"]


async def test_s62_the_busy_tenant_gets_no_place_before_the_excess_is_gone() -> None:
    async with stage(places=2) as on:
        for number in range(16):
            await on.ask(ACME, f"a{number}")
        await on.ask(GLOBEX, "b0")
        await on.end("a0")
        assert on.order == ["a0", "a1", "b0"]
        await on.end("b0")

        assert on.order == ["a0", "a1", "b0", "a2"]


async def test_s62_a_tenant_has_as_many_places_as_a_busy_one_without_waiting_and_no_more() -> None:
    async with stage(places=2) as on:
        for number in range(16):
            await on.ask(ACME, f"a{number}")
        for number in range(3):
            await on.ask(GLOBEX, f"b{number}")
        assert on.order == ["a0", "a1", "b0", "b1"]
        for name in ("b0", "b1", "a0", "a1"):
            await on.end(name)

        assert on.order == ["a0", "a1", "b0", "b1", "b2", "a2"]


async def test_s62_the_excess_is_bounded_whatever_the_number_of_tenants() -> None:
    async with stage(places=2) as on:
        for number in range(16):
            await on.ask(TenantId(f"ten_{number}"), f"t{number}")

        assert on.admission.released == 4


async def test_s62_places_go_to_the_tenant_with_the_fewest_and_then_in_turns() -> None:
    async with stage(places=1) as on:
        for tenant_id, name in ((ACME, "a"), (GLOBEX, "b"), (INITECH, "c")):
            for number in range(3):
                await on.ask(tenant_id, f"{name}{number}")
        assert on.order == ["a0", "b0"]  # a place, and the one above it for who has none
        for name in ("a0", "b0", "c0", "a1", "b1", "c1", "a2"):
            await on.end(name)

        assert on.order == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_s62_who_would_wait_too_long_is_refused_at_once_and_asked_to_come_back() -> None:
    async with stage(places=2, longest_wait_s=10.0) as on:
        on.admission.decision_s = 5.0
        for number in range(7):
            await on.ask(ACME, f"a{number}")

        refused = await on.refusal_of("a6")
        assert (on.admission.waiting, refused.retry_after_s) == (4, 13)  # (4 ahead + 1) * 5 s / 2 = 12.5 s


async def test_s62_what_a_busy_tenant_has_waiting_does_not_count_for_another() -> None:
    async with stage(places=2, longest_wait_s=10.0) as on:
        on.admission.decision_s = 5.0
        for number in range(6):
            await on.ask(ACME, f"a{number}")

        assert on.admission.estimate_s(GLOBEX) == 5.0  # one of the busy tenant's turns comes before


async def test_s62_a_tenant_with_nothing_waiting_is_not_refused_by_an_estimate() -> None:
    async with stage(places=2, longest_wait_s=10.0) as on:
        on.admission.decision_s = 60.0
        for number in range(4):
            await on.ask(ACME, f"a{number}")
        for number in range(3):
            await on.ask(GLOBEX, f"b{number}")

        assert (await on.refusal_of("a3")).retry_after_s == 60
        assert (on.order, on.admission.waiting) == (["a0", "a1", "b0", "b1"], 2)


async def test_s62_the_estimate_follows_what_is_measured() -> None:
    async with stage(places=1) as on:
        for number in range(30):
            await on.ask(ACME, f"a{number}")
            await on.end(f"a{number}", after_s=8.0)

        assert on.admission.decision_s == pytest.approx(8.0, rel=0.01)


async def test_s62_a_wait_that_lasts_longer_than_estimated_ends_as_a_refusal() -> None:
    async with stage(places=1, longest_wait_s=0.05) as on:
        on.admission.decision_s = 0.01
        await on.ask(ACME, "a0")
        await on.ask(ACME, "a1")
        refused = await on.refusal_of("a1")
        await on.end("a0")

        assert (refused.retry_after_s, on.admission.waiting, on.admission.released) == (1, 0, 0)


async def test_s62_a_request_that_is_given_up_leaves_the_queue() -> None:
    async with stage(places=1) as on:
        await on.ask(ACME, "a0")
        await on.ask(ACME, "a1")
        on._tasks["a1"].cancel()
        await settle()
        await on.ask(ACME, "a2")
        await on.end("a0")

        assert (on.order, on.admission.waiting) == (["a0", "a2"], 0)


async def test_s62_two_that_share_a_partition_are_not_released_at_once() -> None:
    async with stage(places=2) as on:
        await on.ask(ACME, "a0", "ver_003")
        await on.ask(ACME, "a1", "ver_011")
        await on.ask(ACME, "a2", "ver_004")
        assert on.order == ["a0", "a2"]
        await on.end("a0")

        assert on.order == ["a0", "a2", "a1"]


async def test_s62_a_tenant_with_fewer_places_than_another_does_not_wait_for_a_partition() -> None:
    async with stage(places=2) as on:
        await on.ask(ACME, "a0", "ver_003")
        await on.ask(ACME, "a1", "ver_004")
        await on.ask(GLOBEX, "b0", "ver_011")
        await on.ask(GLOBEX, "b1", "ver_019")

        assert on.order == ["a0", "a1", "b0", "b1"]


async def test_s62_a_fresh_id_is_drawn_in_a_free_partition() -> None:
    async with stage(places=2) as on:
        await on.ask(ACME, "a0", "ver_104")
        on.fresh = count(104)

        assert on.admission.fresh_id() == "ver_105"


async def test_s62_an_overdue_verification_keeps_its_place_until_it_is_decided() -> None:
    decided = asyncio.Event()
    async with stage(places=1) as on:

        async def overdue() -> None:
            async with on.admission.place(ACME, None) as place:
                place.decided = is_decided
                raise DecisionPending

        async def is_decided() -> bool:
            return decided.is_set()

        with pytest.raises(DecisionPending):
            await overdue()
        await on.ask(ACME, "a1")
        assert (on.order, on.admission.released) == ([], 1)
        decided.set()
        async with asyncio.timeout(WAIT_S):
            while not on.order:  # noqa: ASYNC110 - it looks at its own pace
                await asyncio.sleep(0.05)

    assert on.admission.released == 0


async def test_s62_a_verification_that_is_never_decided_gives_its_place_back_in_the_end() -> None:
    async with stage(places=1, late_s=0.05) as on:
        with pytest.raises(DecisionPending):
            async with on.admission.place(ACME, None):
                raise DecisionPending
        await asyncio.gather(*on.admission._overdue)

        assert on.admission.released == 0
