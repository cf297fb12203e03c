"""Read everything stored of each tenant through the ports, and compare it with the log and with itself."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from app.adapters.files.blobs import BlobFiles
from app.doctor.invariants.log_state import LogState, Sent
from app.doctor.invariants.transactions import TransactionState
from schemas.audit import AuditEvent, AuditFilter
from schemas.enums import RetentionPolicy
from schemas.ids import AuditEventId, EvidenceId, TenantId, VerificationId
from schemas.problems import NotFound
from schemas.sessions import row_of
from schemas.topics import TOPICS, Topic
from schemas.verifications import StoredVerification
from streams.audit.handler import verify_chain
from streams.invariants import publishing, rules
from streams.invariants.rules import Invariant, Violation
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.verification import records as verification_records
from streams.verification.change import first_stored
from streams.verification.events import events

PAGE: Final = 100
AT_ONCE: Final = 10
"""Records whose evidence is opened side by side; all of it is in memory then."""

AUDIT_PAGE: Final = 173
"""Rows asked for at a time; no round number, so that pages do not end where batches do."""

DECISIONS_RETENTION_MS: Final = next(spec.retention_ms for spec in TOPICS if spec.topic is Topic.DECISIONS)
"""Retention of the decision topic."""


@dataclass(slots=True)
class StoreState:
    """The stored state of one deployment; what is younger than `due_before` may still be under way."""

    stores: Stores
    due_before: datetime
    retained_since: datetime
    """Events older than this may have left the decision topic, and their deliveries the store."""
    needles: tuple[tuple[bytes, ...], ...] = ()
    violations: list[Violation] = field(default_factory=list)
    looked_at: Counter[Invariant] = field(default_factory=Counter)
    decided: dict[tuple[TenantId, VerificationId], StoredVerification] = field(default_factory=dict)
    erased: int = 0
    """References to evidence whose subject was erased, which is as it should be."""
    transactions: TransactionState | None = None
    """What was read of transactions, whose audit rows are compared as well."""

    async def walk_records(self, tenant_id: TenantId) -> None:
        """Check every verification of the tenant and what it refers to."""
        async for page in self._pages(tenant_id):
            for start in range(0, len(page), AT_ONCE):
                records = page[start : start + AT_ONCE]
                await asyncio.gather(*(self._check_record(tenant_id, record) for record in records))

    async def _pages(self, tenant_id: TenantId) -> AsyncIterator[Sequence[Record]]:
        for livemode in (True, False):
            before: Position | None = None
            while page := await self.stores.records.page(
                tenant_id,
                RecordKind.VERIFICATION,
                verification_records.by_mode(livemode),
                limit=PAGE,
                before=before,
            ):
                yield page
                before = Position(page[-1].created_at, page[-1].id)

    async def _check_record(self, tenant_id: TenantId, record: Record) -> None:
        try:
            stored = first_stored(record)
        except ValidationError:
            self._wrong(Invariant.I5, record.id, "the record holds no verification")
            return
        self.decided[tenant_id, VerificationId(record.id)] = stored
        self.looked_at.update((Invariant.I5, Invariant.I6))
        self.violations += rules.judge_record(tenant_id, record, stored)
        self.violations += rules.judge_canaries(self.needles, record.id, record.body, record.first_body)
        await self._check_session(tenant_id, record, stored)
        await self._check_case(tenant_id, stored)
        for evidence in stored.verification.evidence:
            if evidence.retention_policy is not RetentionPolicy.REDACTED:
                await self._check_evidence(tenant_id, stored, evidence.id)

    async def _check_session(self, tenant_id: TenantId, record: Record, first: StoredVerification) -> None:
        now = StoredVerification.from_bytes(record.body)
        self.looked_at[Invariant.I7] += 1
        try:
            found = await self.stores.records.get(tenant_id, RecordKind.SESSION, first.session_id)
            session = row_of(found.body)
        except (NotFound, ValidationError):
            session = None
        self.violations += rules.judge_session(now, session)

    async def _check_case(self, tenant_id: TenantId, stored: StoredVerification) -> None:
        case_id = rules.case_expected(stored, tenant_id)
        if case_id is None:
            return
        try:
            await self.stores.records.get(tenant_id, RecordKind.REVIEW_CASE, case_id)
        except NotFound:
            self._wrong(Invariant.I7, case_id, "the review case of a verification cannot be read")

    async def _check_evidence(
        self, tenant_id: TenantId, stored: StoredVerification, evidence_id: EvidenceId
    ) -> None:
        self.looked_at[Invariant.I8] += 1
        about = f"{evidence_id} (of {stored.verification.verification_id})"
        evidence = self.stores.evidence
        try:
            row = await evidence.describe(tenant_id, evidence_id)
            owner = (tenant_id, stored.verification.subject_id, stored.verification.verification_id)
            if (row.tenant_id, row.subject_id, row.verification_id) != owner:
                self._wrong(Invariant.I6, about, "is another tenant's, subject's or verification's evidence")
            await evidence.get(tenant_id, evidence_id)
        except NotFound:
            self._wrong(Invariant.I8, about, "is referred to and has no row")
        except Erased:
            self.erased += 1
        except Damaged as damage:
            self._wrong(Invariant.I8, about, f"does not open: {damage}")

    async def walk_audit(self, tenant_id: TenantId) -> None:
        """Read the tenant's audit pages and its chain, and compare the rows with the decisions."""
        sealed = await self._sealed(tenant_id)
        try:
            rows = [row async for row in self._rows(tenant_id)]
        except Damaged as damage:
            self._wrong(Invariant.I3, tenant_id, str(damage))
            return
        self.looked_at[Invariant.I10] += len(rows)
        self.violations += rules.judge_walk(rows, sealed)
        self.violations += rules.judge_actions(rows)
        for row in rows:
            raw = row.to_bytes()
            self.violations += rules.judge_canaries(self.needles, row.event_id, raw)
        by_id = {row.event_id: row for row in rows}
        if self.transactions is not None:
            self.transactions.compare_with_audit(tenant_id, by_id)
        for (owner, _), stored in self.decided.items():
            if owner == tenant_id:
                self.looked_at[Invariant.I3] += 1
                self.violations += rules.judge_audit(tenant_id, stored, by_id)
        await self._walk_chain(tenant_id)

    async def _rows(self, tenant_id: TenantId) -> AsyncIterator[AuditEvent]:
        before: Position | None = None
        while rows := await self.stores.audit_log.page(
            tenant_id, AuditFilter(), limit=AUDIT_PAGE, before=before
        ):
            for row in rows:
                yield row
            before = Position(rows[-1].created_at, rows[-1].event_id)

    async def _sealed(self, tenant_id: TenantId) -> set[AuditEventId]:
        found: set[AuditEventId] = set()
        after = 0
        while rows := await self.stores.audit_log.walk(tenant_id, after, AUDIT_PAGE):
            found |= {row.event.event_id for row in rows if row.event is not None}
            after = rows[-1].link.position
        return found

    async def _walk_chain(self, tenant_id: TenantId) -> None:
        report = await verify_chain(self.stores.audit_log, tenant_id)
        if not report.ok:
            place = "" if report.position is None else f" at position {report.position}"
            row = "" if report.event_id is None else f": {report.event_id}"
            self._wrong(Invariant.I3, tenant_id, f"its audit chain is broken, {report.fault}{place}{row}")

    async def compare_with_commands(self, log_state: LogState) -> None:
        """Find commands of the log without an outcome, and answers without a stored record."""
        for verification_id, sent in log_state.commands.items():
            self.looked_at[Invariant.I1] += 1
            undecided = [one for one in sent if not await self._is_decided(one)]
            if undecided and verification_id in log_state.answered:
                self._wrong(Invariant.I7, verification_id, "was answered as decided and has no record")
            lost = [one for one in undecided if one.at <= self.due_before and not log_state.ended(one)]
            if lost and not await self._is_discarded(lost[0]):
                at = "/".join(map(str, lost[0].place[:2])) + f"@{lost[0].place[2]}"
                found = f"sent at {at}: no decision, no refusal, no dead letter"
                self._wrong(Invariant.I1, verification_id, found)
        self.looked_at[Invariant.I7] += len(log_state.answered)
        self.violations += log_state.without_dead_letter(self.due_before)

    async def _is_decided(self, sent: Sent) -> bool:
        if (sent.tenant_id, sent.verification_id) in self.decided:
            return True
        try:
            record = await self.stores.records.get(
                sent.tenant_id, RecordKind.VERIFICATION, sent.verification_id
            )
        except NotFound:
            return False
        await self._check_record(sent.tenant_id, record)  # written since the walk, or on no page
        return True

    async def _is_discarded(self, sent: Sent) -> bool:
        """Return whether the images of a command were removed, as a refusal does."""
        try:
            await self.stores.evidence.describe(sent.tenant_id, sent.document)
        except NotFound:
            return True
        return False

    async def compare_with_events(self, log_state: LogState) -> None:
        """Find decisions whose event is missing or wrong, and events without a stored verification."""
        for (tenant_id, _), stored in self.decided.items():
            created_at = stored.verification.created_at
            if self.retained_since <= created_at <= self.due_before:
                self.looked_at[Invariant.I4] += 1
                self.violations += publishing.judge_events(
                    events(tenant_id, stored), stored.verification.verification_id, log_state.events
                )
        self.violations += publishing.judge_repeats(log_state.events)
        for verification_id, tenant_id in log_state.decided.items():
            if (tenant_id, verification_id) not in self.decided and not await self._is_there(
                tenant_id, verification_id
            ):
                self._wrong(Invariant.I4, verification_id, "is in the decision topic and has no record")

    async def _is_there(self, tenant_id: TenantId, verification_id: VerificationId) -> bool:
        try:
            await self.stores.records.get(tenant_id, RecordKind.VERIFICATION, verification_id)
        except NotFound:
            return False
        return True

    async def walk_blobs(self, blobs: BlobFiles, older_than: datetime) -> None:
        """Find files of evidence that no row names, or that exist twice."""
        names = await asyncio.to_thread(lambda: list(blobs.written_before(older_than)))
        files = Counter((name.tenant_id, name.evidence_id) for name in names)
        for (tenant_id, evidence_id), count in files.items():
            self.looked_at[Invariant.I8] += 1
            try:
                await self.stores.evidence.describe(tenant_id, evidence_id)
            except NotFound:
                self._wrong(Invariant.I8, evidence_id, "lies among the blobs and has no row")
            else:
                if count > 1:
                    self._wrong(Invariant.I8, evidence_id, f"lies {count} times among the blobs")

    def _wrong(self, invariant: Invariant, about: str, found: str) -> None:
        self.violations.append(Violation(invariant=invariant, about=about, found=found))
