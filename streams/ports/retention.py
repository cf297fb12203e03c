"""The promises about the age of evidence: what is oldest, and its removal once its period is over.

Every method takes the tenant first. Each may raise `StoreUnavailable`; then nothing is known about what was
asked, and asking again is safe.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position


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
