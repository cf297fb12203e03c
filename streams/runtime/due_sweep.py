"""Send a command for everything that is due, found by watches on the platform's records by the hour."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import ClassVar, Final

import structlog

from schemas.ids import PLATFORM
from schemas.problems import StoreUnavailable
from streams.ports.records import Position, Record, RecordKind, Records, due_index
from streams.runtime.background import sleep_aligned
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import LogWriter, Outgoing

EVERY_S: Final = 15.0
PAGE: Final = 100
MOST_PER_HOUR: Final = 2_000
"""Watches of one hour handled per round; the next round handles the others."""

FIRST_LOOK_BACK: Final = timedelta(days=14)
"""How far back the first round reads, in case no sweep ran for so long."""

LONG_LOOK_BACK: Final = timedelta(hours=26)
"""How far back every `LONG_ROUND`th round reads, counted like the others."""

LOOK_BACK: Final = timedelta(hours=1)
"""How far back every other round reads, counted from the one before."""

LONG_ROUND: Final = 20
"""Five minutes' rounds: what an earlier round left, because it was too much, is not forgotten."""

log = structlog.get_logger(__name__)


class DueSweep(ABC):
    """Sends a command for each watch that is due; a repeated command changes nothing."""

    kind: ClassVar[RecordKind]
    """Of the watches, listed under `due_index`."""

    def __init__(self, records: Records, writer: LogWriter, now: Callable[[], datetime]) -> None:
        self.records = records
        self._writer = writer
        self._now = now
        self._rounds = 0
        self._swept_at: datetime | None = None

    @abstractmethod
    async def command_of(self, watch: Record, now: datetime) -> Outgoing | None:
        """Return the command of a watch, or None when it is not due, or over."""

    async def sweep(self) -> int:
        """Send a command for everything that is due; return how many.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        now = self._now()
        sent, hour = 0, self._earliest(now)
        while hour <= now:
            sent += await self._sweep_hour(hour, now)
            hour += timedelta(hours=1)
        self._rounds, self._swept_at = self._rounds + 1, now
        return sent

    def _earliest(self, now: datetime) -> datetime:
        """Return how far back this round reads: from the last whole round, however long ago that was."""
        if self._swept_at is None:
            return now - FIRST_LOOK_BACK
        is_long = self._rounds % LONG_ROUND == 0
        return min(self._swept_at, now) - (LONG_LOOK_BACK if is_long else LOOK_BACK)

    async def _sweep_hour(self, hour: datetime, now: datetime) -> int:
        sent, before = 0, None
        while sent < MOST_PER_HOUR:
            page = await self.records.page(PLATFORM, self.kind, due_index(hour), limit=PAGE, before=before)
            due = [command for watch in page if (command := await self.command_of(watch, now)) is not None]
            await self._writer.write(*due)
            sent += len(due)
            if len(page) < PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return sent

    async def run(self, every_s: float = EVERY_S) -> None:
        """Sweep until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                sent = await self.sweep()
            except StoreUnavailable:
                log.warning("due.sweep_deferred", kind=self.kind)
            else:
                if sent:
                    log.info("due.swept", kind=self.kind, commands=sent)
            await sleep_aligned(every_s)

    @asynccontextmanager
    async def running(self, every_s: float = EVERY_S) -> AsyncIterator[None]:
        """Sweep in the background for the length of the context."""
        async with beside(lambda: self.run(every_s), f"{self.kind}-sweep", every_s):
            yield
