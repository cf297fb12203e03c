"""The promises about ages: what evidence is oldest, and removal of evidence, records and events.

Every method takes the tenant first, or records that name theirs. Each may raise `StoreUnavailable`; then
nothing is known about what was asked, and asking again is safe.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position, Record


class EvidenceAges(Protocol):
    """Lists evidence by age through an index, so that no sweep reads what is not due."""

    async def oldest(
        self,
        tenant_id: TenantId,
        policy: RetentionPolicy,
        *,
        created_until: datetime,
        limit: int,
        after: Position | None = None,
    ) -> Sequence[EvidenceRow]:
        """Return at most `limit` pieces stored under the policy up to the moment, oldest first.

        `after` continues behind the last piece of the page before. Fewer than `limit`: there are no more.
        """
        ...

    async def remove(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        """Remove content, file and row of each piece, and what lists it by age last of all.

        So a removal that was cut short is found by `oldest` again. Unknown ids are ignored.
        """
        ...


class RecordRemoval(Protocol):
    """Removes records and events whose period is over. Audit rows stay."""

    async def remove(self, records: Sequence[Record]) -> None:
        """Remove each record and what lists it, both or neither; unknown ones are ignored.

        Each is given as `Records.page` returned it, and nobody may change it any more: a change that is
        committed at the same time may be lost.

        Raises:
            ValueError: A record has text of which fragments find it; such records cannot be removed.
        """
        ...

    async def remove_unchanged(self, records: Sequence[Record]) -> None:
        """Remove each record that still has this version; one that was changed stays as it is.

        For records that are changed at any time. When it is cut short, what listed the record may stay
        and leads to nothing. Raises as `remove` does.
        """
        ...

    async def remove_events(self, tenant_id: TenantId, *, livemode: bool, until: datetime, limit: int) -> int:
        """Remove the oldest published events that became visible up to the moment; return how many.

        Fewer than `limit`: there are no more, though a store may keep those of the last day of the period,
        or the newest event of all, for longer. An event that was never published stays.
        """
        ...


def require_removable(records: Sequence[Record]) -> None:
    """Raise `ValueError` unless all of the records can be removed."""
    if any(record.searched for record in records):
        raise ValueError("a record that fragments find cannot be removed")
