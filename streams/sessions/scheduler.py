"""Find sessions that expired or whose outcome is overdue, and send their commands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.ids import PLATFORM
from schemas.problems import NotFound, StoreUnavailable
from schemas.sessions import ExpireSession, RecordOutcome, SessionWatch, StoredSession, stored_of
from schemas.topics import Topic
from streams.audit.actors import NOBODY
from streams.ports.records import Position, Record, RecordKind, Records
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import LogWriter, Outgoing
from streams.sessions import rules

EVERY_S: Final = 15.0
PAGE: Final = 100
MOST_PER_HOUR: Final = 2_000
"""Sessions of one hour handled per round; the next round handles the others."""

FIRST_LOOK_BACK: Final = timedelta(days=14)
"""How far back the first round reads, in case no scheduler ran for so long."""

LOOK_BACK: Final = timedelta(hours=26)
"""How far back every other round reads."""

log = structlog.get_logger(__name__)


class SessionScheduler:
    """Send a command for each due session; a repeated command changes nothing."""

    def __init__(self, records: Records, writer: LogWriter, now: Callable[[], datetime]) -> None:
        self._records = records
        self._writer = writer
        self._now = now
        self._swept = False

    async def sweep(self) -> int:
        """Send a command for every session that is due; return how many.

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
                PLATFORM, RecordKind.SESSION_WATCH, rules.due_index(hour), limit=PAGE, before=before
            )
            commands = [command for record in page if (command := await self._asked(record, now)) is not None]
            await self._writer.write(*commands)
            sent += len(commands)
            if len(page) < PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return sent

    async def _asked(self, record: Record, now: datetime) -> Outgoing | None:
        """Return the session's command, or None when it is not due."""
        watch = SessionWatch.from_bytes(record.body)
        if watch.due is None or watch.due > now:
            return None
        try:
            found = await self._records.get(watch.tenant_id, RecordKind.SESSION, watch.session_id)
        except NotFound:
            return None
        stored = stored_of(found.body)
        if stored is None or (rules.due(stored) is None and stored.session.verification_id is not None):
            return None
        command = _command(watch, stored, now)
        return Outgoing(Topic.SESSION_COMMANDS, watch.session_id.encode(), command.to_bytes())

    async def run(self, every_s: float = EVERY_S) -> None:
        """Sweep until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                sent = await self.sweep()
            except StoreUnavailable:
                log.warning("sessions.sweep_deferred")
            else:
                if sent:
                    log.info("sessions.swept", sessions=sent)
            await asyncio.sleep(every_s)


@asynccontextmanager
async def scheduling_sessions(sweeper: SessionScheduler, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Run the scheduler in the background for the length of the context."""
    async with beside(lambda: sweeper.run(every_s), "session-scheduler", every_s):
        yield


def _command(watch: SessionWatch, stored: StoredSession, now: datetime) -> ExpireSession | RecordOutcome:
    """Return the command for a due session: expire it, or record its outcome."""
    tenant_id, session_id = watch.tenant_id, watch.session_id
    if stored.session.status in rules.OPEN:
        return ExpireSession(tenant_id=tenant_id, session_id=session_id, actor=NOBODY, requested_at=now)
    return RecordOutcome(
        tenant_id=tenant_id,
        session_id=session_id,
        actor=NOBODY,
        requested_at=now,
        attempt=stored.session.attempts,
    )
