"""Rate limits of sign-in attempts, counted in the store before each attempt (G28, G62, G96, S21)."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Final

from schemas.base import Frozen, Timestamp, to_milliseconds
from schemas.ids import PLATFORM, derive_id
from schemas.problems import NotFound, ProblemCode, Refusal, Refused
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.reviewers.context import People, keyed_hash

Attempts = tuple[datetime, ...]

_NETWORK_BITS: Final = 64
"""Attempts are counted per /64: an IPv6 subscriber has at least that many addresses."""


LONGEST_SHARED: Final = timedelta(days=1)
"""Counters with a window up to this share records; longer ones count only callers with the password."""

_BUCKET_DIGITS: Final = 3
"""Hexadecimal: 4,096 records for each limit."""

MOST_IN_A_BUCKET: Final = 128
"""Half a million counters for each limit; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of attempts allowed within a sliding window."""

    name: str
    most: int
    window: timedelta
    first_pause: timedelta = timedelta()
    """Pause after the first counted attempt; each further attempt doubles it."""


class Counts(Frozen):
    """The stored counters of one bucket, or a single counter."""

    attempts: Mapping[str, tuple[Timestamp, ...]]
    """The times of the attempts that still count, oldest first, by counter."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter and the record it is stored in."""

    record_id: str
    own: str
    """A keyed hash of the limit and of the counted identity."""
    window: timedelta


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """A counted attempt, to be uncounted if it was no failure."""

    counter: Counter
    at: datetime


class TooManyAttempts(Refused):
    """The limit is reached; the attempt was not checked."""

    def __init__(self, own: str, oldest: datetime, retry_after_s: int) -> None:
        detail = "Too many attempts; wait as long as Retry-After says."
        super().__init__(Refusal(code=ProblemCode.RATE_LIMITED, detail=detail))
        self.retry_after_s = retry_after_s
        self.row_id = derive_id("aud", own, oldest.isoformat())
        """Id of the audit row, the same for all refused attempts of a window."""


class TooSoon(TooManyAttempts):
    """The pause after the previous attempt is not over; the attempt was not checked (S21)."""


async def take(people: People, limit: Limit, *whose: str) -> CountedAttempt:
    """Count an attempt before it is checked, so that concurrent attempts cannot exceed the limit.

    Raises:
        TooManyAttempts: The limit is used up; `TooSoon` when only the pause is not over.
    """
    counter, taken_at = _counter_of(people, limit, whose), to_milliseconds(people.clock())

    def with_attempt(attempts: Attempts) -> Attempts:
        counting = tuple(at for at in attempts if taken_at < at + limit.window)
        if len(counting) >= limit.most:
            left_s = (counting[0] + limit.window - taken_at).total_seconds()
            raise TooManyAttempts(counter.own, counting[0], max(1, math.ceil(left_s)))
        pause_s = _pause_s(limit, counting, taken_at)
        if pause_s > 0:
            raise TooSoon(counter.own, counting[0], max(1, math.ceil(pause_s)))
        return (*counting, taken_at)

    await _change(people, counter, with_attempt)
    return CountedAttempt(counter, taken_at)


def _pause_s(limit: Limit, counting: Attempts, now: datetime) -> float:
    """Return the rest of the pause after the counted attempts, in seconds."""
    if not counting:
        return 0.0
    ends_at = counting[-1] + limit.first_pause * (1 << len(counting) - 1)
    return (ends_at - now).total_seconds()


async def give_back(people: People, taken: CountedAttempt) -> None:
    """Remove a counted attempt that was no failure."""

    def without_attempt(attempts: Attempts) -> Attempts:
        left = list(attempts)
        if taken.at in left:
            left.remove(taken.at)
        return tuple(left)

    await _change(people, taken.counter, without_attempt)


async def clear(people: People, limit: Limit, *whose: str) -> None:
    """Remove all counted attempts."""
    await _change(people, _counter_of(people, limit, whose), lambda _: ())


def _counter_of(people: People, limit: Limit, whose: Sequence[str]) -> Counter:
    """Return the counter; those of a short window share a fixed number of records.

    Anybody can cause a count, so there must not be a record for each address that was ever tried.
    """
    own = keyed_hash(people.key, "counter", limit.name, *whose)
    shared = limit.window <= LONGEST_SHARED
    return Counter(f"{limit.name}-{own[:_BUCKET_DIGITS]}" if shared else own, own, limit.window)


async def _change(people: People, counter: Counter, change: Callable[[Attempts], Attempts]) -> None:
    """Change a counter, retrying on conflict."""
    while True:
        try:
            found = await people.records.get(PLATFORM, RecordKind.COUNTER, counter.record_id)
            standing, version = Counts.from_bytes(found.body).attempts, found.version
        except NotFound:
            standing, version = {}, 0
        before = standing.get(counter.own, ())
        after = change(before)
        if after == before:
            return
        at = people.clock()
        left = _that_count({**standing, counter.own: after}, at - counter.window)
        body = Counts(attempts=left).to_bytes()
        record = Record(PLATFORM, RecordKind.COUNTER, counter.record_id, body, at, version=version + 1)
        with suppress(Conflict):
            if (await people.commit(Change(PLATFORM, (record,)))).won:
                return


def _that_count(attempts: Mapping[str, Attempts], since: datetime) -> dict[str, Attempts]:
    """Return the counters with an attempt since `since`, at most `MOST_IN_A_BUCKET`, the latest ones."""
    counting = [(made[-1], own) for own, made in attempts.items() if made and made[-1] > since]
    return {own: attempts[own] for _, own in sorted(counting)[-MOST_IN_A_BUCKET:]}


def network_of(address: str | None) -> str:
    """Return the network that attempts from an address count against: an IPv4 address or an IPv6 /64."""
    try:
        known = ip_address(address or "")
    except ValueError:
        return "unknown"
    mapped = getattr(known, "ipv4_mapped", None) or known
    if mapped.version == 4:  # noqa: PLR2004 - the version's name
        return str(mapped)
    return str(ip_network(f"{mapped}/{_NETWORK_BITS}", strict=False))


WINDOW: Final = timedelta(minutes=15)
USUAL_ATTEMPTS: Final = 10
"""G62: of every kind per address, failed ones per account."""

_BY_ADDRESS: Final = "sign-in-address"
_BY_ACCOUNT: Final = "sign-in-account"
_BY_DEVICE: Final = "sign-in-device"


@dataclass(frozen=True, slots=True)
class SignInLimits:
    """Limits of sign-in attempts; None: without limit, for benchmarks."""

    attempts: int | None = USUAL_ATTEMPTS

    def by_address(self) -> Limit:
        """Return the limit of all attempts from one address."""
        return Limit(_BY_ADDRESS, self.attempts or 0, WINDOW)

    def by_account(self) -> Limit:
        """Return the limit of failed attempts for one e-mail address, known or not."""
        return Limit(_BY_ACCOUNT, self.attempts or 0, WINDOW)

    def by_device(self) -> Limit:
        """Return the limit of failed attempts from a device on which the member signed in before."""
        return Limit(_BY_DEVICE, self.attempts or 0, WINDOW)
