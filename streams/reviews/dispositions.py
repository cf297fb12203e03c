"""The dispositions that the conclusion of a case makes, each bound to its entry and to one party (G120)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.dispositions import Disposition, DispositionKind, SealedWords, StoredDisposition
from schemas.ids import DispositionId, SubjectId, TenantId, derive_id
from schemas.problems import ProblemCode, Refused
from schemas.reviews import CaseDisposition, Conclusion, ReviewCase
from schemas.transaction_decisions import ScreenedTarget, SealedParts, StoredTransaction
from streams.dispositions.records import Hashes, audit_row, disposition_records, words_label
from streams.ports.records import Record, RecordKind
from streams.ports.screening import ListedEntries
from streams.ports.stores import Stores
from streams.privacy.sealing import refusing_erased, seal
from streams.transactions.opening import open_parts


@dataclass(frozen=True, slots=True)
class _Judged:
    """One match, whom it is about, and the hash of its entry."""

    asked: CaseDisposition
    entry_sha256: str
    counterparty_id: str | None
    """None: the subject."""


@dataclass(frozen=True, slots=True)
class CaseDispositions:
    """Makes the dispositions of conclusions."""

    stores: Stores
    entries: ListedEntries
    hashes: Hashes

    async def check(self, tenant_id: TenantId, case: ReviewCase, conclusion: Conclusion) -> None:
        """Check that every match the conclusion judges is one of the case.

        Raises:
            Refused: VALIDATION_FAILED at its place.
            StoreUnavailable: What was found cannot be read for now.
        """
        with refusing_erased():
            await self._judged(tenant_id, case, conclusion)

    async def made_by(
        self, tenant_id: TenantId, case: ReviewCase, request_id: str, actor: Actor, now: datetime
    ) -> tuple[tuple[Record, ...], tuple[AuditEvent, ...]]:
        """Return the records and audit rows of what the case's conclusion judges; raises as `check`."""
        records: list[Record] = []
        rows: list[AuditEvent] = []
        judged = [] if case.conclusion is None else await self._judged(tenant_id, case, case.conclusion)
        for place, one in enumerate(judged):
            about = DispositionId(derive_id("dsp", tenant_id, case.review_case_id, request_id, str(place)))
            made = _disposition(about, one, case, actor, now)
            words = SealedWords(
                note=f"Judged with review case {case.review_case_id}.", counterparty_id=one.counterparty_id
            )
            with refusing_erased():
                sealed = await seal(self.stores.vault, tenant_id, made.subject_id, words_label(about), words)
            stored = StoredDisposition(disposition=made, sealed=sealed, request_id=request_id)
            records += disposition_records(self.hashes, tenant_id, stored)
            rows.append(audit_row(tenant_id, made, AuditAction.DISPOSITION_CREATED, actor, now))
        return tuple(records), tuple(rows)

    async def _judged(self, tenant_id: TenantId, case: ReviewCase, conclusion: Conclusion) -> list[_Judged]:
        if not conclusion.dispositions:
            return []
        parts = await self._parts(tenant_id, case)
        found: list[_Judged] = []
        for place, asked in enumerate(conclusion.dispositions):
            pointer = f"/dispositions/{place}/entity_id"
            digest = await self.entries.entry_digest(
                tenant_id, asked.list, asked.entity_id, livemode=case.livemode
            )
            if digest is None:
                raise _refused(pointer, "No list of that name has such an entry.")
            found += [_Judged(asked, digest, about) for about in _about(parts, asked, pointer)]
        return found

    async def _parts(self, tenant_id: TenantId, case: ReviewCase) -> SealedParts | None:
        """Return what was found about the case's transaction; None for a case of another kind."""
        if case.transaction_id is None:
            return None
        record = await self.stores.records.get(tenant_id, RecordKind.TRANSACTION, case.transaction_id)
        return await open_parts(self.stores, tenant_id, StoredTransaction.from_bytes(record.body))


def _about(parts: SealedParts | None, asked: CaseDisposition, pointer: str) -> Iterator[str | None]:
    """Yield the counterparty that matched the entry, and None for the subject.

    Raises:
        Refused: Nobody did, or a counterparty without an id.
    """
    if parts is None:
        yield None
        return
    targets = {
        check.target
        for check in parts.checks
        for match in check.matches
        if (match.get("list"), match.get("entity_id")) == (asked.list, asked.entity_id)
    }
    if ScreenedTarget.SUBJECT in targets:
        yield None
    if ScreenedTarget.COUNTERPARTY in targets:
        counterparty = parts.request.counterparty
        if counterparty is None or counterparty.id is None:
            raise _refused(pointer, "The counterparty has no id by which it would be known again.")
        yield counterparty.id
    if targets.isdisjoint({ScreenedTarget.SUBJECT, ScreenedTarget.COUNTERPARTY}):
        raise _refused(pointer, "The transaction has no match with this entry.")


def _refused(pointer: str, message: str) -> Refused:
    return Refused.at(pointer, ProblemCode.VALIDATION_FAILED, message)


def _disposition(
    about: DispositionId, one: _Judged, case: ReviewCase, actor: Actor, now: datetime
) -> Disposition:
    first = case.first_conclusion
    return Disposition(
        disposition_id=about,
        kind=DispositionKind.LIST_MATCH,
        subject_id=SubjectId(case.subject_id) if one.counterparty_id is None else None,
        counterparty_id=one.counterparty_id,
        list=one.asked.list,
        entity_id=one.asked.entity_id,
        entry_sha256=one.entry_sha256,
        expires_at=one.asked.expires_at,
        review_case_id=case.review_case_id,
        approved_by=None if first is None else first.reviewer_id,
        created_at=now,
        created_by=actor.actor_id or "",
        livemode=case.livemode,
    )
