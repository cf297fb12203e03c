"""Compute features by a key, and count its transactions; the key's actor is the only writer of its row."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from schemas.base import to_milliseconds
from schemas.keyed_features import ComputeFeatures, CountTransaction, FeaturesComputed, KeyedCommand
from streams.ports.stores import Stores, WorkingState
from streams.transactions import row as velocity_row
from streams.transactions.features import values
from streams.transactions.keyed import rows
from streams.transactions.keyed.rows import KeyedRow
from streams.transactions.keyed_hashes import KeyedHashes, index_of
from streams.transactions.velocity import rebuilt_row

SETTLED_AFTER_MS: Final = 60_000
"""After so long every transaction is stored whose decision began before the key was counted by."""


@dataclass(frozen=True, slots=True)
class KeyedVelocity:
    """Executes each command about a key; the same command again counts nothing twice.

    A row that is missing, or that was not counted all the time, is rebuilt from the stored transactions of
    the key.
    """

    stores: Stores
    hashes: KeyedHashes
    clock: Callable[[], datetime]
    table: WorkingState[bytes]
    counts: Counter[str] = field(default_factory=Counter)
    """How often a row was in the table, or rebuilt."""

    async def __call__(self, message: KeyedCommand) -> FeaturesComputed | None:
        """Answer with the features, or count.

        Raises:
            StoreUnavailable: A row that is not in the table cannot be rebuilt.
        """
        command = message.root
        now = to_milliseconds(self.clock())
        now_ms = round(now.timestamp() * 1000)
        entry = await self._load(command, now, now_ms)
        answer = None
        if isinstance(command, ComputeFeatures):
            answer = self._compute(command, entry, now_ms)
        else:
            _count(command, entry)
        self.table.put(command.key, rows.encode(entry))
        return answer

    async def _load(
        self, command: ComputeFeatures | CountTransaction, now: datetime, now_ms: int
    ) -> KeyedRow:
        found = self.table.get(command.key)
        before = None if found is None else rows.decode(found)
        without_gap = before is not None and before.since >= command.counted_since
        if before is not None and without_gap and _is_current(before, now_ms):
            self.counts["key_table"] += 1
            return before
        self.counts["key_rebuilt"] += 1
        row = await rebuilt_row(self.stores, self.hashes, command.tenant_id, index_of(command.key), now)
        undecided = [] if before is None else before.undecided
        encoded = velocity_row.encode(row)
        return KeyedRow(encoded, command.counted_since, now_ms, without_gap, undecided)

    def _compute(self, command: ComputeFeatures, entry: KeyedRow, now_ms: int) -> FeaturesComputed:
        row = entry.with_undecided(now_ms)
        computed = values(command.features, row, rows.event_of(command.event))
        if not velocity_row.is_added(row, command.transaction_id):
            entry.note(command.transaction_id, command.event, now_ms)
        return FeaturesComputed(values={name: rows.shown(value) for name, value in computed.items()})


def _count(command: CountTransaction, entry: KeyedRow) -> None:
    row = velocity_row.decode(entry.row)
    entry.forget(command.transaction_id)
    if velocity_row.add(row, command.transaction_id, rows.event_of(command.event, command.outcome)):
        entry.row = velocity_row.encode(row)


def _is_current(row: KeyedRow, now_ms: int) -> bool:
    return row.settled or now_ms - row.rebuilt_ms < SETTLED_AFTER_MS
