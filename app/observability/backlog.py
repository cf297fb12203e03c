"""Measure backlogs (unpublished events, unsealed audit rows, dead letters) and free disk space."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from app.adapters.files.data_dir import DATABASE_FILE
from app.observability.disk_space import nearest_existing
from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from streams.ports.stores import Stores
from streams.runtime.lag import COMMANDS, Waiting
from streams.runtime.outbox_relay import beside
from streams.runtime.supervisor import Figure

log = structlog.get_logger(__name__)

MEASURE_EVERY_S: Final = 15.0
"""Between two measurements; Prometheus asks every 15 to 60 seconds by default."""

MOST_COUNTED: Final = 1_000
"""Events and audit rows are counted up to here: more says nothing more, and counting must not load the
store."""


async def count_in_store(stores: Stores, now: datetime) -> tuple[dict[str, int], float]:
    """Return how many events, chains and audit rows wait, and the age of the oldest event in seconds.

    Raises:
        StoreUnavailable: Nothing could be counted.
    """
    events = await stores.journal.pending_events(MOST_COUNTED)
    chains = await stores.audit_log.unsealed_tenants()
    age = (now - events[0].timestamp).total_seconds() if events else 0.0
    rows = await _count_rows(stores, chains)
    return {"events": len(events), "audit_chains": len(chains), "audit_rows": rows}, max(0.0, age)


async def _count_rows(stores: Stores, chains: Iterable[TenantId]) -> int:
    """Count the unsealed audit rows of these tenants."""
    counted = 0
    for tenant_id in chains:
        counted += len(await stores.audit_log.unsealed(tenant_id, MOST_COUNTED - counted))
        if counted >= MOST_COUNTED:
            break
    return counted


def ages_of(waiting: Waiting, now: datetime) -> dict[str, float]:
    """Return how many seconds the oldest undecided command of every topic has waited, 0 without any."""
    since = waiting.commands_since
    ages = {topic: (now - since[topic]).total_seconds() if topic in since else 0.0 for topic in COMMANDS}
    return {str(topic): max(0.0, age) for topic, age in ages.items()}


class Backlog:
    """Backlogs of the store and the log, measured by one process.

    While the store or the broker is away the last values stay: see `/readyz` and the count of failures.
    """

    def __init__(
        self,
        stores: Stores,
        measure_waiting: Callable[[], Awaitable[Waiting]],
        is_responsible: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._stores = stores
        self._measure_waiting = measure_waiting
        self._is_responsible = is_responsible
        self._now = now
        self.waiting: Mapping[str, float] = {}
        """By what waits; empty in a process that does not count."""
        self.oldest_s: Mapping[str, float] = {}
        """Seconds since the oldest event that was not sent was made, 0 without any."""
        self.commands_oldest_s: Mapping[str, float] = {}
        """Seconds since the oldest undecided command came, by topic, 0 without any."""
        self.failures = 0

    async def measure(self) -> None:
        """Count once."""
        if not self._is_responsible():
            self.waiting = self.oldest_s = self.commands_oldest_s = {}
            return
        try:
            waiting, oldest_s = await count_in_store(self._stores, self._now())
            in_log = await self._measure_waiting()
        except StoreUnavailable:
            self.failures += 1
            return
        self.waiting = {**waiting, "dead_letters": in_log.dead_letters}
        self.oldest_s = {"events": oldest_s}
        self.commands_oldest_s = ages_of(in_log, self._now())

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The metrics; none names a tenant."""
        return (
            Figure(
                "veristream_backlog",
                "What waits: events not sent, chains with unsealed audit rows, those rows, dead letters not"
                f" sent again; events and rows are counted up to {MOST_COUNTED}.",
                "kind",
                lambda: self.waiting,
            ),
            Figure(
                "veristream_backlog_oldest_seconds",
                "How long the oldest event that was not sent has waited.",
                "kind",
                lambda: self.oldest_s,
            ),
            Figure(
                "veristream_commands_oldest_seconds",
                "How long the oldest undecided command of a topic has waited.",
                "topic",
                lambda: self.commands_oldest_s,
            ),
            Figure(
                "veristream_backlog_failures_total",
                "Measurements that failed because the store or the broker was away.",
                "kind",
                lambda: {"unavailable": self.failures},
            ),
        )


class DiskUsage:
    """Measures the room that is left where this process writes, and what the store and the broker take."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self._places = dict(places)
        self.free: Mapping[str, int] = {}
        """Bytes, by place."""
        self.used: Mapping[str, int] = {}
        """Bytes, by place; evidence is not counted, for it may be millions of files."""

    async def measure(self) -> None:
        """Measure once, in a thread; what cannot be measured is left out."""
        self.free, self.used = await asyncio.to_thread(self._measure)

    def _measure(self) -> tuple[dict[str, int], dict[str, int]]:
        free: dict[str, int] = {}
        used: dict[str, int] = {}
        for place, folder in self._places.items():
            try:
                free[place] = shutil.disk_usage(nearest_existing(folder)).free
                if place in _FILES:
                    used[place] = sum(one.stat().st_size for one in _FILES[place](folder))
            except OSError as error:
                log.warning("disk_usage.measure_failed", place=place, error=error.strerror)
        return free, used

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The metrics."""
        return (
            Figure("veristream_disk_free_bytes", "Room left on the disk.", "place", lambda: self.free),
            Figure("veristream_disk_used_bytes", "Size of the files.", "place", lambda: self.used),
        )


def _database_files(folder: Path) -> Iterable[Path]:
    return folder.glob(f"{DATABASE_FILE}*")


def _segments(folder: Path) -> Iterable[Path]:
    return (one for one in folder.rglob("*") if one.is_file())


_FILES: Final[Mapping[str, Callable[[Path], Iterable[Path]]]] = {
    "store": _database_files,
    "broker": _segments,
}


@asynccontextmanager
async def measuring(*measures: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Measure now, and again every 15 seconds for the length of the context."""

    async def run() -> None:
        while True:
            for measure in measures:
                await measure()
            await asyncio.sleep(MEASURE_EVERY_S)

    async with beside(run, "backlog", MEASURE_EVERY_S):
        yield
