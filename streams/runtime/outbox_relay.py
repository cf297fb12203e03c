"""Publish committed events that were not published, and request missing seals."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.ids import EventId, TenantId
from schemas.problems import StoreUnavailable
from streams.ports.audit import AuditLog
from streams.ports.evidence import EvidenceStore
from streams.ports.records import Journal
from streams.runtime.background import BackgroundTask, Work, sleep_aligned
from streams.runtime.event_publisher import decision_record, seal_record
from streams.runtime.producer import LogWriter

log = structlog.get_logger(__name__)

EVERY_S: Final = 3.0
SWEEP_EVERY_S: Final = 3_600.0
ORPHANED_AFTER: Final = timedelta(hours=1)
"""Files of evidence that no row names by then never will be."""

SETTLED_AFTER: Final = timedelta(seconds=5)
"""Younger events are still being published; one that is pending in two rounds is relayed as well,
for its age is by the clock of the worker that decided, which may be ahead of this one's."""

BATCH: Final = 500


class OutboxRelay:
    """Poll the store for unpublished events and unsealed chains; duplicates are recognised by id."""

    def __init__(
        self, journal: Journal, audit_log: AuditLog, writer: LogWriter, now: Callable[[], datetime]
    ) -> None:
        self._journal = journal
        self._audit_log = audit_log
        self._writer = writer
        self._now = now
        self._waiting: frozenset[EventId] = frozenset()
        self._unsealed: frozenset[TenantId] = frozenset()

    async def relay_pending(self) -> int:
        """Publish pending events, and request seals for chains unsealed in two rounds; return how many.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        return await self._events() + await self._chains()

    async def _events(self) -> int:
        settled = self._now() - SETTLED_AFTER
        pending = await self._journal.pending_events(BATCH)
        due = [event for event in pending if event.timestamp <= settled or event.id in self._waiting]
        self._waiting = frozenset(event.id for event in pending)
        if due:
            await self._writer.write(*map(decision_record, due))
            await self._journal.mark_emitted([event.id for event in due])
            log.info("outbox.events_published", events=len(due))
        return len(due)

    async def _chains(self) -> int:
        unsealed = frozenset(await self._audit_log.unsealed_tenants())
        overdue, self._unsealed = unsealed & self._unsealed, unsealed
        await self._writer.write(*map(seal_record, sorted(overdue)))
        return len(overdue)

    async def run(self, every_s: float = EVERY_S) -> None:
        """Relay until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                await self.relay_pending()
            except StoreUnavailable:
                log.warning("outbox.relay_deferred")
            await sleep_aligned(every_s)


@asynccontextmanager
async def relaying_outbox(relay: OutboxRelay, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Run the relay in the background for the length of the context."""
    async with beside(lambda: relay.run(every_s), "outbox-relay", every_s):
        yield


@asynccontextmanager
async def sweeping(
    evidence: EvidenceStore, now: Callable[[], datetime], every_s: float = SWEEP_EVERY_S
) -> AsyncIterator[None]:
    """Remove orphaned evidence in the background for the length of the context, first at its start."""

    async def sweep() -> None:
        while True:
            try:
                swept = await evidence.sweep_orphans(now() - ORPHANED_AFTER)
            except StoreUnavailable:
                log.warning("evidence.sweep_deferred")
            else:
                if swept:
                    log.info("evidence.orphans_removed", files=swept)
            await asyncio.sleep(every_s)

    async with beside(sweep, "evidence-sweeper", every_s):
        yield


@asynccontextmanager
async def beside(work: Work, name: str, again_after_s: float) -> AsyncIterator[None]:
    """Run the work in the background for the length of the context, and restart it when it fails."""
    task = BackgroundTask(work, name, first_pause_s=again_after_s, longest_pause_s=again_after_s)
    task.start()
    try:
        yield
    finally:
        await task.stop()
