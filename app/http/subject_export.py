"""All that is stored of one subject as a ZIP, made piece by piece: one document or image at a time."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.http.export_archive import Archive, ExportManifest, LeftOut
from app.http.exported_cases import ExportedCases, ExportedStanding
from app.http.exported_kinds import LISTED, index_of
from app.http.presented_transactions import PresentedTransactions
from app.http.presenters import Presenter
from schemas.audit import Actor, AuditAction, AuditEvent, AuditFilter
from schemas.base import Frozen
from schemas.ids import EvidenceId, SubjectId, TenantId, derive_id
from schemas.problems import NotFound
from schemas.reviews import Decision, ReviewCase
from schemas.sessions import VerificationSession, row_of
from schemas.transaction_decisions import StoredTransaction, TransactionDetail
from schemas.verifications import StoredVerification, Verification
from streams.audit.rows import write_row
from streams.dispositions.records import Hashes
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.queries import transactions_of
from streams.verification.records import by_mode, by_subject, folded, mode

PAGE: Final = 50
"""Records, or audit rows, read at a time."""

_ENDINGS: Final = {
    "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "application/json": "json",
}  # fmt: skip
_ADDRESS: Final = "ip"
"""In the context of an audit row: an address of the tenant's people or machines, not of the subject."""


@dataclass(frozen=True, slots=True)
class SubjectExport:
    """Exports what is stored of a subject, in the modes that the caller sees."""

    stores: Stores
    hashes: Hashes
    tenant_id: TenantId
    subject_id: SubjectId
    modes: Sequence[bool]

    async def require_known(self) -> None:
        """Raise `NotFound` unless something is stored of the subject."""
        for pages in (self._verifications(), self._transactions(), self._listed_records(), self._sessions()):
            async for _ in pages:
                return
        if not await self._audit_page(None, 1):
            raise NotFound(self.subject_id)

    async def chunks(self, at: datetime) -> AsyncIterator[bytes]:
        """Give the ZIP piece by piece; a store that fails midway cuts it short, which shows."""
        archive = Archive(at)
        yield archive.add("schema.json", schema())
        async for record in self._verifications():
            async for chunk in self._verification(archive, StoredVerification.from_bytes(record.body)):
                yield chunk
        presented = PresentedTransactions(self.stores)
        async for record in self._transactions():
            shown = presented.detail(self.tenant_id, StoredTransaction.from_bytes(record.body))
            yield await archive.add_shown("transactions", record.id, shown)
        async for record in self._listed_records():
            yield await self._listed(archive, record)
        async for chunk in self._reviewed(archive):
            yield chunk
        async for session in self._sessions():
            yield archive.add(f"sessions/{session.session_id}.json", session.to_bytes())
        async for chunk in archive.add_lines("audit.jsonl", self._audit_lines()):
            yield chunk
        manifest = ExportManifest(
            subject_id=self.subject_id,
            exported_at=at,
            livemode=tuple(self.modes),
            files=tuple(archive.files),
            left_out=tuple(archive.left_out),
        )
        yield archive.add("manifest.json", manifest.to_bytes())
        yield archive.close()

    async def _verification(self, archive: Archive, stored: StoredVerification) -> AsyncIterator[bytes]:
        verification = stored.verification
        try:
            shown = await Presenter(self.stores.vault).present(self.tenant_id, stored)
            yield archive.add(f"verifications/{verification.verification_id}.json", shown)
        except Damaged:
            archive.left_out.append(LeftOut(id=verification.verification_id, reason="DAMAGED"))
        document = verification.document.evidence if verification.document else ()
        for evidence_id in dict.fromkeys(one.id for one in (*verification.evidence, *document)):
            yield await self._evidence(archive, evidence_id)

    async def _evidence(self, archive: Archive, evidence_id: EvidenceId) -> bytes:
        try:
            row = await self.stores.evidence.describe(self.tenant_id, evidence_id)
            content = await self.stores.evidence.get(self.tenant_id, evidence_id)
        except NotFound:
            archive.left_out.append(LeftOut(id=evidence_id, reason="REMOVED"))
        except Erased:
            archive.left_out.append(LeftOut(id=evidence_id, reason="ERASED"))
        except Damaged:
            archive.left_out.append(LeftOut(id=evidence_id, reason="DAMAGED"))
        else:
            if row.subject_id == self.subject_id:
                return archive.add(f"evidence/{evidence_id}.{_ENDINGS.get(row.media_type, 'bin')}", content)
            archive.left_out.append(LeftOut(id=evidence_id, reason="DAMAGED"))
        return b""

    async def _listed(self, archive: Archive, record: Record) -> bytes:
        """Add a record of a kind that lists subjects."""
        kind = LISTED[record.kind]

        async def shown() -> bytes:
            return (await kind.shown(self.stores, self.tenant_id, record)).to_bytes()

        return await archive.add_shown(kind.folder, record.id, shown())

    async def _reviewed(self, archive: Archive) -> AsyncIterator[bytes]:
        """Add what reviewers made of the subject."""
        reviewed = ExportedCases(self.stores, self.hashes, self.tenant_id, self.subject_id)
        async for kind, about in reviewed.named(self._one_mode):
            if kind is RecordKind.REVIEW_CASE:
                yield await archive.add_shown("review-cases", about, reviewed.case(about))
            else:
                yield await archive.add_shown("decisions", about, reviewed.decision(about))
        for livemode in self.modes:
            yield await archive.add_shown("standings", mode(livemode), reviewed.standing(livemode))

    async def _listed_records(self) -> AsyncIterator[Record]:
        for kind in LISTED:
            for livemode in self.modes:
                index = index_of(kind, self.hashes, self.tenant_id, self.subject_id, livemode=livemode)
                async for record in self._records(kind, index):
                    yield record

    async def _transactions(self) -> AsyncIterator[Record]:
        for livemode in self.modes:
            found = transactions_of(self.stores.records, self.tenant_id, self.subject_id, livemode=livemode)
            async for record in found:
                yield record

    async def _verifications(self) -> AsyncIterator[Record]:
        for livemode in self.modes:
            index = by_subject(livemode, self.subject_id)
            async for record in self._records(RecordKind.VERIFICATION, index):
                yield record

    async def _records(self, kind: RecordKind, index: tuple[str, str]) -> AsyncIterator[Record]:
        before: Position | None = None
        while page := await self.stores.records.page(self.tenant_id, kind, index, limit=PAGE, before=before):
            for record in page:
                yield record
            before = _position(page[-1])

    async def _sessions(self) -> AsyncIterator[VerificationSession]:
        """Give the subject's sessions; they are found by fragments of the id, so others are passed over."""
        for livemode in self.modes:
            before: Position | None = None
            more = True
            while more:
                found = await self.stores.records.search(
                    self.tenant_id,
                    RecordKind.SESSION,
                    by_mode(livemode),
                    folded(self.subject_id),
                    limit=PAGE,
                    before=before,
                )
                for record in found.records:
                    session = row_of(record.body)
                    if session.subject_id == self.subject_id:
                        yield session
                more = found.further is not None or len(found.records) == PAGE
                before = found.further or (_position(found.records[-1]) if more else None)

    async def _audit_lines(self) -> AsyncIterator[bytes]:
        before: Position | None = None
        while rows := await self._audit_page(before, PAGE):
            for row in rows:
                context = {name: value for name, value in row.context.items() if name != _ADDRESS}
                yield row.model_copy(update={"context": context}).to_bytes()
            before = Position(rows[-1].created_at, rows[-1].event_id)

    @property
    def _one_mode(self) -> bool | None:
        """The mode of a caller who sees one; None: both."""
        return self.modes[0] if len(self.modes) == 1 else None

    async def _audit_page(self, before: Position | None, limit: int) -> Sequence[AuditEvent]:
        chosen = AuditFilter(subject_id=self.subject_id, livemode=self._one_mode)
        return await self.stores.audit_log.page(self.tenant_id, chosen, limit=limit, before=before)


def exported_row(export_id: str, subject_id: SubjectId, actor: Actor, at: datetime) -> AuditEvent:
    """Return the row that says who took out what is stored of a subject."""
    return write_row(
        derive_id("aud", export_id),
        AuditAction.PRIVACY_EXPORTED,
        actor,
        subject_id,
        at,
        detail="All that is stored of the subject was exported.",
        changes={"export_id": export_id},
    )


def _position(record: Record) -> Position:
    return Position(record.created_at, record.id)


def schema() -> bytes:
    """Return the JSON schemas of the files, by what they hold."""
    models: dict[str, type[Frozen]] = {
        "manifest": ExportManifest,
        "verification": Verification,
        "transaction": TransactionDetail,
        "review_case": ReviewCase,
        "decision": Decision,
        "standing": ExportedStanding,
        "session": VerificationSession,
        "audit_event": AuditEvent,
        **{kind.name: kind.model for kind in LISTED.values()},
    }
    made = {
        name: model.model_json_schema(mode="serialization", ref_template=f"#/{name}/$defs/{{model}}")
        for name, model in models.items()
    }
    return json.dumps(made, sort_keys=True, indent=1).encode()
