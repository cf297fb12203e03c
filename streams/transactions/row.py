"""The row of the velocity table: what is known of the earlier transactions of one key (G113).

The last 64 events are stored one by one, in the order of their time; older ones are in the panes. Pure: an
event comes with its time, and nothing here reads a clock.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec

from schemas.policies import DistinctField
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.transactions.distinct import HASH_BYTES, single
from streams.transactions.panes import Cell, Panes, Totals, Whole, stored

MAX_EVENTS: Final = 64
"""So many events are stored one by one."""
MAX_IDS: Final = 1_024
"""So many transactions are known again when a command is repeated: after a crash all those of a key come
again that were decided since offsets were committed last, at least every half a second."""
MAX_BYTES: Final = 512 * 1024
"""From so many bytes on, neighbouring panes of a row are merged: the log takes no record of a megabyte. An
ordinary row has some 6 KB, one of a thousand transactions of many kinds some 100 KB."""
_MAX_KINDS: Final = 256
"""From so many kinds on, those that nothing refers to any more are looked for and forgotten."""
_ID_BYTES: Final = 8
_MINUTE_MS: Final = 60_000
_FIELDS: Final = tuple(DistinctField)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of money: `minor` times 10 ** -`scale` of the currency; never below 0."""

    minor: int
    scale: int
    currency: str


@dataclass(frozen=True, slots=True)
class VelocityEvent:
    """A transaction as the features see it."""

    t_ms: int
    """When it occurred, in milliseconds since 1970."""
    type: TransactionType
    direction: Direction
    amount: Amount
    base_amount: Amount | None = None
    outcome: OutcomeClass | None = None
    """Of the first answer; None: not decided yet, which no filter of an outcome matches."""
    hashes: Mapping[DistinctField, bytes] = field(default_factory=dict)
    """Keyed hashes of 8 bytes; a field that is missing is not in it."""


class Kind(msgspec.Struct, array_like=True, frozen=True):
    """What events are added up by: all that a feature can filter for."""

    direction: Direction
    type: TransactionType
    outcome: OutcomeClass | None
    currency: str
    base_currency: str | None


class RowEvent(msgspec.Struct, array_like=True):
    """One event of a row; its kind is a position in `VelocityRow.kinds`."""

    t_ms: int
    kind: int
    minor: Whole
    scale: int
    base_minor: Whole | None
    base_scale: int
    hashes: bytes
    """One byte with a bit for each field that is present, then the hashes of those."""

    def hashed(self, position: int) -> bytes | None:
        """Return the hash of the distinct field at the position, or None."""
        present = self.hashes[0]
        if not present >> position & 1:
            return None
        before = (present & ((1 << position) - 1)).bit_count()
        return self.hashes[1 + before * HASH_BYTES :][:HASH_BYTES]

    def cell(self) -> Cell:
        """Return the event as a cell of a pane."""
        base = None if self.base_minor is None else Totals.of(self.base_minor, self.base_scale)
        distinct = [single(self.hashed(position)) for position in range(len(_FIELDS))]
        return Cell(self.kind, 1, self.t_ms, self.t_ms, Totals.of(self.minor, self.scale), base, distinct)


class VelocityRow(msgspec.Struct, array_like=True):
    """The transactions of one key: the last ones, the panes of the older ones, and which were added."""

    ids: bytes = b""
    """Digests of the last transaction ids, the oldest first."""
    newest_ms: int = 0
    kinds: list[Kind] = []
    events: list[RowEvent] = []
    """By time; those of one time by arrival."""
    panes: Panes = msgspec.field(default_factory=Panes)


_TIME: Final = attrgetter("t_ms")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(VelocityRow)


def encode(row: VelocityRow) -> bytes:
    """Return the row as the table stores it; panes of one above `MAX_BYTES` become coarser."""
    encoded = _ENCODER.encode(row)
    while len(encoded) > MAX_BYTES and row.panes.merge_finest():
        encoded = _ENCODER.encode(row)
    return encoded


def decode(stored_row: bytes) -> VelocityRow:
    """Return the row that `encode` gave."""
    return _DECODER.decode(stored_row)


def is_added(row: VelocityRow, transaction_id: str) -> bool:
    """Return whether the transaction is one of the last `MAX_IDS` that were added."""
    digest = _digest(transaction_id)
    at = row.ids.find(digest)
    while at % _ID_BYTES and at >= 0:  # the bytes of two neighbours
        at = row.ids.find(digest, at + 1)
    return at >= 0


def newest_id(row: VelocityRow) -> bytes:
    """Return what stands for the transaction that was added last; empty before the first one."""
    return row.ids[-_ID_BYTES:]


def stands_for(newest: bytes, transaction_id: str) -> bool:
    """Return whether `newest_id` gave this for a row to which the transaction was added last."""
    return newest == _digest(transaction_id)


def add(row: VelocityRow, transaction_id: str, event: VelocityEvent) -> bool:
    """Add the event to the row, however late it is; return False when it was added before."""
    if is_added(row, transaction_id):
        return False
    row.ids = (row.ids + _digest(transaction_id))[-MAX_IDS * _ID_BYTES :]
    if event.t_ms // _MINUTE_MS > row.newest_ms // _MINUTE_MS:  # panes end at whole minutes
        row.panes.roll_up(event.t_ms)
    row.newest_ms = max(row.newest_ms, event.t_ms)
    stored_event = _stored_event(row, event)
    row.events.insert(bisect_right(row.events, event.t_ms, key=_TIME), stored_event)
    if len(row.events) > MAX_EVENTS:
        row.panes.add(row.events.pop(0).cell(), row.newest_ms)
    return True


def _digest(transaction_id: str) -> bytes:
    return hashlib.blake2b(transaction_id.encode(), digest_size=_ID_BYTES).digest()


def _stored_event(row: VelocityRow, event: VelocityEvent) -> RowEvent:
    base = event.base_amount
    kind = Kind(
        event.direction,
        event.type,
        event.outcome,
        event.amount.currency,
        None if base is None else base.currency,
    )
    present = sum(1 << position for position, name in enumerate(_FIELDS) if name in event.hashes)
    hashes = b"".join(event.hashes[name] for name in _FIELDS if name in event.hashes)
    return RowEvent(
        event.t_ms,
        _position(row, kind),
        stored(event.amount.minor),
        event.amount.scale,
        None if base is None else stored(base.minor),
        0 if base is None else base.scale,
        bytes((present,)) + hashes,
    )


def _position(row: VelocityRow, kind: Kind) -> int:
    """Return the position of the kind in the row, where it is appended if it is new."""
    if kind not in row.kinds:
        if len(row.kinds) >= _MAX_KINDS:
            _forget_unused_kinds(row)
        row.kinds.append(kind)
    return row.kinds.index(kind)


def _forget_unused_kinds(row: VelocityRow) -> None:
    """Remove the kinds of which there is neither an event nor a cell."""
    cells = list(row.panes.cells())
    used = sorted({one.kind for one in row.events} | {one.kind for one in cells})
    positions = {before: after for after, before in enumerate(used)}
    row.kinds = [row.kinds[before] for before in used]
    for event in row.events:
        event.kind = positions[event.kind]
    for cell in cells:
        cell.kind = positions[cell.kind]
