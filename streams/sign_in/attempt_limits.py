"""Counters of attempts that outlive a restart: taken before one is looked at (G28, G62, G96, S21)."""

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
"""An IPv6 subscriber has at least a /64 to choose addresses from."""


LONGEST_SHARED: Final = timedelta(days=1)
"""Counters of a window up to this share records; a longer one counts only who has the password."""

_BUCKET_DIGITS: Final = 3
"""Hexadecimal: 4,096 records for each limit."""

MOST_IN_A_BUCKET: Final = 128
"""Half a million counters for each limit; who tries more in a window makes the oldest ones forgotten."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many attempts in any stretch of time as long as the window."""

    name: str
    most: int
    window: timedelta
    first_pause: timedelta = timedelta()
    """How long after the first attempt that counts the next is looked at; every further one doubles it."""


class Counts(Frozen):
    """Counters as they are stored: those of one bucket, or one alone."""

    attempts: Mapping[str, tuple[Timestamp, ...]]
    """By whom they count against: when each was made that still counts, oldest first."""


@dataclass(frozen=True, slots=True)
class Counter:
    """Whose attempts a limit counts, and in which record."""

    record_id: str
    own: str
    """A keyed hash of the limit and of whom it counts."""
    window: timedelta


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """An attempt that was counted."""

    counter: Counter
    at: datetime


class TooManyAttempts(Refused):
    """The limit is used up; nothing was looked at."""

    def __init__(self, own: str, oldest: datetime, retry_after_s: int) -> None:
        detail = "Too many attempts; wait as long as Retry-After says."
        super().__init__(Refusal(code=ProblemCode.RATE_LIMITED, detail=detail))
        self.retry_after_s = retry_after_s
        self.row_id = derive_id("aud", own, oldest.isoformat())
        """Of an audit row that says so once, however often it is tried meanwhile."""


class TooSoon(TooManyAttempts):
    """The pause after the attempt before is not over; nothing was looked at (S21)."""


async def take(people: People, limit: Limit, *whose: str) -> CountedAttempt:
    """Count an attempt before it is looked at, so that no crowd gets more than the limit.

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
    """Return how long the pause after the attempts that count still lasts, in seconds."""
    if not counting:
        return 0.0
    ends_at = counting[-1] + limit.first_pause * (1 << len(counting) - 1)
    return (ends_at - now).total_seconds()


async def give_back(people: People, taken: CountedAttempt) -> None:
    """Uncount an attempt that was no failure."""

    def without_attempt(attempts: Attempts) -> Attempts:
        left = list(attempts)
        if taken.at in left:
            left.remove(taken.at)
        return tuple(left)

    await _change(people, taken.counter, without_attempt)


async def clear(people: People, limit: Limit, *whose: str) -> None:
    """Forget all attempts."""
    await _change(people, _counter_of(people, limit, whose), lambda _: ())


def _counter_of(people: People, limit: Limit, whose: Sequence[str]) -> Counter:
    """Return the counter; those of a short window share a fixed number of records.

    Nobody has to sign in to be counted, so there must not be a record for each address that was ever tried.
    """
    own = keyed_hash(people.key, "counter", limit.name, *whose)
    shared = limit.window <= LONGEST_SHARED
    return Counter(f"{limit.name}-{own[:_BUCKET_DIGITS]}" if shared else own, own, limit.window)


async def _change(people: People, counter: Counter, change: Callable[[Attempts], Attempts]) -> None:
    """Change a counter; who loses against somebody else who counts looks again."""
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
    """Return the counters with an attempt that still counts; of too many those with the latest ones."""
    counting = [(made[-1], own) for own, made in attempts.items() if made and made[-1] > since]
    return {own: attempts[own] for _, own in sorted(counting)[-MOST_IN_A_BUCKET:]}


def network_of(address: str | None) -> str:
    """Return whom attempts from an address count against: an IPv4 address, or an IPv6 network."""
    try:
        known = ip_address(address or "")
    except ValueError:
        return "unknown"
    mapped = getattr(known, "ipv4_mapped", None) or known
    if mapped.version == 4:  # noqa: PLR2004 - the version's name
        return str(mapped)
    return str(ip_network(f"{mapped}/{_NETWORK_BITS}", strict=False))
