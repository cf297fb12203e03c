"""Block commits to the store for some milliseconds, and pin everything a backup contains.

What is pinned is what a machine would keep that lost its power at that moment, and the service recovers
from there as after any crash. In detail:

- A commit to the store comes before everything that follows from it: decision events, delivery commands,
  answers, checkpoints. While the store is locked, the log can name nothing that the pinned store lacks. What
  the pinned store has marked as published was in the log before.
- The offsets that consumers committed are pinned first and the log afterwards, so no offset lies behind the
  end of its partition. A command between the offset and the end is delivered again; whether it was carried
  out before is known by its id.
- A command is written to the log once its evidence is in the store, so evidence is never missing.
- The lines of the checkpoint files name heads that were sealed before, which the pinned store has.
- Tables are rebuilt from their changelog topics, which are a part of the log. A changelog is written before
  the offset of its source is committed.

Files of evidence are written once under a fresh name. Most are copied before the moment; those that the
pinned rows name beyond that are copied after it, and those that no pinned row names are left out.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from app.adapters.files.blobs import BlobName
from app.adapters.files.data_dir import DATABASE_FILE
from app.backup.segments_at import LogSnapshot
from app.composition.stores import now
from app.settings import Settings, checkpoints_dir_of
from schemas.ids import EvidenceId, TenantId

LOCK_TIMEOUT_MS: Final = 30_000
"""How long the store may be so busy that a backup does not get its turn."""

BROKER_STORE_FILE: Final = "broker.sqlite"
"""In the broker's folder: its topics and committed offsets."""

TOPICS_FOLDER: Final = "topics"


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything as it was at one moment; valid while the context is open."""

    taken_at: datetime
    store: sqlite3.Connection
    """In a transaction that reads, so it sees the moment whatever is written."""
    broker_store: sqlite3.Connection | None
    log: LogSnapshot
    checkpoints: tuple[tuple[Path, int], ...]
    """Files of checkpoints and how long each was."""

    @property
    def store_schema(self) -> int:
        """The schema of the store."""
        version: int = self.store.execute("PRAGMA user_version").fetchone()[0]
        return version

    def blobs(self) -> Iterator[BlobName]:
        """Return the files of evidence that the store names."""
        query = "SELECT tenant, evidence_id, file FROM evidence WHERE file IS NOT NULL"
        for tenant, evidence_id, token in self.store.execute(query):
            yield BlobName(TenantId(tenant), EvidenceId(evidence_id), token)


@contextmanager
def pinned(settings: Settings) -> Iterator[Moment]:
    """Pin everything at one moment. Blocking; the service commits nothing for a few milliseconds.

    It may be entered in one thread and used in another, after it.

    Raises:
        sqlite3.Error: A store cannot be read, or did not come to rest.
        LogUnsteady: The log changes faster than it can be listed.
        OSError: A file cannot be opened.
    """
    with ExitStack() as stack:
        store = _open(stack, settings.data_dir / DATABASE_FILE)
        broker_file = settings.broker_dir / BROKER_STORE_FILE
        broker = _open(stack, broker_file) if broker_file.is_file() else None
        log = LogSnapshot(_partitions(settings, broker))
        stack.callback(log.close)
        log.refresh()  # most of the work, before anything is locked
        with closing(_connect(settings.data_dir / DATABASE_FILE)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            moment = now()
            _pin(store)
            if broker is not None:
                _pin(broker)
            log.refresh()
            checkpoints = tuple((path, path.stat().st_size) for path in _checkpoints(settings))
            lock.execute("ROLLBACK")
        yield Moment(moment, store, broker, log, checkpoints)


def is_named(settings: Settings, blob: BlobName) -> bool:
    """Return whether the store still names a file of evidence now."""
    query = "SELECT 1 FROM evidence WHERE tenant = ? AND evidence_id = ? AND file = ?"
    with closing(_connect(settings.data_dir / DATABASE_FILE)) as store:
        row = store.execute(query, (blob.tenant_id, blob.evidence_id, blob.token)).fetchone()
    return row is not None


def _open(stack: ExitStack, path: Path) -> sqlite3.Connection:
    return stack.enter_context(closing(_connect(path)))


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT_MS}")
    return connection


def _pin(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _partitions(settings: Settings, broker: sqlite3.Connection | None) -> list[Path]:
    if broker is None:
        return []
    root = settings.broker_dir / TOPICS_FOLDER
    rows = broker.execute("SELECT id, partitions FROM topic ORDER BY name").fetchall()
    return [root / topic_id / str(index) for topic_id, count in rows for index in range(count)]


def _checkpoints(settings: Settings) -> list[Path]:
    folder = checkpoints_dir_of(settings)
    return sorted(Path(entry.path) for entry in os.scandir(folder)) if folder.is_dir() else []
