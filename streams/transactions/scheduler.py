"""Find holds whose time has passed, and send their commands (G121)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.enums import DecisionOutcome
from schemas.ids import PLATFORM
from schemas.problems import NotFound, StoreUnavailable
from schemas.topics import Topic
from schemas.transaction_decisions import ExpireHold, HoldWatch, StoredTransaction
from streams.ports.records import Position, Record, RecordKind, Records
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import LogWriter, Outgoing
from streams.transactions.records import due_index

EVERY_S: Final = 15.0
"""A hold ends within a minute after its time (G121)."""

PAGE: Final = 100
MOST_PER_HOUR: Final = 2_000
"""Holds of one hour handled per round; the next round handles the others."""

FIRST_LOOK_BACK: Final = timedelta(days=14)
"""How far back the first round reads, in case no scheduler ran for so long."""

LOOK_BACK: Final = timedelta(hours=26)
"""How far back every other round reads."""

log = structlog.get_logger(__name__)


class HoldScheduler:
    """Send a command for each hold that is due; a repeated command changes nothing."""

    def __init__(self, records: Records, writer: LogWriter, now: Callable[[], datetime]) -> None:
        self._records = records
        self._writer = writer
        self._now = now
        self._swept = False

    async def sweep(self) -> int:
        """Send a command for every hold that is due; return how many.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        now = self._now()
        sent = 0
        hour = now - (LOOK_BACK if self._swept else FIRST_LOOK_BACK)
        while hour <= now:
            sent += await self._sweep_hour(hour, now)
            hour += timedelta(hours=1)
        self._swept = True
        return sent

    async def _sweep_hour(self, hour: datetime, now: datetime) -> int:
        sent, before = 0, None
        while sent < MOST_PER_HOUR:
            page = await self._records.page(
                PLATFORM, RecordKind.HOLD_WATCH, due_index(hour), limit=PAGE, before=before
            )
            due = [command for record in page if (command := await self._due(record, now)) is not None]
            await self._writer.write(*due)
            sent += len(due)
            if len(page) < PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return sent

    async def _due(self, record: Record, now: datetime) -> Outgoing | None:
        """Return the hold's command, or None when it is not due, or over."""
        watch = HoldWatch.from_bytes(record.body)
        if watch.due > now:
            return None
        try:
            found = await self._records.get(watch.tenant_id, RecordKind.TRANSACTION, watch.transaction_id)
        except NotFound:
            return None
        if StoredTransaction.from_bytes(found.body).transaction.decision is not DecisionOutcome.HOLD:
            return None
        command = ExpireHold(
            tenant_id=watch.tenant_id,
            subject_key=watch.subject_key,
            livemode=watch.livemode,
            requested_at=now,
            transaction_id=watch.transaction_id,
        )
        return Outgoing(Topic.TRANSACTION_COMMANDS, watch.subject_key.encode(), command.to_bytes())

    async def run(self, every_s: float = EVERY_S) -> None:
        """Sweep until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                sent = await self.sweep()
            except StoreUnavailable:
                log.warning("transactions.sweep_deferred")
            else:
                if sent:
                    log.info("transactions.swept", transactions=sent)
            await asyncio.sleep(every_s)


@asynccontextmanager
async def scheduling_holds(sweeper: HoldScheduler, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Run the scheduler in the background for the length of the context."""
    async with beside(lambda: sweeper.run(every_s), "hold-scheduler", every_s):
        yield
