"""Probes of what the service depends on: store, broker, disks, background tasks and agents."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from app.kafka.diagnostics import reach
from app.observability.disk_space import DiskProbe
from schemas.problems import StoreUnavailable
from streams.ports.stores import Stores
from streams.runtime.background import probe_background_tasks
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Worker

Probe = Callable[[], Awaitable[str | None]]
"""Return why a dependency cannot be used now; None when it can. It may not raise."""


@runtime_checkable
class ShowingProbe(Protocol):
    """A probe that has more to say than up or down."""

    def shown(self) -> dict[str, Any]:
        """Return what `/readyz` shows beside the status; it may not raise."""
        ...


PROBE_S: Final = 2.0
"""A dependency that has not answered by then counts as down."""

BROKER_S: Final = 1.5
"""A broker that has not greeted by then counts as down; what is left of the probe finds out why."""

LATE: Final = "it did not answer in time"

CACHED_S: Final = 1.0
"""How old an answer of a dependency may be."""

WRITE_EVERY_S: Final = 5.0
"""How old the last proof that the store can be written may be; each costs one flush to the disk."""

PROVEN_S: Final = 1.8
"""A log that took no record by then takes none: a little less than the probe, which then can say why."""

TAKES_NONE: Final = "the broker answers and takes no record; is its disk full?"


class WriteProof:
    """Proves that something can be written, not oftener than every few seconds while all is well.

    One write at a time: a probe that is given up leaves its write under way, and the next one waits for the
    same.
    """

    def __init__(
        self, write: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._wrote_at = -math.inf
        self._writing: asyncio.Future[None] | None = None

    async def renew(self, *, at_once: bool = False) -> None:
        """Write if the last proof is old, or at once; raises what the write raises."""
        if not at_once and self._clock() - self._wrote_at < WRITE_EVERY_S:
            return
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
            self._writing.add_done_callback(self._note)
        await asyncio.shield(self._writing)

    def _note(self, written: asyncio.Future[None]) -> None:
        self._writing = None
        if not written.cancelled() and written.exception() is None:
            self._wrote_at = self._clock()


class StoreProbe:
    """Checks that the store reads and writes; a full disk would still read."""

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.monotonic) -> None:
        self._stores = stores
        self._proof = WriteProof(stores.journal.touch, clock)

    async def __call__(self) -> str | None:
        """Return why the store cannot be used, or None."""
        try:
            await self._stores.audit_log.unsealed_tenants()
            await self._proof.renew()
        except StoreUnavailable as error:
            return str(error)
        return None


class BrokerProbe:
    """Checks that the broker answers and, given the process's writer, takes records."""

    def __init__(self, access: LogAccess, writer: LogWriter | None) -> None:
        self._access = access
        self._writer = writer
        self._proof = None if writer is None else WriteProof(writer.prove)

    async def __call__(self) -> str | None:
        """Return why the broker cannot be used, or None."""
        late = asyncio.get_running_loop().time() + PROVEN_S
        try:
            await reach(self._access, BROKER_S)
            if self._writer is not None and self._proof is not None:
                async with asyncio.timeout_at(late):
                    await self._proof.renew(at_once=self._writer.failing)
        except StoreUnavailable as error:
            return str(error)
        except TimeoutError:
            return TAKES_NONE
        return None


class CachedProbe:
    """Cache a probe's result for a second; concurrent callers share one call.

    `/readyz` is open to anybody, and a probe dials every broker, reads the store or writes to a disk.
    """

    def __init__(self, probe: Probe, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._asking: asyncio.Task[str | None] | None = None
        self._answer: tuple[float, str | None] | None = None

    async def __call__(self) -> str | None:
        """Return why the dependency cannot be used, or None; at most `CACHED_S` old."""
        if self._answer is not None and self._clock() - self._answer[0] < CACHED_S:
            return self._answer[1]
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="readiness-probe")
        return await asyncio.shield(self._asking)

    async def _ask(self) -> str | None:
        """Run a probe with a timeout, so that a late answer does not delay later callers."""
        cause: str | None = LATE
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_S):
                    cause = await self._probe()
        finally:
            self._asking = None
        self._answer = (self._clock(), cause)
        return cause


def probes_of(
    stores: Stores,
    access: LogAccess,
    worker: Worker | None,
    writer: LogWriter | None = None,
    places: Mapping[str, Path] | None = None,
) -> dict[str, Probe]:
    """Return the probes of `/readyz`: store, broker, disks, and this process's tasks and agents."""

    async def agents() -> str | None:
        if worker is None or not worker.ready:
            return "partitions are being assigned or tables recovered"
        return None if worker.healthy else "records wait and none is finished"

    probes: dict[str, Probe] = {
        "store": CachedProbe(StoreProbe(stores)),
        "broker": CachedProbe(BrokerProbe(access, writer)),
        "tasks": probe_background_tasks,
    }
    if places is not None:
        probes["disk"] = CachedProbe(DiskProbe(places))
    return probes if worker is None else {**probes, "agents": agents, **worker.probes}
