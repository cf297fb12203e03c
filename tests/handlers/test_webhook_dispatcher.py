"""Who is attempted when: bounded per endpoint and in all, and nobody waits for receivers that hang."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from schemas.ids import DeliveryId, EndpointId
from schemas.problems import StoreUnavailable
from schemas.webhooks import Deliver
from streams.webhooks.dispatcher import Bounds, Dispatcher
from streams.webhooks.ports import AttemptResult, Outcome
from tests.builders import ACME

PROMPT = AttemptResult(Outcome.DELIVERED, slow=False)
SLOW = AttemptResult(Outcome.RETRYING, slow=True)


def command(endpoint: str, number: int = 0) -> Deliver:
    """A delivery to an endpoint."""
    delivery_id = DeliveryId(f"{endpoint}-{number}")
    return Deliver(tenant_id=ACME, endpoint_id=EndpointId(endpoint), delivery_id=delivery_id)


@dataclass
class Receivers:
    """Attempts that last until their endpoint lets go of them; who is not held answers at once."""

    blocked: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    under_way: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    slow: set[str] = field(default_factory=set)
    """Endpoints whose answers, once let go, count as slow."""

    def hold(self, *endpoints: str) -> None:
        """Let their attempts hang."""
        for one in endpoints:
            self.blocked[one] = asyncio.Event()

    def let_go(self, endpoint: str) -> None:
        """End what hangs."""
        self.blocked.pop(endpoint).set()

    async def attempt(self, asked: Deliver) -> AttemptResult:
        """Make an attempt."""
        name = asked.endpoint_id
        self.begun.append(asked.delivery_id)
        for counted in (name, "all"):
            self.under_way[counted] += 1
            self.most[counted] = max(self.most[counted], self.under_way[counted])
        try:
            await asyncio.sleep(0)
            if name in self.blocked:
                await self.blocked[name].wait()
        finally:
            self.under_way.subtract((name, "all"))
        return SLOW if name in self.slow else PROMPT


@asynccontextmanager
async def dispatching(bounds: Bounds | None = None) -> AsyncIterator[tuple[Dispatcher, Receivers]]:
    """A dispatcher and what it calls."""
    receivers = Receivers()
    async with Dispatcher(receivers.attempt, bounds, grace_s=0.0) as dispatcher:
        yield dispatcher, receivers


async def rest() -> None:
    """Let whatever can go on go on."""
    for _ in range(200):
        await asyncio.sleep(0)


async def prove(dispatcher: Dispatcher, *endpoints: str) -> None:
    """Let endpoints answer promptly once."""
    for one in endpoints:
        dispatcher.offer(command(one, -1))
    await dispatcher.until_quiet()


async def test_an_endpoint_has_at_most_eight_attempts_under_way() -> None:
    """However much waits for it."""
    async with dispatching() as (dispatcher, receivers):
        await prove(dispatcher, "a")
        receivers.hold("a")
        for number in range(30):
            dispatcher.offer(command("a", number))
        await rest()

        assert (receivers.under_way["a"], dispatcher.waiting) == (8, 22)


async def test_an_endpoint_that_never_answered_has_two() -> None:
    """Until it shows that it answers, it may be one that hangs."""
    async with dispatching() as (dispatcher, receivers):
        receivers.hold("a")
        for number in range(30):
            dispatcher.offer(command("a", number))
        await rest()

        assert receivers.under_way["a"] == 2


async def test_twenty_hanging_endpoints_do_not_delay_another() -> None:
    """Not one that is known to be prompt, nor one that nobody knows yet."""
    hanging = [f"hanging-{number}" for number in range(20)]
    async with dispatching() as (dispatcher, receivers):
        await prove(dispatcher, "known")
        receivers.hold(*hanging)
        for name in hanging:
            for number in range(100):
                dispatcher.offer(command(name, number))
        await rest()
        for name in ("known", "unknown"):
            for number in range(100):
                dispatcher.offer(command(name, number))
        await rest()

        assert Counter(begun.split("-")[0] for begun in receivers.begun)["known"] == 101
        assert Counter(begun.split("-")[0] for begun in receivers.begun)["unknown"] == 100


async def test_however_many_hang_half_is_left_for_the_prompt() -> None:
    """A thousand hanging endpoints of many tenants."""
    hanging = [f"hanging-{number}" for number in range(1_000)]
    async with dispatching() as (dispatcher, receivers):
        await prove(dispatcher, *hanging, "prompt")
        receivers.slow.update(hanging)
        await prove(dispatcher, *hanging)
        receivers.hold(*hanging)
        for name in hanging:
            dispatcher.offer(command(name, 0))
        await rest()
        dispatcher.offer(command("prompt", 0))
        await rest()

        assert receivers.under_way["all"] == Bounds().of_suspects
        assert receivers.begun[-1] == "prompt-0"


async def test_no_more_than_the_bound_are_under_way_in_all() -> None:
    """Of prompt endpoints that all begin to hang at once."""
    names = [f"endpoint-{number}" for number in range(100)]
    async with dispatching() as (dispatcher, receivers):
        await prove(dispatcher, *names)
        receivers.hold(*names)
        for name in names:
            for number in range(8):
                dispatcher.offer(command(name, number))
        await rest()

        assert receivers.most["all"] == Bounds().in_all


async def test_endpoints_have_their_turns() -> None:
    """One with much to get does not go before one with little."""
    async with dispatching(Bounds(in_all=1)) as (dispatcher, receivers):
        receivers.hold("first")
        dispatcher.offer(command("first"))
        for number in range(50):
            dispatcher.offer(command("much", number))
        dispatcher.offer(command("little"))
        receivers.let_go("first")
        await dispatcher.until_quiet()

        assert receivers.begun.index("little-0") <= 3


async def test_what_is_offered_twice_is_attempted_once() -> None:
    """While it waits and while it is under way."""
    async with dispatching() as (dispatcher, receivers):
        receivers.hold("a")
        for _ in range(3):
            dispatcher.offer(command("a"))
            await rest()
        receivers.let_go("a")
        await dispatcher.until_quiet()

        assert receivers.begun == ["a-0"]


async def test_what_was_attempted_may_be_offered_again() -> None:
    """A retry, while others to the same endpoint are still under way."""
    async with dispatching() as (dispatcher, receivers):
        dispatcher.offer(command("a", 0))
        await dispatcher.until_quiet()
        receivers.hold("a")
        dispatcher.offer(command("a", 1))
        dispatcher.offer(command("a", 2))
        await rest()
        blocked = receivers.blocked.pop("a")
        dispatcher.offer(command("a", 3))
        await rest()
        dispatcher.offer(command("a", 3))
        await rest()
        blocked.set()
        await dispatcher.until_quiet()

        assert receivers.begun == ["a-0", "a-1", "a-2", "a-3", "a-3"]


async def test_what_has_no_room_is_dropped() -> None:
    """The store says that it is pending; memory is bounded."""
    async with dispatching(Bounds(waiting_per_endpoint=3)) as (dispatcher, receivers):
        receivers.hold("a")
        taken = [dispatcher.offer(command("a", number)) for number in range(10)]

        assert (taken.count(True), dispatcher.ends["dropped"]) == (5, 5)


async def test_an_endpoint_that_becomes_slow_keeps_two_places() -> None:
    """And gets the others back once it is prompt again."""
    async with dispatching() as (dispatcher, receivers):
        await prove(dispatcher, "a")
        receivers.slow.add("a")
        await prove(dispatcher, "a")
        receivers.hold("a")
        for number in range(30):
            dispatcher.offer(command("a", number))
        await rest()
        while_slow = receivers.under_way["a"]
        receivers.slow.clear()
        blocked = receivers.blocked.pop("a")
        receivers.hold("a")
        blocked.set()
        await rest()

        assert (while_slow, receivers.under_way["a"]) == (2, 8)


async def test_an_attempt_that_breaks_takes_nothing_with_it() -> None:
    """A defect, or a store that is away: the next one is attempted."""
    errors: list[Exception] = [RuntimeError("defect"), StoreUnavailable("away")]

    async def attempt(_: Deliver) -> AttemptResult:
        if errors:
            raise errors.pop()
        return PROMPT

    async with Dispatcher(attempt) as dispatcher:
        for number in range(3):
            dispatcher.offer(command("a", number))
        await dispatcher.until_quiet()

        assert dispatcher.ends == {"broke": 2, Outcome.DELIVERED: 1}


async def test_nothing_is_begun_after_the_end() -> None:
    """What comes then is dropped, and what waits stays in the store."""
    async with dispatching() as (dispatcher, receivers):
        receivers.hold("a")
        for number in range(5):
            dispatcher.offer(command("a", number))
        await rest()
    await rest()

    assert (len(receivers.begun), dispatcher.offer(command("b"))) == (2, False)
