"""What reviewers made of a subject, for its export: cases, overturned decisions, and suspensions.

No index lists cases by subject. The audit log does: each act on a case has a row that says whom it is about.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from app.http.presenters import CaseTexts
from schemas.audit import AuditAction, AuditEvent, AuditFilter
from schemas.base import Frozen, Timestamp
from schemas.ids import SubjectId, TenantId, TransactionId, VerificationId
from schemas.reviews import Decision, StoredCase
from schemas.transaction_decisions import SealedNote, SubjectStanding
from streams.dispositions.records import Hashes
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Position, RecordKind
from streams.ports.stores import Stores
from streams.transactions.records import standing_id
from streams.transactions.reinstating import NOTE_LABEL
from streams.verification.records import first_decision_id

_ACTS: Final = "case."
_PAGE: Final = 50
"""Audit rows read at a time."""

Named = tuple[RecordKind, str]
"""The kind and id of a record."""


class ReinstatementNote(Frozen):
    """Why a reviewer lifted a suspension."""

    author_id: str
    text: str
    """Empty once the subject was erased."""
    created_at: Timestamp


class ExportedStanding(Frozen):
    """What lasts of decisions about a subject in a mode."""

    livemode: bool
    suspended_by: TransactionId | None = None
    """The transaction whose decision suspended it; absent: it is not suspended."""
    suspended_at: Timestamp | None = None
    notes: tuple[ReinstatementNote, ...] = ()
    """Of its last reinstatements."""


@dataclass(frozen=True, slots=True)
class ExportedCases:
    """Finds and shows what reviewers made of one subject."""

    stores: Stores
    hashes: Hashes
    tenant_id: TenantId
    subject_id: SubjectId

    async def named(self, livemode: bool | None) -> AsyncIterator[Named]:  # noqa: FBT001
        """Name the cases of a mode, or of both, and the decisions they may have overturned, each once."""
        chosen = AuditFilter(subject_id=self.subject_id, livemode=livemode, action=_ACTS)
        given: set[Named] = set()
        before: Position | None = None
        log = self.stores.audit_log
        while rows := await log.page(self.tenant_id, chosen, limit=_PAGE, before=before):
            for named in (named for row in rows for named in _named(self.tenant_id, row)):
                if named not in given:
                    given.add(named)
                    yield named
            before = Position(rows[-1].created_at, rows[-1].event_id)

    async def case(self, about: str) -> bytes:
        """Return a case with its notes as JSON.

        Raises:
            NotFound: There is none.
            Damaged: It is another subject's, or a note of it was altered.
        """
        record = await self.stores.records.get(self.tenant_id, RecordKind.REVIEW_CASE, about)
        self._require_own(StoredCase.from_bytes(record.body).case.subject_id)
        return await CaseTexts(self.stores.vault).show(self.tenant_id, record)

    async def decision(self, about: str) -> bytes:
        """Return a decision that was overturned, or that overturned one, as JSON.

        Raises:
            NotFound: It is neither, and so in its verification alone.
            Damaged: It is another subject's.
        """
        record = await self.stores.records.get(self.tenant_id, RecordKind.DECISION, about)
        decision = Decision.from_bytes(record.body)
        self._require_own(decision.subject_id)
        return decision.to_bytes()

    async def standing(self, livemode: bool) -> bytes:  # noqa: FBT001
        """Return what lasts of a mode's decisions, as JSON.

        Raises:
            NotFound: Nothing does.
            Damaged: A note was altered.
        """
        about = standing_id(self.hashes.subject_key(self.tenant_id, self.subject_id, livemode=livemode))
        record = await self.stores.records.get(self.tenant_id, RecordKind.SUBJECT_STANDING, about)
        standing = SubjectStanding.from_bytes(record.body)
        notes = tuple([await self._opened(note) for note in standing.notes])
        shown = ExportedStanding(
            livemode=livemode,
            suspended_by=standing.suspended_by,
            suspended_at=standing.suspended_at,
            notes=notes,
        )
        return shown.to_bytes()

    async def _opened(self, note: SealedNote) -> ReinstatementNote:
        try:
            opened = await self.stores.vault.open(
                self.tenant_id, self.subject_id, NOTE_LABEL, note.sealed_text
            )
        except Erased:
            opened = b""
        return ReinstatementNote(author_id=note.author_id, text=opened.decode(), created_at=note.created_at)

    def _require_own(self, subject_id: SubjectId) -> None:
        if subject_id != self.subject_id:
            raise Damaged("a row of the audit log names a record of another subject")


def _named(tenant_id: TenantId, row: AuditEvent) -> Iterator[Named]:
    """Name what a row of a case is about."""
    changes = row.context.get("changes", {})
    if row.action is AuditAction.CASE_OPENED:
        yield RecordKind.REVIEW_CASE, changes["review_case_id"]
    if row.action is AuditAction.CASE_CONCLUDED and "verification_id" in changes:
        first = first_decision_id(tenant_id, VerificationId(changes["verification_id"]))
        yield from ((RecordKind.DECISION, about) for about in (first, row.decision_id) if about is not None)
