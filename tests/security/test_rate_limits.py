"""Limits hold for a tenant's keys as a whole and for all fronts of one deployment (S61)."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.configuration.front import RateLimits
from app.http import rate_limit_sharing
from app.http.rate_limit_sharing import LimitSharing
from app.http.rate_limits import MAX_DEBT, WINDOW_S, RateLimiter
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime import producer as writing
from streams.runtime.authentication import RecordKeys
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.replays import delivery_of
from tests.agents.support import KEYS, everything_in, open_broker
from tests.http.support import FOREIGN, LIVE, PATH, TEST, Response, build_caller, open_front
from tests.security.intruder import open_intruder

FOREIGN_KEYS = RecordKeys(RootKey(b"x" * 32).derive)
"""Of another deployment."""
ONE = [("key", "a")]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fronts tell one another more often, and wait less for a log that is away."""
    monkeypatch.setattr(rate_limit_sharing, "INTERVAL_S", 0.1)
    monkeypatch.setattr(rate_limit_sharing, "REOPEN_S", 0.1)
    monkeypatch.setattr(rate_limit_sharing, "LONGEST_PAUSE_S", 0.5)
    monkeypatch.setattr(writing, "REQUEST_TIMEOUT_MS", 1_000)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """An embedded broker with every topic."""
    async with open_broker(tmp_path / "broker") as opened:
        yield opened


@asynccontextmanager
async def sharing(
    address: str, *limiters: RateLimiter, keys: Sequence[RecordKeys] = ()
) -> AsyncIterator[tuple[LimitSharing, ...]]:
    """Let limiters share as fronts do, each with a writer of its own."""
    access, opened = LogAccess(address), []
    async with AsyncExitStack() as stack:
        for number, limiter in enumerate(limiters):
            own = keys[number] if keys else KEYS
            writer = await stack.enter_async_context(LogWriter(access, own))
            shared = LimitSharing(access, writer, limiter, own, f"front-{number}")
            opened.append(await stack.enter_async_context(shared))
        async with asyncio.timeout(60):
            for shared in opened:
                await shared.listening.wait()
        yield tuple(opened)


async def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what it waits for happens behind a socket
            await asyncio.sleep(0.02)


def used(limiter: RateLimiter, counted: tuple[str, str] = ("key", "a")) -> int:
    """How many requests of a caller the limiter knows of."""
    window = limiter._windows.get(counted)
    return 0 if window is None else window.used


def resets(response: Response, limit: str) -> int:
    """The seconds until a limit's window ends, as reported."""
    (found,) = re.findall(rf'"{limit}";r=\d+;t=(\d+)', response.headers["RateLimit"])
    return int(found)


async def test_s61_many_keys_of_a_tenant_do_not_multiply_its_limit() -> None:
    async with open_front(rate_limits=RateLimits(key=3, tenant=4)) as front:
        for number in range(3):
            front.keys.known[f"idv_test_{number}"] = build_caller(name=str(number))
        responses = [await front.ask("GET", PATH, f"idv_test_{n}") for n in (0, 0, 1, 1, 2)]

    assert [one.status for one in responses] == [200, 200, 200, 200, 429]
    assert responses[4].code == "RATE_LIMITED"
    assert '"tenant";q=4;w=60' in responses[4].headers["RateLimit-Policy"]
    assert int(responses[4].headers["Retry-After"]) >= resets(responses[4], "tenant")


async def test_s61_one_tenants_limit_is_neither_anothers_nor_that_of_its_live_keys() -> None:
    async with open_front(rate_limits=RateLimits(tenant=1)) as front:
        responses = [(await front.ask("GET", PATH, key)).status for key in (TEST, TEST, FOREIGN, LIVE)]

    assert responses == [200, 429, 200, 200]


async def test_s61_a_key_that_runs_wild_does_not_keep_reviewers_out() -> None:
    async with open_front(rate_limits=RateLimits(tenant=1)) as front:
        person = await front.sign_in()
        keys = [(await front.ask("GET", PATH)).status for _ in range(2)]
        person_shown = await person.ask("GET", PATH)

    assert (keys, person_shown.status) == ([200, 429], 200)


async def test_s61_submissions_of_all_keys_of_a_tenant_share_one_limit() -> None:
    async with open_front(rate_limits=RateLimits(tenant_verifications=1)) as front:
        front.keys.known["idv_test_second"] = build_caller(name="second")
        responses = [(await front.submit(key=key)).status for key in (TEST, "idv_test_second")]
        read = (await front.ask("GET", PATH)).status

    assert (responses, read) == ([201, 429], 200)


async def test_s61_what_one_front_admitted_another_refuses(broker: Broker) -> None:
    """Two fronts on two sockets, the real broker between them."""
    limits = RateLimits(key=3)
    first, second = RateLimiter(limits), RateLimiter(limits)
    async with (
        sharing(broker.address, first, second),
        open_front(limiter=first, rate_limits=limits) as one,
        open_front(limiter=second, rate_limits=limits) as other,
    ):
        admitted = [(await one.ask("GET", PATH)).status for _ in range(3)]
        await until(lambda: used(second, ("key", build_caller().key_id)) == 3)
        response = await other.ask("GET", PATH)

    assert (admitted, response.status) == ([200] * 3, 429)
    assert int(response.headers["Retry-After"]) >= resets(response, "key") > 0


async def test_s61_three_fronts_agree_on_what_was_admitted(broker: Broker) -> None:
    limiters = [RateLimiter(RateLimits(key=100)) for _ in range(3)]
    async with sharing(broker.address, *limiters):
        for limiter, many in zip(limiters, (5, 7, 11), strict=True):
            for _ in range(many):
                limiter.count(ONE, asyncio.get_running_loop().time())
        await until(lambda: [used(limiter) for limiter in limiters] == [23, 23, 23])
        await asyncio.sleep(0.5)  # five intervals: nothing is reported twice

    assert [used(limiter) for limiter in limiters] == [23, 23, 23]


