"""Find holds whose time has passed, and send their commands; every round ends within a minute (G121)."""

from datetime import datetime

from typing_extensions import override

from schemas.enums import DecisionOutcome
from schemas.problems import NotFound
from schemas.topics import Topic
from schemas.transaction_decisions import ExpireHold, HoldWatch, StoredTransaction
from streams.ports.records import Record, RecordKind
from streams.runtime.due_sweep import DueSweep
from streams.runtime.producer import Outgoing


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
