"""Commit changes: one lightweight transaction each, then writes from its outbox."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import structlog
from typing_extensions import override

from app.adapters.cassandra.audit_rows import DAY
from app.adapters.cassandra.change_outbox import Companion, Outbox, is_derived, pack
from app.adapters.cassandra.coalescing import Coalescer
from app.adapters.cassandra.event_outbox import Emitting
from app.adapters.cassandra.feed_positions import SETTLE_S, FeedPositions
from app.adapters.cassandra.records import (
    COLUMNS,
    MONTH,
    PASSING_MONTH,
    RecordKey,
    from_named,
    key_of,
    month_writes,
)
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import (
    BATCH_BYTES,
    Attempt,
    Part,
    Session,
    Settled,
    Statement,
    Write,
    parted,
)
from app.adapters.shared.columns import to_micros, to_pairs_text
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, EventId
from streams.ports.errors import Conflict
from streams.ports.records import Change, Committed, Journal, Record

log = structlog.get_logger(__name__)

BATCHES_AT_ONCE: Final = 2
"""Logged batches under way; changes that wait for one share the next."""

LASTING: Final = frozenset({MONTH, PASSING_MONTH, DAY})
"""What says that a place has rows of a month or a day: one process writes the same only once."""

MOST_KNOWN: Final = 20_000
"""Such rows remembered; forgotten all at once when there are more."""

_STANDING: Final = Statement(
    f"SELECT part, {COLUMNS}, attempt, outbox, settled FROM records "  # noqa: S608 - constants only
    "WHERE tenant = ? AND kind = ? AND id = ?"
)
_CREATE: Final = Statement(
    "INSERT INTO records (tenant, kind, id, part, version, created_at, fingerprint, searched, indexes, "
    "body, attempt, outbox) VALUES (?, ?, ?, 0, 1, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
)
_CHANGE: Final = Statement(
    "UPDATE records SET version = ?, indexes = ?, body = ?, first_body = ?, attempt = ?, outbox = ? "
    "WHERE tenant = ? AND kind = ? AND id = ? AND part = 0 IF version = ?"
)

_TOUCH: Final = Statement("UPDATE settings SET value = ? WHERE name = 'touched' IF value != ?")
"""A lightweight transaction that always writes, for the value is a new one each time."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """A record as it stands, and what of its change may not be written yet."""

    record: Record
    outbox: bytes | None
    """None: all of it is written."""


class CassandraJournal(Journal):
    """The record decides; `Outbox` says how the rest of a change follows, whatever happens in between."""

    def __init__(self, session: Session, settle_s: float = SETTLE_S) -> None:
        self._session = session
        self._clock = StoreClock(session)
        self._last = 0
        self._turns: WeakValueDictionary[RecordKey, asyncio.Lock] = WeakValueDictionary()
        self._written: set[Write] = set()
        """Of `LASTING`."""
        self._positions = FeedPositions(session, settle_s)
        self._outbox = Emitting(session, self._positions, self._clock)
        self._write_rows = Coalescer(
            self._write_many, most=BATCH_BYTES, at_once=BATCHES_AT_ONCE, size_of=attrgetter("size")
        )

    @override
    async def commit(self, change: Change) -> Committed:
        if any(record.tenant_id not in (change.tenant_id, PLATFORM) for record in change.records):
            raise ValueError("a record of a change is this tenant's or the platform's")
        key = key_of(change.records[0])
        turn = self._turns.setdefault(key, asyncio.Lock())
        with self._outbox.coming(change.events):
            async with turn:  # rivals in one process would only get in each other's way at the store
                return await self._commit(change)

    async def finish(self, key: RecordKey) -> None:
        """Write what the change behind a record says beside it, if its writer left it unwritten."""
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:  # its writer may be this process, and about to
            standing = await self._standing(key)
            if standing is not None:
                await self._settle(standing)

    async def _commit(self, change: Change) -> Committed:
        deciding = change.records[0]
        before = await self._before(change.records)
        if before[0] is not None and _is_same(before[0], deciding):
            return Committed(before[0], won=False)
        _check_follows(change.records, before)
        outbox = pack(change, uuid4(), await self._now(), before)
        record = Companion.of(deciding, before[0]).to_record()
        if change.first_body is not None:
            record = replace(record, first_body=change.first_body)
        settled = await self._session.lwt(_attempt(record, outbox.attempt, outbox.to_bytes()))
        if settled.applied:
            await self._write_outbox(record, outbox)
            return Committed(record, won=True)
        return await self._lost(deciding, settled)

    async def _before(self, records: Sequence[Record]) -> Sequence[Record | None]:
        """Return the versions that a change is about to replace, None for a record that is new."""
        if all(record.version <= 1 for record in records):
            return [None] * len(records)
        return await asyncio.gather(*(self._replaced(record) for record in records))

    async def _replaced(self, record: Record) -> Record | None:
        """Return the version that is about to be replaced, its own change written everywhere first."""
        if record.version <= 1:
            return None
        standing = await self._standing(key_of(record))
        if standing is None:
            raise Conflict(f"{record.id} is not there")
        await self._settle(standing)
        return standing.record

    async def _lost(self, deciding: Record, settled: Settled) -> Committed:
        """Answer with what stands, once all that its writer said is written."""
        standing = _to_standing(settled.rows)
        if standing is None:
            raise Conflict(f"{deciding.id} is not there")
        await self._settle(standing)
        if deciding.version <= 1 or _is_same(standing.record, deciding):
            return Committed(standing.record, won=False)
        raise Conflict(f"{deciding.id} has version {standing.record.version}")

    async def _standing(self, key: RecordKey) -> _Standing | None:
        names = _NAMES
        rows = await self._session.execute(_STANDING, key)
        return _to_standing([dict(zip(names, row, strict=True)) for row in rows])

    async def _settle(self, standing: _Standing) -> None:
        """Write what the first writer of this version may have left unwritten."""
        if standing.outbox is not None:
            await self._write_outbox(standing.record, Outbox.from_bytes(standing.outbox))

    async def _write_outbox(self, deciding: Record, outbox: Outbox) -> None:
        """Write the rest of a change that stands: its companions, then all other rows in a logged batch."""
        listed = await self._accompany(deciding, outbox)
        records = [deciding, *(one.to_record() for one in listed)]
        months = [write for record in records for write in month_writes(record)]
        taken = await self._positions.take(outbox.events)
        every = [*months, *taken.writes, *outbox.writes(deciding, listed)]
        writes = [write for write in every if write not in self._written]
        for part in parted(writes):
            await self._write_rows(part)
        self._positions.answered(taken)
        self._remember([write for write in writes if write[0] in LASTING])

    async def _write_many(self, parts: Sequence[Part]) -> Sequence[None]:
        """Write the parts of several changes in one logged batch, what they share only once."""
        await self._session.batch(list(dict.fromkeys([write for part in parts for write in part.writes])))
        return [None] * len(parts)

    async def _accompany(self, deciding: Record, outbox: Outbox) -> Sequence[Companion]:
        """Write the companions that the batch does not; return those that stand as this change wrote them."""
        decided = [one for one in outbox.companions if not is_derived(deciding, one)]
        if not decided:
            return outbox.companions
        stands = await asyncio.gather(*(self._decide(one, outbox) for one in decided))
        lost = [one for one, is_ours in zip(decided, stands, strict=True) if not is_ours]
        return [one for one in outbox.companions if one not in lost]

    async def _decide(self, companion: Companion, outbox: Outbox) -> bool:
        """Write a companion; False when another change's version stands there."""
        record = companion.to_record()
        settled = await self._session.lwt(_attempt(record, outbox.attempt, None))
        if settled.applied:
            return True
        standing = _to_standing(settled.rows)
        if standing is None or standing.record.version < record.version:
            log.error("store.companion_left_behind", kind=record.kind.value, id=record.id)
            return False
        found = standing.record
        first = (found.first_body, found.fingerprint) == (record.first_body, record.fingerprint)
        return first if record.version == 1 else _is_same(found, record)

    def _remember(self, lasting: Sequence[Write]) -> None:
        """Remember what need not be written again."""
        if len(self._written) > MOST_KNOWN:
            self._written.clear()
        self._written.update(lasting)

    async def _now(self) -> int:
        """Return the moment by the store's clock, later than any before."""
        reading = await self._clock.read()  # first: another commit may move the last one meanwhile
        self._last = max(self._last + 1, reading.micros)
        return self._last

    @override
    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        return await self._outbox.pending(limit)

    @override
    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        await self._outbox.mark(event_ids)

    @override
    async def touch(self) -> None:
        value = uuid4().bytes
        await self._session.execute(_TOUCH, (value, value))


