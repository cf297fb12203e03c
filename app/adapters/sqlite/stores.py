"""Open the stores of one node over one data folder."""

import asyncio
import hmac
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from app.adapters.files.blobs import BlobFiles
from app.adapters.files.data_dir import BLOBS_FOLDER, DATABASE_FILE, make_private
from app.adapters.security.crypto import Keys, Purpose, RootKeyRefused
from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.security.keyring import KeyRing
from app.adapters.sqlite.audit_log import SqliteAuditLog
from app.adapters.sqlite.engine import READER_CACHE_KIB, Engine, connect, prepare
from app.adapters.sqlite.evidence import SqliteEvidenceStore
from app.adapters.sqlite.evidence_ages import SqliteEvidenceAges
from app.adapters.sqlite.feed import SqliteEventFeed
from app.adapters.sqlite.journal import SqliteJournal, SqliteRecords
from app.adapters.sqlite.keys import SqliteVault
from app.adapters.sqlite.record_removal import SqliteRecordRemoval
from schemas.problems import StoreUnavailable
from streams.ports.stores import Stores


@asynccontextmanager
async def open_sqlite_stores(
    data_dir: Path, keys: Keys, *, blobs_dir: Path | None = None, durable: bool = True
) -> AsyncIterator[Stores]:
    """Open the stores of a data folder, made or brought up when needed; close them at the end.

    Several processes may have the same folder open. Large evidence lies in `blobs_dir`, by default
    beside the database. Without `durable` a loss of power may cost evidence files that were just
    written; for tests.

    Raises:
        StoreUnavailable: The folder or the database cannot be used.
        SchemaRefused: A newer version, or another program, wrote the database.
        RootKeyRefused: The data was sealed under another root key.
    """
    engine = await asyncio.to_thread(_open, data_dir, keys, asyncio.get_running_loop())
    ring, chain_keys = KeyRing(keys), ChainKeyRing(keys)
    blobs = BlobFiles(blobs_dir or data_dir / BLOBS_FOLDER, durable=durable)
    try:
        yield Stores(
            journal=SqliteJournal(engine, chain_keys=chain_keys),
            records=SqliteRecords(engine),
            audit_log=SqliteAuditLog(engine, chain_keys),
            evidence=SqliteEvidenceStore(engine, ring, blobs),
            vault=SqliteVault(engine, ring),
            feed=SqliteEventFeed(engine),
            ages=SqliteEvidenceAges(engine, blobs),
            removal=SqliteRecordRemoval(engine),
            links_in_commit=bool(chain_keys.known.versions),
        )
    finally:
        await engine.aclose()


def _open(data_dir: Path, keys: Keys, loop: asyncio.AbstractEventLoop) -> Engine:
    path = data_dir / DATABASE_FILE
    make_private(data_dir)
    prepare(path)
    _check_key(path, keys.derive(Purpose.KEY_CHECK))
    return Engine(path, loop)


def _check_key(path: Path, expected: bytes) -> None:
    try:
        with closing(connect(path, cache_kib=READER_CACHE_KIB)) as connection:
            connection.execute("INSERT OR IGNORE INTO settings VALUES ('key_check', ?)", (expected,))
            (stored,) = connection.execute("SELECT value FROM settings WHERE name = 'key_check'").fetchone()
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from error
    if not hmac.compare_digest(stored, expected):
        raise RootKeyRefused(f"{path} was sealed under another root key")