async def test_s61_a_front_without_its_log_limits_by_itself(tmp_path: Path) -> None:
    """The broker goes away and comes back: limits hold all the time, and are shared again after."""
    first, second = (RateLimiter(RateLimits(key=2, verifications=9)) for _ in range(2))
    async with open_broker(tmp_path / "broker") as broker:
        address, port = broker.address, int(broker.address.rpartition(":")[2])
        stack = AsyncExitStack()
        shared = await stack.enter_async_context(sharing(address, first, second))
    try:
        now = asyncio.get_running_loop().time
        results = [first.count(ONE, now())[0].exceeded for _ in range(3)]
        await asyncio.sleep(0.5)
        async with open_broker(tmp_path / "broker", port=port):
            await until(lambda: all(one.listening.is_set() for one in shared))
            await until(lambda: heard_of(first, second))
    finally:
        await stack.aclose()

    assert results == [False, False, True]


def heard_of(first: RateLimiter, second: RateLimiter) -> bool:
    """Admit one more at the first, and tell whether the second has heard of any."""
    first.count([("verifications", "b")], asyncio.get_running_loop().time())
    return used(second, ("verifications", "b")) > 0


async def test_s61_forged_repeated_and_foreign_counts_use_up_nobodys_limit(broker: Broker) -> None:
    first, second, outsider = (RateLimiter(RateLimits(key=5)) for _ in range(3))
    now = asyncio.get_running_loop().time
    async with (
        sharing(broker.address, first, second, outsider, keys=(KEYS, KEYS, FOREIGN_KEYS)) as shared,
        open_intruder(LogAccess(broker.address)) as intruder,
    ):
        first.count(ONE, now())
        outsider.count(ONE, now())
        await until(lambda: used(second) == 1 and shared[1].refused == 1)
        records = await everything_in(broker.address, Topic.RATE_LIMITS)
        ours = next(delivery_of(record) for record in records if record.key == b"front-0")
        forged = [
            ours,  # repeated
            replace(ours, value=(ours.value or b"").replace(b",1]", b",5]")),  # altered
            replace(ours, key=b"front-9"),  # transplanted
            replace(ours, key=b"front-9", value=b'{"number":0,"counts":[["key","a",5]]}', headers={}),
            replace(ours, key=b"front-9", value=None, headers={}),
        ]
        await intruder.write(*forged)
        await until(lambda: shared[1].refused == 1 + len(forged))

    assert used(second) == 1


def test_s61_what_several_fronts_admitted_too_much_is_taken_off_the_next_windows() -> None:
    limiter = RateLimiter(RateLimits(key=10))
    admitted = [not limiter.count(ONE, 0.0)[0].exceeded for _ in range(12)].count(True)
    limiter.hear({("key", "a"): 15}, now=1.0)
    (standing,) = limiter.count(ONE, now=1.0)
    in_next = not limiter.count(ONE, now=WINDOW_S + 1.0)[0].exceeded
    in_third = [limiter.count(ONE, now=2 * WINDOW_S + 1.0)[0].exceeded for _ in range(6)]

    assert (admitted, standing.exceeded, standing.resets_in_s) == (10, True, 2 * WINDOW_S - 1)
    assert (in_next, in_third) == (False, [False] * 5 + [True])


def test_s61_no_count_that_is_heard_shuts_a_caller_out_for_ever() -> None:
    limiter = RateLimiter(RateLimits(key=10))
    limiter.hear({("key", "a"): 10**18, ("unknown", "a"): 5}, now=0.0)
    (standing,) = limiter.count(ONE, now=0.0)

    assert standing.resets_in_s == MAX_DEBT * WINDOW_S
    assert not limiter.count(ONE, now=float(MAX_DEBT * WINDOW_S))[0].exceeded


def test_s61_a_caller_spread_over_fronts_is_admitted_no_more_than_is_promised() -> None:
    """Four fronts hear of one another each second; a caller asks sixteen times too often for an hour."""
    quota, fronts, minutes, each_s = 60, 4, 60, 0.25
    limiters = [RateLimiter(RateLimits(key=quota)) for _ in range(fronts)]
    admitted, now = 0, 0.0
    while now < minutes * WINDOW_S:
        for limiter in limiters:
            admitted += not limiter.count(ONE, now)[0].exceeded
        now += each_s
        if now % 1.0 == 0.0:
            results = [limiter.take_unshared() for limiter in limiters]
            for listening, limiter in enumerate(limiters):
                for teller, counts in enumerate(results):
                    if teller != listening:
                        limiter.hear(counts, now)

    assert quota * minutes * 0.9 < admitted <= quota * (minutes + fronts)


async def test_s61_a_log_that_refuses_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front without leave to write there keeps its one producer for everything else."""
    tries: list[float] = []

    async def refuse(*_: Outgoing) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise StoreUnavailable("not allowed")

    monkeypatch.setattr(rate_limit_sharing, "INTERVAL_S", 0.02)
    limiter, writer = RateLimiter(), LogWriter(LogAccess("127.0.0.1:9"), KEYS)
    monkeypatch.setattr(writer, "write", refuse)
    async with LimitSharing(writer._access, writer, limiter, KEYS, "front-0"):
        async with asyncio.timeout(60):
            while len(tries) < 6:
                limiter.count(ONE, now=0.0)
                await asyncio.sleep(0.01)

    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    least = [0.04, 0.08, 0.16, 0.32, rate_limit_sharing.LONGEST_PAUSE_S]
    assert [pause < wanted * 0.95 for pause, wanted in zip(pauses, least, strict=True)] == [False] * 5
