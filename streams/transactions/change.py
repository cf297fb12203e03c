"""Build everything that a decided transaction changes; pure, with ids derived from the command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.enums import DecisionOutcome, ReviewStatus
from schemas.ids import SubjectId
from schemas.policies import FeatureKey
from schemas.transaction_decisions import (
    AppliedPolicy,
    DecisionBy,
    DecisionStep,
    ScreenTransaction,
    StoredTransaction,
    StoredTransfer,
    StreamStanding,
    SubjectStanding,
    Transaction,
)
from schemas.transactions import TransactionRequest
from streams.ports.records import Change, Record, RecordKind
from streams.transactions import events, records, review_case
from streams.transactions.comparing import Judged
from streams.transactions.opening import parts_json
from streams.transactions.rules import OPENS_CASE, Decided
from streams.transactions.shown_rules import shown_rules
from streams.transactions.wallets import transfer_records


@dataclass(frozen=True, slots=True)
class Outcome:
    """A command with its decision and the moment it was made."""

    command: ScreenTransaction
    subject_id: SubjectId
    request: TransactionRequest
    judged: Judged
    policy: AppliedPolicy
    at: datetime
    transfers: tuple[StoredTransfer, ...] = ()
    keys: Mapping[FeatureKey, str] = field(default_factory=dict)
    """By keyed hash (`keyed.keys_of`)."""

    @property
    def decided(self) -> Decided:
        """The decision."""
        return self.judged.decided

    def parts(self) -> bytes:
        """Return what is stored sealed, as JSON."""
        decided = self.decided
        rules = shown_rules(decided)
        return parts_json(self.request, rules, decided.checks, self.judged.circumstances)


@dataclass(frozen=True, slots=True)
class Standing:
    """The records of what lasts, as they were read; version 0: there is none yet."""

    subject: SubjectStanding = field(default_factory=SubjectStanding)
    subject_version: int = 0
    stream: StreamStanding | None = None
    stream_id: str = ""
    """Of the stream's record."""
    stream_version: int = 0
    created_at: datetime | None = None


def stored_transaction(outcome: Outcome, sealed_parts: str) -> StoredTransaction:
    """Return the transaction as it is stored."""
    command, request, decided = outcome.command, outcome.request, outcome.decided
    about, tenant_id = command.transaction_id, command.tenant_id
    opens = decided.decision in OPENS_CASE
    decision_id = records.first_decision_id(tenant_id, about)
    transaction = Transaction(
        transaction_id=about,
        subject_id=outcome.subject_id,
        created_at=outcome.at,
        type=request.type,
        direction=request.direction,
        amount=request.amount,
        base_amount=request.base_amount,
        occurred_at=request.occurred_at,
        reference=request.reference,
        decision=decided.decision,
        decision_id=decision_id,
        hold_expires_at=None if decided.hold_for is None else outcome.at + decided.hold_for,
        risk_level=decided.risk_level,
        risk_score=decided.risk_score,
        reasons=decided.reasons,
        policy=outcome.policy,
        shadow=outcome.judged.shadow,
        review_case_id=records.case_id(tenant_id, about) if opens else None,
        review_status=ReviewStatus.PENDING if opens else ReviewStatus.NOT_REQUIRED,
        livemode=command.livemode,
    )
    step = DecisionStep(
        decision_id=decision_id, decision=decided.decision, at=outcome.at, by=DecisionBy.POLICY
    )
    return StoredTransaction(
        transaction=transaction,
        sealed_parts=sealed_parts,
        decisions=(step,),
        recommendation=decided.recommendation,
        on_expiry=decided.on_expiry,
        transfers=outcome.transfers,
        keys=dict(outcome.keys),
        subject_key=command.subject_key,
        request_id=command.request_id,
        key_id=command.key_id,
    )


def change_of(
    outcome: Outcome, stored: StoredTransaction, standing: Standing, contact_uses: tuple[Record, ...] = ()
) -> Change:
    """Return everything a decision changes: all of it is committed, or nothing."""
    command = outcome.command
    tenant_id = command.tenant_id
    return Change(
        tenant_id,
        (
            records.transaction_record(tenant_id, stored, command.fingerprint),
            *records.hold_watch(tenant_id, stored),
            *review_case.opened(tenant_id, stored),
            *_suspension(outcome, stored, standing),
            *_stream(outcome, stored, standing),
            *contact_uses,
            *transfer_records(tenant_id, stored),
        ),
        events.audit_rows(tenant_id, stored),
        events.decision_events(tenant_id, stored),
    )


def _suspension(outcome: Outcome, stored: StoredTransaction, standing: Standing) -> tuple[Record, ...]:
    if stored.transaction.decision is not DecisionOutcome.SUSPEND:
        return ()
    about = stored.transaction.transaction_id
    suspended = standing.subject.model_copy(update={"suspended_by": about, "suspended_at": outcome.at})
    return (
        Record(
            outcome.command.tenant_id,
            RecordKind.SUBJECT_STANDING,
            records.standing_id(outcome.command.subject_key),
            suspended.to_bytes(),
            outcome.at,
            version=standing.subject_version + 1,
        ),
    )


def _stream(outcome: Outcome, stored: StoredTransaction, standing: Standing) -> tuple[Record, ...]:
    tick, before = outcome.request.stream, standing.stream
    if tick is None or before is None:
        return ()
    about = stored.transaction.transaction_id
    ends = stored.transaction.decision is DecisionOutcome.END_STREAM
    after = before.model_copy(
        update={
            "last_sequence": tick.sequence,
            "last_transaction_id": about,
            "ended_by": about if ends else before.ended_by,
        }
    )
    return (
        Record(
            outcome.command.tenant_id,
            RecordKind.PAYMENT_STREAM,
            standing.stream_id,
            after.to_bytes(),
            standing.created_at or outcome.at,
            version=standing.stream_version + 1,
        ),
    )
