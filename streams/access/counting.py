"""Counters of attempts that outlive a restart: taken before one is looked at (G28, G62, G96, S21)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Final

from schemas.base import Frozen, Timestamp
from schemas.ids import PLATFORM
from schemas.problems import NotFound, ProblemCode, Refusal, Refused
from streams.access.people import People, keyed_hash
from streams.ports import Change, Conflict, Record, RecordKind

_NETWORK_BITS: Final = 64
"""An IPv6 subscriber has at least a /64 to choose addresses from."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many attempts in a window that the first of them opens."""

    name: str
    most: int
    window: timedelta


class Count(Frozen):
    """A counter as it is kept."""

    opened_at: Timestamp
    used: int


@dataclass(frozen=True, slots=True)
class Taken:
    """An attempt that was counted."""

    limit: Limit
    counter_id: str
    opened_at: datetime


class TooManyAttempts(Refused):
    """The limit is used up; nothing was looked at."""

    def __init__(self, counter_id: str, opened_at: datetime, retry_after_s: int) -> None:
        detail = "Too many attempts; wait as long as Retry-After says."
        super().__init__(Refusal(code=ProblemCode.RATE_LIMITED, detail=detail))
        self.counter_id = counter_id
        self.opened_at = opened_at
        self.retry_after_s = retry_after_s


async def take(people: People, limit: Limit, *whose: str) -> Taken:
    """Count an attempt before it is looked at, so that no crowd gets more than the limit.

    Raises:
        TooManyAttempts: The limit is used up.
    """
    counter_id = keyed_hash(people.key, "counter", limit.name, *whose)
    while True:
        kept, version = await _load(people, counter_id)
        now = people.clock()
        if kept is None or now >= kept.opened_at + limit.window:
            counted = Count(opened_at=now, used=1)
        elif kept.used >= limit.most:
            left_s = (kept.opened_at + limit.window - now).total_seconds()
            raise TooManyAttempts(counter_id, kept.opened_at, max(1, math.ceil(left_s)))
        else:
            counted = Count(opened_at=kept.opened_at, used=kept.used + 1)
        if await _keep(people, counter_id, counted, version + 1):
            return Taken(limit, counter_id, counted.opened_at)


async def give_back(people: People, taken: Taken) -> None:
    """Uncount an attempt that was no failure; of a window that is over nothing is left to uncount."""
    while True:
        kept, version = await _load(people, taken.counter_id)
        if kept is None or kept.opened_at != taken.opened_at or kept.used == 0:
            return
        if await _keep(
            people, taken.counter_id, kept.model_copy(update={"used": kept.used - 1}), version + 1
        ):
            return


async def clear(people: People, limit: Limit, *whose: str) -> None:
    """Forget all attempts."""
    counter_id = keyed_hash(people.key, "counter", limit.name, *whose)
    while True:
        kept, version = await _load(people, counter_id)
        if kept is None or kept.used == 0:
            return
        if await _keep(people, counter_id, kept.model_copy(update={"used": 0}), version + 1):
            return


async def _load(people: People, counter_id: str) -> tuple[Count | None, int]:
    try:
        record = await people.records.get(PLATFORM, RecordKind.COUNTER, counter_id)
    except NotFound:
        return None, 0
    return Count.from_bytes(record.body), record.version


async def _keep(people: People, counter_id: str, counted: Count, version: int) -> bool:
    """Keep the count; False when somebody else counted just now."""
    body, at = counted.to_bytes(), counted.opened_at
    record = Record(PLATFORM, RecordKind.COUNTER, counter_id, body, at, version=version)
    try:
        return (await people.commit(Change(PLATFORM, (record,)))).won
    except Conflict:
        return False


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