_NAMES: Final = ("part", *COLUMNS.split(", "), "attempt", "outbox", "settled")


def _to_standing(rows: Sequence[Mapping[str, Any]]) -> _Standing | None:
    parts = {row["part"]: row for row in rows}
    if 0 not in parts:
        return None
    record = from_named(parts[0])
    settled = 1 in parts and parts[1]["settled"] >= record.version
    return _Standing(record, None if settled else parts[0]["outbox"])


def _attempt(record: Record, attempt: UUID, outbox: bytes | None) -> Attempt:
    """Return what writes a version of a record unless another stands there."""
    key, pairs = key_of(record), to_pairs_text(record.indexes)
    if record.version == 1:
        text = record.searched or None
        created = (to_micros(record.created_at), record.fingerprint, text, pairs, record.body)
        write: Write = (_CREATE, (*key, *created, attempt, outbox))
    else:
        changed = (record.version, pairs, record.body, record.first_body, attempt, outbox)
        write = (_CHANGE, (*changed, *key, record.version - 1))
    return Attempt(write, (_STANDING, key), {"part": 0, "attempt": attempt})


def _check_follows(records: Sequence[Record], before: Sequence[Record | None]) -> None:
    """Raise `Conflict` when a record is not the next version of what stands."""
    for record, standing in zip(records, before, strict=True):
        if standing is not None and standing.version != record.version - 1 and not _is_same(standing, record):
            raise Conflict(f"{record.id} has version {standing.version}")


def _is_same(standing: Record, record: Record) -> bool:
    return (standing.version, standing.body) == (record.version, record.body)
