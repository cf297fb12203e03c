"""The Cassandra adapter in a keyspace of the run's own, emptied before each test.

One connection serves all tests, from a loop that outlives theirs: to connect costs more than most of them.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Final

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.driver import AWAY
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.requests import IN_FLIGHT, Requests
from app.adapters.cassandra.schema import TABLES
from app.adapters.cassandra.session import Session
from app.adapters.cassandra.stores import build_stores
from schemas.ids import EvidenceId
from tests.builders import ACME
from tests.contracts.adapters import ROOT_KEY, Opened
from tests.engines.cassandra_server import CassandraServer

KEYSPACE: Final = "contracts"
DATACENTER: Final = "datacenter1"
"""What Cassandra calls its only one."""

LASTS_A_TEST: Final = (
    f"CREATE KEYSPACE {KEYSPACE} WITH durable_writes = false"
    f" AND replication = {{'class': 'NetworkTopologyStrategy', '{DATACENTER}': 1}}"
)
"""Without a commit log tables are emptied in milliseconds; what survives a kill is tested elsewhere."""

EMPTY_S: Final = 60.0

SETTLE_S: Final = 1.0
"""How old an event is before the feed shows it; the tests wait for that."""


@dataclass(frozen=True)
class BlobBreaker:
    """Reaches into the evidence folder."""

    folder: Path

    def read(self, evidence_id: EvidenceId) -> bytes:
        """Return the sealed content."""
        return self._file(evidence_id).read_bytes()

    def write(self, evidence_id: EvidenceId, sealed: bytes) -> None:
        """Put other bytes in its place."""
        self._file(evidence_id).write_bytes(sealed)

    def _file(self, evidence_id: EvidenceId) -> Path:
        return next(self.folder.glob(f"*/{ACME}/{evidence_id}.*"))


WRITES: Final = (
    "SELECT table_name, count FROM system_views.local_write_latency WHERE keyspace_name = %s ALLOW FILTERING"
)
"""How often each table was written to since Cassandra was started, by whatever connection."""


@dataclass
class SharedConnection:
    """The run's connection to the keyspace, and what was written when its tables were emptied last."""

    session: Session
    written: dict[str, int] = field(default_factory=dict)


_CONNECTIONS: Final[dict[str, SharedConnection]] = {}
"""By address."""


@asynccontextmanager
async def open_keyspace(server: CassandraServer) -> AsyncIterator[Address]:
    """Make the keyspace with its tables, once in a run, and stay connected to it."""
    address = Address([(server.host, server.port)], DATACENTER)
    async with open_session(address, None) as session:
        await session.define(LASTS_A_TEST)
    await migrate(address, KEYSPACE, {DATACENTER: 1})
    async with lasting_session(address) as session:
        _CONNECTIONS[str(address)] = SharedConnection(session)
        yield address
        del _CONNECTIONS[str(address)]


@asynccontextmanager
async def lasting_session(address: Address) -> AsyncIterator[Session]:
    """Open a session to the keyspace whose connections a loop in a thread of its own serves."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="cassandra-connections", daemon=True)
    thread.start()
    opened = open_session(address, KEYSPACE)
    session = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop))
    try:
        yield session
    finally:
        closed = opened.__aexit__(None, None, None)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closed, loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


def session_of(address: Address) -> Session:
    """Return a session of its own over the run's connection and what was prepared on it."""
    shared = _CONNECTIONS[str(address)].session
    requests = Requests(shared.driver, asyncio.get_running_loop(), asyncio.Semaphore(IN_FLIGHT))
    return Session(shared.cluster, shared.driver, requests, shared._ready)


@asynccontextmanager
async def open_cassandra(address: Address, folder: Path) -> AsyncIterator[Opened]:
    """The stores of many nodes, with nothing in them; the folder keeps the evidence."""
    await asyncio.to_thread(_empty, _CONNECTIONS[str(address)])
    stores = build_stores(session_of(address), folder, ROOT_KEY, durable=False, settle_s=SETTLE_S)
    yield Opened(stores, BlobBreaker(folder))


def _empty(shared: SharedConnection) -> None:
    """Empty the tables that were written to since; deleted rows must not shadow the next test's either."""
    driver = shared.session.driver
    written = _writes(driver)
    emptied = [
        driver.execute_async(f"TRUNCATE {name}", timeout=EMPTY_S)
        for name in TABLES
        if name != "settings" and written[name] != shared.written.get(name)
    ]
    for answer in emptied:
        answer.result()
    shared.written = written


def _writes(driver: Any) -> dict[str, int]:
    """Ask as soon as the driver is connected again: Cassandra may have stood still since the last test."""
    until = time.monotonic() + EMPTY_S
    while True:
        try:
            return dict(driver.execute(WRITES, (KEYSPACE,)))
        except AWAY:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
