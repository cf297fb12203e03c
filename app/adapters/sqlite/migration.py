"""Looks at, tries and secures a migration of the database file; `schema` knows the steps themselves."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from app.adapters.security.crypto import sync_folder
from app.adapters.shared.opening import SchemaRefused
from app.adapters.sqlite import schema
from schemas.problems import StoreUnavailable

PAGES_AT_ONCE: Final = 256
"""Pages copied at a time: 1 MiB."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a start would do to the file."""

    standing: int
    """Version of the file; 0: it is empty."""
    newest: int
    """Version this program makes of it."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps to take, in order."""
        first = max(self.standing, schema.OLDEST - 1)
        return tuple(f"schema {version} to {version + 1}" for version in range(first, self.newest))


def plan_migration(path: Path) -> MigrationPlan:
    """Return what a start would do. Reads only; blocking.

    Raises:
        StoreUnavailable: The file cannot be read.
        SchemaRefused: See `schema.migrate`.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return MigrationPlan(schema.standing_version(connection), schema.NEWEST)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from error


def try_migration(path: Path) -> MigrationPlan:
    """Take every step on a copy beside the file, and remove the copy. Blocking; raises what `plan` does."""
    planned = plan_migration(path)
    draft = path.with_name(f".{path.name}.{uuid4().hex}.trial")
    try:
        _copy(path, draft)
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            schema.migrate(connection)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"{path}: the migration failed on a copy: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return planned


def copy_before(path: Path, standing: int) -> Path:
    """Copy a file that is about to be migrated, durably; returns the copy, which stays. Blocking.

    One from an earlier try is replaced, unless another process has migrated the file meanwhile.

    Raises:
        SchemaRefused: There is no room, or the folder cannot be written; nothing was migrated.
    """
    copy = path.with_name(f"{path.name}.schema-{standing}")
    draft = path.with_name(f".{copy.name}.{uuid4().hex}.new")
    try:
        _copy(path, draft)
        with closing(sqlite3.connect(draft)) as connection:
            unchanged = schema.standing_version(connection) == standing
        if unchanged:
            draft.replace(copy)
            sync_folder(path.parent)
    except (sqlite3.Error, OSError) as error:
        raise SchemaRefused(
            f"{path} is not migrated: the copy to go back to cannot be written ({error}); make room for "
            "another copy of it"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return copy


def _copy(path: Path, target: Path) -> None:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=PAGES_AT_ONCE)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
