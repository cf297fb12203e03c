"""Find holds whose time has passed within a minute, and let `on_expiry` become the decision (G121)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import override

from schemas.base import to_milliseconds
from schemas.enums import DecisionOutcome
from schemas.problems import NotFound
from schemas.reasons import ReasonCode
from schemas.topics import Topic
from schemas.transaction_decisions import DecisionBy, ExpireHold, HoldWatch, StoredTransaction
from streams.audit.commit import Commit
from streams.ports.records import Change, Record, RecordKind, Records
from streams.runtime.due_sweep import DueSweep
from streams.runtime.producer import Outgoing
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


class HoldScheduler(DueSweep):
    """Send a command for each hold that is due."""

    kind = RecordKind.HOLD_WATCH

    @override
    async def command_of(self, watch: Record, now: datetime) -> Outgoing | None:
        """Return the hold's command, or None when it is not due, or over."""
        hold = HoldWatch.from_bytes(watch.body)
        if hold.due > now:
            return None
        try:
            found = await self.records.get(hold.tenant_id, RecordKind.TRANSACTION, hold.transaction_id)
        except NotFound:
            return None
        if StoredTransaction.from_bytes(found.body).transaction.decision is not DecisionOutcome.HOLD:
            return None
        command = ExpireHold(
            tenant_id=hold.tenant_id,
            subject_key=hold.subject_key,
            livemode=hold.livemode,
            requested_at=now,
            transaction_id=hold.transaction_id,
        )
        return Outgoing(Topic.TRANSACTION_COMMANDS, hold.subject_key.encode(), command.to_bytes())


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
