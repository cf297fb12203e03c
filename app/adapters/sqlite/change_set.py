"""Compute the result of a batch of changes, decided in order against stored rows; runs no statement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.adapters.shared.columns import to_micros
from streams.ports.errors import Conflict
from streams.ports.records import Change, Committed, Record

RecordKey: TypeAlias = tuple[str, str, str]
"""Tenant, kind, id."""

PlaceRow: TypeAlias = tuple[str, str, str, str, int, str]
"""A row of `record_places`."""


def key_of(record: Record) -> RecordKey:
    """Return where the record stands."""
    return record.tenant_id, record.kind.value, record.id


@dataclass(slots=True)
class Ledger:
    """The records that changes are about: as they stood, and as the changes leave them."""

    before: Mapping[RecordKey, Record]
    after: dict[RecordKey, Record] = field(default_factory=dict)
    """Only what was changed."""

    def apply(self, change: Change) -> Committed:
        """Apply the change, or return that it lost; see `Change` for the rule.

        Raises:
            Conflict: Nothing of the change counts.
        """
        staged: dict[RecordKey, Record] = {}
        deciding, *others = change.records
        won = self._stage(deciding, staged)
        if won:
            for record in others:
                self._stage(record, staged)
            self.after.update(staged)
        return Committed(self._standing(deciding, {}) or deciding, won=won)

    def places(self) -> tuple[list[PlaceRow], list[PlaceRow]]:
        """Return the rows to be added to `record_places` and those to be removed."""
        added: list[PlaceRow] = []
        gone: list[PlaceRow] = []
        for key, record in self.after.items():
            old = self.before[key].indexes if key in self.before else ()
            added += _places(record, [pair for pair in record.indexes if pair not in old])
            gone += _places(record, [pair for pair in old if pair not in record.indexes])
        return added, gone

    def _standing(self, record: Record, staged: Mapping[RecordKey, Record]) -> Record | None:
        key = key_of(record)
        return staged.get(key) or self.after.get(key) or self.before.get(key)

    def _stage(self, record: Record, staged: dict[RecordKey, Record]) -> bool:
        """Stage one record; False when this very version stands already, or a new one is not new."""
        standing = self._standing(record, staged)
        if record.version <= 1:
            if standing is None:
                staged[key_of(record)] = replace(record, version=1, first_body=record.body)
            return standing is None
        if standing is None:
            raise Conflict(f"{record.id} is not there")
        if (standing.version, standing.body) == (record.version, record.body):
            return False
        if standing.version != record.version - 1:
            raise Conflict(f"{record.id} has version {standing.version}")
        staged[key_of(record)] = replace(
            standing, version=record.version, body=record.body, indexes=record.indexes
        )
        return True


def _places(record: Record, pairs: Sequence[tuple[str, str]]) -> Iterator[PlaceRow]:
    created_at = to_micros(record.created_at)
    for name, value in pairs:
        yield record.tenant_id, value, name, record.kind.value, created_at, record.id
