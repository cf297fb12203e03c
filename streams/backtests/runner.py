"""Run the backtests that wait, one at a time, each in a process of its own (G115).

Backtests are found by their watches. A worker claims one in its record and says each second that it still
runs; when it stops saying so, another worker takes the backtest up from its beginning.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog

from schemas.backtests import BacktestProgress, BacktestResult, BacktestStatus, BacktestWatch, StoredBacktest
from schemas.base import to_milliseconds
from schemas.ids import PLATFORM, BacktestId, TenantId
from schemas.problems import NotFound, StoreUnavailable, VeristreamError
from streams.audit.commit import Commit
from streams.backtests.records import UNFINISHED, changed, load_backtest
from streams.backtests.replaying import Tell
from streams.backtests.requests import finish
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.runtime.background import sleep_aligned
from streams.runtime.outbox_relay import beside

EVERY_S: Final = 3.0
"""Between two looks for a backtest that waits."""

PROGRESS_S: Final = 1.0
"""Between two writings of the progress."""

CLAIM: Final = timedelta(seconds=20)
"""So long after its last word a worker counts as gone."""

STARTS: Final = 3
"""How often a worker starts the process of one backtest before it gives up."""

PAGE: Final = 100

log = structlog.get_logger(__name__)


class BacktestFailed(VeristreamError):
    """The backtest cannot be run; the message says why, without personal data."""


class BacktestInterrupted(BacktestFailed):
    """Its process was killed, or could not read the store; started again, it ends with the same result."""


class BacktestProcess(Protocol):
    """Runs a backtest apart from what decides live transactions."""

    async def __call__(self, job: StoredBacktest, tell: Tell) -> BacktestResult:
        """Return the result; cancelled, it ends everything it started.

        Raises:
            BacktestInterrupted: It may be started again.
            BacktestFailed: It cannot be run.
        """
        ...


@dataclass
class BacktestRunner:
    """Takes up what waits; `running` and `decided` are for metrics."""

    records: Records
    commit: Commit
    process: BacktestProcess
    worker_id: str
    clock: Callable[[], datetime]
    progress_s: float = PROGRESS_S
    running: int = 0
    decided: int = 0
    """Transactions that backtests decided again, ever."""
    _progress: BacktestProgress = field(default_factory=lambda: BacktestProgress(total=None))

    async def run_next(self) -> bool:
        """Run the backtest that waits longest to its end; return False when none waits.

        Raises:
            StoreUnavailable: The store is away; what runs is taken up again later.
        """
        async for watch in self._watches():
            claimed = await self._claim(watch.tenant_id, watch.backtest_id)
            if claimed is not None:
                await self._run(*claimed)
                return True
        return False

    async def run(self, every_s: float = EVERY_S) -> None:
        """Run what waits until cancelled; a store that is away is retried."""
        while True:
            try:
                while await self.run_next():
                    pass
            except StoreUnavailable:
                log.warning("backtest.deferred")
            await sleep_aligned(every_s)

    @asynccontextmanager
    async def looking(self, every_s: float = EVERY_S) -> AsyncIterator[None]:
        """Run what waits in the background for the length of the context."""
        async with beside(lambda: self.run(every_s), "backtests", every_s):
            yield

    async def _watches(self) -> AsyncIterator[BacktestWatch]:
        """Yield the watches, the oldest first."""
        found = await self.records.page(PLATFORM, RecordKind.BACKTEST_WATCH, UNFINISHED, limit=PAGE)
        for record in reversed(found):
            yield BacktestWatch.from_bytes(record.body)

    async def _claim(
        self, tenant_id: TenantId, backtest_id: BacktestId
    ) -> tuple[Record, StoredBacktest] | None:
        """Return the backtest once it is this worker's; None: it is another's, or over."""
        now = to_milliseconds(self.clock())
        try:
            record, stored = await load_backtest(self.records, tenant_id, backtest_id)
            if not stored.is_free(now):
                return None
            return await self._write(record, stored, BacktestProgress(total=None))
        except (NotFound, Conflict):
            return None

    async def _run(self, record: Record, stored: StoredBacktest) -> None:
        self._progress, self.running = BacktestProgress(total=None), 1
        task = asyncio.create_task(self._started(stored), name="backtest")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self.progress_s)
                if not task.done():
                    record, stored = await self._write(record, stored, self._progress)
            await finish(self.records, self.commit, record, self._ended(stored, task))
        except Conflict:  # it was cancelled, or another worker took it up
            log.info("backtest.given_up", tenant_id=stored.tenant_id, backtest_id=stored.backtest_id)
        finally:
            self.running = 0
            task.cancel()
            with suppress(asyncio.CancelledError, VeristreamError):
                await task

    async def _started(self, stored: StoredBacktest) -> BacktestResult:
        """Return the result; a process that is interrupted is started again from the beginning."""
        for _ in range(STARTS - 1):
            try:
                return await self.process(stored, self._tell)
            except BacktestInterrupted:
                log.warning("backtest.restarted", backtest_id=stored.backtest_id)
            await asyncio.sleep(self.progress_s)
        return await self.process(stored, self._tell)

    def _tell(self, progress: BacktestProgress) -> None:
        self.decided += max(0, progress.done - self._progress.done)
        self._progress = progress

    def _ended(self, stored: StoredBacktest, task: asyncio.Task[BacktestResult]) -> StoredBacktest:
        update: dict[str, object] = {
            "progress": self._progress,
            "finished_at": to_milliseconds(self.clock()),
            "claimed_by": None,
            "claimed_until": None,
        }
        try:
            update |= {"result": task.result(), "status": BacktestStatus.DONE}
        except BacktestFailed as error:
            update |= {"failure": str(error), "status": BacktestStatus.FAILED}
        log.info("backtest.ended", tenant_id=stored.tenant_id, backtest_id=stored.backtest_id)
        return stored.model_copy(update=update)

    async def _write(
        self, record: Record, stored: StoredBacktest, progress: BacktestProgress
    ) -> tuple[Record, StoredBacktest]:
        """Write that this worker runs it, and how far it is.

        Raises:
            Conflict: It was cancelled, or another worker took it up.
        """
        update = {
            "status": BacktestStatus.RUNNING,
            "progress": progress,
            "claimed_by": self.worker_id,
            "claimed_until": to_milliseconds(self.clock()) + CLAIM,
        }
        after = stored.model_copy(update=update)
        next_record = changed(record, after)
        committed = await self.commit(Change(stored.tenant_id, (next_record,)))
        if not committed.won:
            raise Conflict(stored.backtest_id)
        return next_record, after
