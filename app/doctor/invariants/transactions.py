"""Read the stored transactions of each tenant, and compare them with the log and the audit log."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from app.doctor.invariants.log_state import LogState
from schemas.audit import AuditEvent
from schemas.ids import AuditEventId, TenantId, TransactionId
from schemas.problems import NotFound
from schemas.topics import TOPICS, Topic
from schemas.transaction_decisions import StoredTransaction
from streams.invariants import publishing, rules, transactions
from streams.invariants.rules import Invariant, Violation
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.events import decision_events
from streams.verification.records import by_mode

PAGE: Final = 100

_REPLIES_MS: Final = next(spec.retention_ms for spec in TOPICS if spec.topic is Topic.REPLIES)
REFUSALS: Final = timedelta(milliseconds=_REPLIES_MS // 2)
"""How long a refusal is surely among the answers; it is stored nowhere else, for it created nothing."""


@dataclass(slots=True)
class TransactionState:
    """The stored transactions of one deployment; what is younger than `due_before` may be under way."""

    stores: Stores
    moment: datetime
    due_before: datetime
    retained_since: datetime
    needles: tuple[tuple[bytes, ...], ...] = ()
    violations: list[Violation] = field(default_factory=list)
    looked_at: Counter[Invariant] = field(default_factory=Counter)
    decided: dict[tuple[TenantId, TransactionId], StoredTransaction] = field(default_factory=dict)
    """Each transaction as it was first answered."""

    async def walk_records(self, tenant_id: TenantId) -> None:
        """Check every transaction of the tenant."""
        for livemode in (True, False):
            before: Position | None = None
            while page := await self.stores.records.page(
                tenant_id, RecordKind.TRANSACTION, by_mode(livemode), limit=PAGE, before=before
            ):
                for record in page:
                    await self._check(tenant_id, record)
                before = Position(page[-1].created_at, page[-1].id)

    async def _check(self, tenant_id: TenantId, record: Record) -> None:
        self.looked_at.update((Invariant.I5, Invariant.I6))
        self.violations += transactions.judge_record(tenant_id, record)
        self.violations += rules.judge_canaries(self.needles, record.id, record.body, record.first_body)
        try:
            first = StoredTransaction.from_bytes(record.first_body or record.body)
        except ValidationError:
            return
        self.decided[tenant_id, TransactionId(record.id)] = first
        case_id = first.transaction.review_case_id
        if case_id is not None and not await self._is_there(tenant_id, RecordKind.REVIEW_CASE, case_id):
            self._wrong(Invariant.I7, case_id, "the review case of a transaction cannot be read")

    async def compare_with_commands(self, log_state: LogState) -> None:
        """Find commands of the log without an outcome, and answers without a stored record."""
        for sent in log_state.screenings:
            self.looked_at[Invariant.I1] += 1
            if await self._is_decided(sent.tenant_id, sent.transaction_id):
                continue
            if sent.transaction_id in log_state.screened:
                self._wrong(Invariant.I7, sent.transaction_id, "was answered as decided and has no record")
            due = self.moment - REFUSALS <= sent.at <= self.due_before
            refused = sent.correlation_id in log_state.refused or log_state.dead_letters[sent.place] > 0
            if due and not refused:
                found = "no decision, no refusal, no dead letter"
                self._wrong(Invariant.I1, sent.transaction_id, found)

    async def _is_decided(self, tenant_id: TenantId, about: TransactionId) -> bool:
        if (tenant_id, about) in self.decided:
            return True
        try:
            record = await self.stores.records.get(tenant_id, RecordKind.TRANSACTION, about)
        except NotFound:
            return False
        await self._check(tenant_id, record)  # written since the walk
        return True

    def compare_with_events(self, log_state: LogState) -> None:
        """Find decisions whose events are missing or wrong."""
        for (tenant_id, _), first in self.decided.items():
            if self.retained_since <= first.transaction.created_at <= self.due_before:
                self.looked_at[Invariant.I4] += 1
                self.violations += publishing.judge_events(
                    decision_events(tenant_id, first), first.transaction.transaction_id, log_state.events
                )

    def compare_with_audit(self, tenant_id: TenantId, rows: Mapping[AuditEventId, AuditEvent]) -> None:
        """Find decisions whose audit rows are missing or wrong."""
        for (owner, _), first in self.decided.items():
            if owner == tenant_id:
                self.looked_at[Invariant.I3] += 1
                self.violations += transactions.judge_audit(tenant_id, first, rows)

    async def _is_there(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> bool:
        try:
            await self.stores.records.get(tenant_id, kind, record_id)
        except NotFound:
            return False
        return True

    def _wrong(self, invariant: Invariant, about: str, found: str) -> None:
        self.violations.append(Violation(invariant=invariant, about=about, found=found))
