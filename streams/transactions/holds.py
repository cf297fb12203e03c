"""End a hold whose time has passed: the policy's `on_expiry` becomes the decision (G121)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from schemas.base import to_milliseconds
from schemas.enums import DecisionOutcome
from schemas.problems import NotFound
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import DecisionBy, ExpireHold, StoredTransaction
from streams.audit.commit import Commit
from streams.ports.records import Change, RecordKind, Records
from streams.transactions import events
from streams.transactions.redecision import (
    Redecision,
    change_events,
    change_rows,
    next_record,
    opened_case,
    redecided,
)
from streams.transactions.rules import reason_of
from streams.transactions.wallets import transfer_records


@dataclass(frozen=True, slots=True)
class ExpireHolds:
    """Carries `ExpireHold` out; the same command again changes nothing."""

    records: Records
    commit: Commit
    clock: Callable[[], datetime]

    async def __call__(self, command: ExpireHold) -> None:
        """Decide the transaction if it still waits and its time has passed.

        Raises:
            Conflict: A reviewer decides it at this moment.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        tenant_id, now = command.tenant_id, to_milliseconds(self.clock())
        try:
            current = await self.records.get(tenant_id, RecordKind.TRANSACTION, command.transaction_id)
        except NotFound:
            return
        before = StoredTransaction.from_bytes(current.body)
        due = before.transaction.hold_expires_at
        if before.transaction.decision is not DecisionOutcome.HOLD or due is None or due > now:
            return
        what = Redecision(
            decision=before.on_expiry or DecisionOutcome.REVIEW_REQUIRED,
            reasons=(reason_of(ReasonCode.HOLD_EXPIRED),),
            by=DecisionBy.EXPIRY,
            cause="expiry",
            at=now,
            actor=events.SYSTEM,
        )
        after = redecided(tenant_id, before, what)
        record = next_record(current, after)
        await self.commit(
            Change(
                tenant_id,
                (record, *opened_case(tenant_id, before, after), *transfer_records(tenant_id, after)),
                change_rows(tenant_id, before, after, events.SYSTEM),
                change_events(tenant_id, before, after, record.version),
            )
        )
