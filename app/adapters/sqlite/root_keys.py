"""Root keys and wrapped keys in the SQLite file, for the rotation; works while the service runs."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from typing_extensions import override

from app.adapters.security.derived_keys import KeySet
from app.adapters.security.root_key_store import KeyState, Rewrapped, RootKeyStore, WrappedKey
from app.adapters.sqlite.engine import READER_CACHE_KIB, connect
from schemas.ids import SubjectId, TenantId
from schemas.problems import StoreUnavailable

Answer = TypeVar("Answer")

_READ: Final = "SELECT name, value FROM settings WHERE name IN ('key_check', 'root_keys')"
_KEEP: Final = "INSERT INTO settings (name, value) VALUES ('root_keys', ?)"
_REPLACE: Final = "UPDATE settings SET value = ? WHERE name = 'root_keys'"
_CHECK: Final = "UPDATE settings SET value = ? WHERE name = 'key_check' AND value IN (?, ?)"
_PAGE: Final = """
SELECT tenant, subject_id, wrapped FROM subject_keys
WHERE (tenant, subject_id) > (?, ?) ORDER BY tenant, subject_id LIMIT ?"""
_REWRAP: Final = """
UPDATE subject_keys SET wrapped = ? WHERE tenant = ? AND subject_id = ? AND wrapped = ?"""


class SqliteRootKeys(RootKeyStore):
    """Opens the file for each call, which is one short transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    async def read(self) -> KeyState:
        return await asyncio.to_thread(self._look, state_of)

    @override
    async def replace_keyset(self, old: KeySet, new: KeySet) -> None:
        def replace(connection: sqlite3.Connection) -> None:
            if state_of(connection).keyset != old:
                raise StoreUnavailable("another rotation of the root key is under way; run it again")
            text = new.model_dump_json().encode()
            if not connection.execute(_REPLACE, (text,)).rowcount:
                connection.execute(_KEEP, (text,))

        await self._run(replace)

    @override
    async def make_current(self, old: bytes, new: bytes) -> None:
        def change(connection: sqlite3.Connection) -> None:
            if not connection.execute(_CHECK, (new, old, new)).rowcount:
                raise StoreUnavailable("the root key was rotated to another one meanwhile")

        await self._run(change)

    @override
    async def page(self, after: WrappedKey | None, limit: int) -> Sequence[WrappedKey]:
        place = ("", "") if after is None else (after.tenant_id, after.subject_id)
        rows = await asyncio.to_thread(
            self._look, lambda connection: connection.execute(_PAGE, (*place, limit)).fetchall()
        )
        return [
            WrappedKey(TenantId(tenant), SubjectId(subject), wrapped) for tenant, subject, wrapped in rows
        ]

    @override
    async def rewrap(self, changes: Sequence[Rewrapped]) -> None:
        rows = [
            (change.wrapped, change.row.tenant_id, change.row.subject_id, change.row.wrapped)
            for change in changes
        ]
        await self._run(lambda connection: connection.executemany(_REWRAP, rows))

    async def _run(self, job: Callable[[sqlite3.Connection], Answer]) -> Answer:
        return await asyncio.to_thread(self._transact, job)

    def _transact(self, job: Callable[[sqlite3.Connection], Answer]) -> Answer:
        def run(connection: sqlite3.Connection) -> Answer:
            connection.execute("BEGIN IMMEDIATE")
            try:
                answer = job(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return answer

        return self._look(run)

    def _look(self, job: Callable[[sqlite3.Connection], Answer]) -> Answer:
        try:
            with closing(connect(self._path, cache_kib=READER_CACHE_KIB)) as connection:
                return job(connection)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error


def state_of(connection: sqlite3.Connection) -> KeyState:
    """Return what the file says about root keys."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'settings'").fetchall():
        return KeyState(None, KeySet())  # a file that is being made, or somebody else's
    found: dict[str, bytes] = dict(connection.execute(_READ).fetchall())
    text = found.get("root_keys")
    return KeyState(found.get("key_check"), KeySet() if text is None else KeySet.model_validate_json(text))
