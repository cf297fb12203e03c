"""The adapters that need nothing but a folder, opened alike, and ways to break what each of them keeps."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from app.adapters.files.data_dir import BLOBS_FOLDER, DATABASE_FILE
from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.at_rest import seal_stores
from app.adapters.security.crypto import Purpose, RootKey
from app.adapters.sqlite.record_removal import SqliteRecordRemoval
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.ids import EvidenceId
from streams.ports.records import RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME

ROOT_KEY: Final = RootKey(bytes(range(32)))


class Breaker(Protocol):
    """Does to ACME's sealed evidence what a bad disk or an intruder would do."""

    def read(self, evidence_id: EvidenceId) -> bytes:
        """Return the sealed content."""
        ...

    def write(self, evidence_id: EvidenceId, sealed: bytes) -> None:
        """Put other bytes in its place."""
        ...


@dataclass(frozen=True)
class Opened:
    """The stores of one adapter, and its breaker."""

    stores: Stores
    breaker: Breaker


@dataclass(frozen=True)
class MemoryBreaker:
    """Reaches into the shelves."""

    shelves: Shelves

    def read(self, evidence_id: EvidenceId) -> bytes:
        """Return the sealed content."""
        return self.shelves.evidence[ACME, evidence_id][1]

    def write(self, evidence_id: EvidenceId, sealed: bytes) -> None:
        """Put other bytes in its place."""
        row, _ = self.shelves.evidence[ACME, evidence_id]
        self.shelves.evidence[ACME, evidence_id] = (row, sealed)


@dataclass(frozen=True)
class SqliteBreaker:
    """Reaches into the database file and the blobs beside it."""

    folder: Path

    def file(self, evidence_id: EvidenceId) -> Path | None:
        """The file of a large piece of evidence."""
        return next((self.folder / BLOBS_FOLDER).glob(f"*/{ACME}/{evidence_id}.*"), None)

    def run(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Run a statement beside the store, the guards of the audit log taken away first."""
        path = self.folder / DATABASE_FILE
        with closing(sqlite3.connect(path)) as connection, connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB '*_is_not_*'"
            guards = connection.execute(query).fetchall()
            for (name,) in guards:
                connection.execute(f"DROP TRIGGER {name}")
            return connection.execute(statement, parameters).fetchall()

    def read(self, evidence_id: EvidenceId) -> bytes:
        """Return the sealed content."""
        file = self.file(evidence_id)
        if file is not None:
            return file.read_bytes()
        sealed = self.run("SELECT sealed FROM evidence WHERE evidence_id = ?", evidence_id)[0][0]
        assert isinstance(sealed, bytes)
        return sealed

    def write(self, evidence_id: EvidenceId, sealed: bytes) -> None:
        """Put other bytes in its place."""
        file = self.file(evidence_id)
        if file is not None:
            file.write_bytes(sealed)
            return
        self.run("UPDATE evidence SET sealed = ? WHERE evidence_id = ?", sealed, evidence_id)


@asynccontextmanager
async def open_memory(folder: Path) -> AsyncIterator[Opened]:
    """The stores in memory; they need no folder."""
    del folder
    shelves = Shelves()
    yield Opened(open_memory_stores(ROOT_KEY, shelves), MemoryBreaker(shelves))


@asynccontextmanager
async def open_sealed() -> AsyncIterator[Opened]:
    """The stores in memory behind `at_rest`, which here seals every kind of record."""
    shelves, everything = Shelves(), dict.fromkeys(RecordKind, Purpose.SEALED_PEOPLE)
    stores = seal_stores(open_memory_stores(ROOT_KEY, shelves), ROOT_KEY.derive, everything)
    yield Opened(stores, MemoryBreaker(shelves))


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[Opened]:
    """The stores of one node, whose removals wait for nothing."""
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        removal = SqliteRecordRemoval(stores.journal._engine, quiet_s=0.0)  # type: ignore[attr-defined]
        yield Opened(replace(stores, removal=removal), SqliteBreaker(folder))


ADAPTERS: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Opened]]]] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
}
"""An adapter keeps the ports' promises when it passes with its line here, or beside it in `fixtures`."""
