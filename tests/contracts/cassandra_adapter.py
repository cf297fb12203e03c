"""The Cassandra adapter in a keyspace of the run's own, emptied before each test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.schema import TABLES
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


async def make_keyspace(server: CassandraServer) -> Address:
    """Make the keyspace with its tables, once in a run."""
    address = Address([(server.host, server.port)], DATACENTER)
    async with open_session(address, None) as session:
        await session.define(LASTS_A_TEST)
    await migrate(address, KEYSPACE, {DATACENTER: 1})
    return address


@asynccontextmanager
async def open_cassandra(address: Address, folder: Path) -> AsyncIterator[Opened]:
    """The stores of many nodes, with nothing in them; the folder keeps the evidence."""
    async with open_session(address, KEYSPACE) as session:
        await asyncio.to_thread(_empty, session.driver)
        stores = build_stores(session, folder, ROOT_KEY, durable=False, settle_s=SETTLE_S)
        yield Opened(stores, BlobBreaker(folder))


def _empty(driver: Any) -> None:
    """Empty all tables; rows that were deleted must not shadow those of the next test either."""
    emptied = [
        driver.execute_async(f"TRUNCATE {name}", timeout=EMPTY_S) for name in TABLES if name != "settings"
    ]
    for answer in emptied:
        answer.result()
