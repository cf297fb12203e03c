"""Requests for an erasure and their approval by a second person, where the tenant asks for one (G43, G65)."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.enums import RiskLevel
from schemas.ids import ID_PATTERN, SubjectId, TenantId
from schemas.privacy import ChainPosition, Erasure, ErasureStatus
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.tenant_settings import FourEyes, TenantSettings
from schemas.transaction_decisions import StoredTransaction
from schemas.verifications import SUBJECT_PATTERN, StoredVerification
from streams.audit.commit import Commit
from streams.audit.rules import CHAIN
from streams.ports.errors import Conflict, Erased
from streams.ports.records import Change, Position, Record, RecordKind, Records
from streams.ports.stores import Stores
from streams.retention import rules
from streams.retention.erasure_records import erasure_id, erasure_record, erasure_row
from streams.tenants.handler import Clock
from streams.tenants.settings import read_settings
from streams.transactions.queries import transactions_of
from streams.verification.records import by_subject

PAGE: Final = 100

_SUBJECT: Final = re.compile(SUBJECT_PATTERN)

_OURS: Final = re.compile(ID_PATTERN)
"""Names under which members and keys have data keys of their own."""


@dataclass(frozen=True, slots=True)
class ErasureRequests:
    """What a tenant's members do about the erasure of a subject; carrying it out is the agent's."""

    stores: Stores
    commit: Commit
    clock: Clock

    async def request(self, tenant_id: TenantId, subject_id: SubjectId, reason: str, actor: Actor) -> Erasure:
        """Return the subject's erasure, requested now unless it was before.

        Raises:
            NotFound: The tenant has no such subject.
            Refused: LEGAL_HOLD.
        """
        try:
            return await self.find(tenant_id, subject_id)
        except NotFound:
            pass
        await self._require_known(tenant_id, subject_id)
        settings = await read_settings(self.stores.records, tenant_id)
        require_no_hold(settings, subject_id)
        now = to_milliseconds(self.clock())
        second = await self._needs_second(tenant_id, subject_id, settings)
        erasure = Erasure(
            erasure_id=erasure_id(tenant_id, subject_id),
            subject_id=subject_id,
            status=ErasureStatus.REQUESTED if second else ErasureStatus.APPROVED,
            reason=reason,
            requested_at=now,
            requested_by=actor.actor_id or "",
            key_id=await self._key_id(tenant_id, subject_id),
        )
        detail = "The erasure of the subject was requested."
        row = erasure_row(tenant_id, erasure, AuditAction.PRIVACY_REQUESTED, actor, detail, now)
        committed = await self.commit(Change(tenant_id, (erasure_record(tenant_id, erasure, 1),), (row,)))
        return Erasure.from_bytes(committed.record.body)

    async def approve(self, tenant_id: TenantId, subject_id: SubjectId, actor: Actor) -> Erasure:
        """Return the erasure, approved now unless it was before.

        Raises:
            NotFound: None was requested.
            Refused: SECOND_REVIEWER_MUST_DIFFER or LEGAL_HOLD.
        """
        while True:
            current = await self._record(tenant_id, subject_id)
            erasure = Erasure.from_bytes(current.body)
            if erasure.status is not ErasureStatus.REQUESTED:
                return erasure
            if erasure.requested_by == actor.actor_id:
                message = "Another person than the one who requested an erasure approves it."
                raise Refused.because(ProblemCode.SECOND_REVIEWER_MUST_DIFFER, message)
            require_no_hold(await read_settings(self.stores.records, tenant_id), subject_id)
            now = to_milliseconds(self.clock())
            approved = erasure.model_copy(
                update={
                    "status": ErasureStatus.APPROVED,
                    "approved_at": now,
                    "approved_by": actor.actor_id,
                    "key_id": await self._key_id(tenant_id, subject_id),
                }
            )
            detail = "The erasure of the subject was approved."
            row = erasure_row(tenant_id, approved, AuditAction.PRIVACY_APPROVED, actor, detail, now)
            if await self._commit_next(current, approved, row):
                return approved

    async def _commit_next(self, current: Record, erasure: Erasure, row: AuditEvent) -> bool:
        record = replace(
            erasure_record(current.tenant_id, erasure, current.version + 1), created_at=current.created_at
        )
        try:
            return (await self.commit(Change(current.tenant_id, (record,), (row,)))).won
        except Conflict:
            return False

    async def find(self, tenant_id: TenantId, subject_id: SubjectId) -> Erasure:
        """Return the subject's erasure, or raise `NotFound`."""
        return Erasure.from_bytes((await self._record(tenant_id, subject_id)).body)

    async def proof(self, tenant_id: TenantId, subject_id: SubjectId) -> Erasure:
        """Return the erasure with the place of its row in the audit chain, once it has one."""
        erasure = await self.find(tenant_id, subject_id)
        if erasure.status is not ErasureStatus.EXECUTED:
            return erasure
        chosen = rules.executed_rows(subject_id)
        for row in await self.stores.audit_log.page(tenant_id, chosen, limit=1):
            link = row.context.get(CHAIN)
            if link is not None:
                chain = ChainPosition(event_id=row.event_id, position=link["position"], hash=link["hash"])
                return erasure.model_copy(update={"chain": chain})
        return erasure

    async def _record(self, tenant_id: TenantId, subject_id: SubjectId) -> Record:
        return await self.stores.records.get(tenant_id, RecordKind.ERASURE, erasure_id(tenant_id, subject_id))

    async def _require_known(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Raise `NotFound` for a name that is no subject's, such as that of another holder of a data key."""
        if not _SUBJECT.fullmatch(subject_id):
            raise NotFound(subject_id)
        async for _ in verifications_of(self.stores.records, tenant_id, subject_id):
            return
        if _OURS.fullmatch(subject_id) or await self._key_id(tenant_id, subject_id) is None:
            raise NotFound(subject_id)

    async def _key_id(self, tenant_id: TenantId, subject_id: SubjectId) -> str | None:
        try:
            return await self.stores.vault.key_id(tenant_id, subject_id)
        except Erased:
            return None

    async def _needs_second(
        self, tenant_id: TenantId, subject_id: SubjectId, settings: TenantSettings
    ) -> bool:
        """Tell whether a second person must agree: always, or when a decision of the subject is critical."""
        if settings.four_eyes in {FourEyes.NEVER, FourEyes.ALWAYS}:
            return settings.four_eyes is FourEyes.ALWAYS
        async for record in verifications_of(self.stores.records, tenant_id, subject_id):
            if StoredVerification.from_bytes(record.body).verification.risk_level is RiskLevel.CRITICAL:
                return True
        for livemode in (True, False):
            async for record in transactions_of(
                self.stores.records, tenant_id, subject_id, livemode=livemode
            ):
                if StoredTransaction.from_bytes(record.body).transaction.risk_level is RiskLevel.CRITICAL:
                    return True
        return False


def require_no_hold(settings: TenantSettings, subject_id: SubjectId) -> None:
    """Raise `Refused` LEGAL_HOLD when nothing of the subject may be removed."""
    if rules.is_on_hold(subject_id, settings.retention):
        message = "The subject is on legal hold: nothing of it may be removed."
        raise Refused.because(ProblemCode.LEGAL_HOLD, message)


async def verifications_of(
    records: Records, tenant_id: TenantId, subject_id: SubjectId
) -> AsyncIterator[Record]:
    """Yield the subject's verifications of both modes, newest first in each."""
    for livemode in (True, False):
        index, before, full = by_subject(livemode, subject_id), None, True
        while full:
            page = await records.page(tenant_id, RecordKind.VERIFICATION, index, limit=PAGE, before=before)
            for record in page:
                yield record
            full = len(page) == PAGE
            before = Position(page[-1].created_at, page[-1].id) if page else None
