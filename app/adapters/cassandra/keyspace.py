"""Migrate the keyspace to the newest version, one process at a time, and read its version."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cassandra import InvalidRequest, Unauthorized

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.evidence_rows import EVERY, age_writes
from app.adapters.cassandra.records import (
    COLUMNS,
    Pairs,
    key_of,
    month_of,
    month_write,
    place_writes,
    to_record,
)
from app.adapters.cassandra.schema import (
    MIGRATIONS,
    NEWEST,
    OLDEST,
    WITH_AGES,
    WITH_ENDING_LISTED,
    settings_table,
)
from app.adapters.cassandra.session import Attempt, Session, Statement
from app.adapters.shared.columns import to_pairs_text
from app.adapters.shared.opening import LISTED_KINDS, UNREADABLE, SchemaRefused, StoreRefused, missing_index
from schemas.problems import StoreUnavailable
from streams.ports.records import Record

KEYSPACE_FORM: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
"""What Cassandra takes as a name without quotes."""

LOCK_S: Final = 120
"""How long the lock of a migration that died is respected, in seconds."""

PATIENCE_S: Final = 180.0
"""How long a migration waits for another one, in seconds."""

AGAIN_S: Final = 0.2

KEY_CHECK: Final = "key_check"
"""The setting that says which root key is the current one, by what it derives."""

_VERSION: Final = "schema_version"
_LOCK: Final = "migrating"
_KEYSPACES: Final = Statement("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?")
_READ: Final = Statement("SELECT name, value FROM settings WHERE name = ?")
_KEEP: Final = Statement("INSERT INTO settings (name, value) VALUES (?, ?) IF NOT EXISTS")
_CHANGE: Final = Statement("UPDATE settings SET value = ? WHERE name = ? IF value = ?")
_TAKE: Final = Statement("INSERT INTO settings (name, value) VALUES (?, ?) IF NOT EXISTS USING TTL ?")
_GIVE_BACK: Final = Statement("DELETE FROM settings WHERE name = ? IF value = ?")
AT_ONCE: Final = 25
"""Records that are written at the same time."""

_EVERY: Final = Statement(f"SELECT {COLUMNS}, part FROM records")  # noqa: S608 - constants only
_LIST: Final = Statement(
    "UPDATE records SET indexes = ? WHERE tenant = ? AND kind = ? AND id = ? AND part = 0 IF version = ?"
)
_STANDING: Final = Statement(
    "SELECT indexes FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 0"
)


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    keyspace: str
    before: int
    """Version found; 0: there were no tables."""
    after: int


async def migrate(address: Address, keyspace: str, replication: Mapping[str, int]) -> Migrated:
    """Make the keyspace and its tables, or bring them up; nothing happens when they are new already.

    `replication` says how many copies each data centre keeps; it counts only for a new keyspace.

    Raises:
        SchemaRefused: A newer version was here.
        StoreRefused: See `open_session`; or the role may not do it.
        StoreUnavailable: Cassandra is away, or another migration does not come to its end.
    """
    if not KEYSPACE_FORM.fullmatch(keyspace):
        raise StoreRefused("SERVICE_CASSANDRA_KEYSPACE must be lower case letters, digits and _, up to 48")
    try:
        async with open_session(address, None) as session:
            await _make_keyspace(session, keyspace, replication)
        async with open_session(address, keyspace) as session:
            return await _make_tables(session, keyspace)
    except Unauthorized as error:
        fix = (
            f"grant its role CREATE, ALTER, SELECT and MODIFY on keyspace {keyspace}, or migrate with another"
        )
        raise StoreRefused(f"Cassandra does not let us: {fix}") from error


async def _make_keyspace(session: Session, keyspace: str, replication: Mapping[str, int]) -> None:
    if await session.execute(_KEYSPACES, (keyspace,)):
        return
    copies = json.dumps({"class": "NetworkTopologyStrategy", **replication}).replace('"', "'")
    await session.define(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {copies}")


async def _make_tables(session: Session, keyspace: str) -> Migrated:
    await session.define(settings_table(keyspace))
    before = await schema_version(session)
    if before == NEWEST:
        return Migrated(keyspace, before, before)
    async with _lock(session):
        standing = await schema_version(session)  # the previous owner of the lock may have done it all
        for version, script in enumerate(MIGRATIONS, OLDEST):
            if version <= standing:
                continue
            for table in script:
                await session.define(table)
            if version == WITH_AGES:
                await _list_ages(session)
            if version == WITH_ENDING_LISTED:
                await list_ending(session)
            await _set_version(session, standing, version)
            standing = version
    return Migrated(keyspace, before, NEWEST)


async def _list_ages(session: Session) -> None:
    """List by age what was stored before there was such a list; safe to repeat."""
    async for page in session.pages(EVERY):
        for tenant, policy, created_at, evidence_id in page:
            if None not in (policy, created_at):  # else the row was altered
                await session.batch(age_writes(tenant, policy, created_at, evidence_id))


async def schema_version(session: Session) -> int:
    """Return the version the keyspace has, 0 when nobody migrated it.

    Raises:
        SchemaRefused: It is newer than this version knows, or from before the first release.
    """
    try:
        stored = await read_setting(session, _VERSION)
    except InvalidRequest:  # no such table
        return 0
    version = 0 if stored is None else int(stored)
    if version > NEWEST:
        raise SchemaRefused(f"the store has schema {version}, this version knows {NEWEST}: upgrade")
    if 0 < version < OLDEST:
        raise SchemaRefused(f"the store has schema {version}, {UNREADABLE}")
    return version


async def check_schema(session: Session) -> None:
    """Raise `SchemaRefused` unless the keyspace has the newest version; a start never migrates by itself."""
    version = await schema_version(session)
    if version < NEWEST:
        found = f"schema {version}" if version else "no tables yet"
        raise SchemaRefused(f"the store has {found}, this version needs {NEWEST}: veristream migrate")


async def _set_version(session: Session, old: int, new: int) -> None:
    value, was = str(new).encode(), str(old).encode()
    write = (_CHANGE, (value, _VERSION, was)) if old else (_KEEP, (_VERSION, value))
    settled = await session.lwt(Attempt(write, (_READ, (_VERSION,)), {"value": value}))
    if not settled.applied and await schema_version(session) < new:
        raise StoreUnavailable("another migration took over; run it again")


@asynccontextmanager
async def _lock(session: Session) -> AsyncIterator[None]:
    """Lock migration for this process; waits while another one migrates."""
    token = secrets.token_bytes(16)
    attempt = Attempt((_TAKE, (_LOCK, token, LOCK_S)), (_READ, (_LOCK,)), {"value": token})
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (await session.lwt(attempt)).applied:  # noqa: ASYNC110 - the other is no task of ours
                await asyncio.sleep(AGAIN_S)
    except TimeoutError as error:
        raise StoreUnavailable(
            "another migration does not come to its end; look for it, and try again"
        ) from error
    try:
        yield
    finally:
        await session.lwt(Attempt((_GIVE_BACK, (_LOCK, token)), (_READ, (_LOCK,)), {}))


async def read_setting(session: Session, name: str) -> bytes | None:
    """Return the value stored under the name."""
    rows = await session.execute(_READ, (name,), serial=True)
    return rows[0][1] if rows else None


async def keep_setting(session: Session, name: str, value: bytes) -> bytes:
    """Store the value under the name unless there is one; return the stored value."""
    settled = await session.lwt(Attempt((_KEEP, (name, value)), (_READ, (name,)), {"value": value}))
    return value if settled.applied else bytes(settled.rows[0]["value"])


async def change_setting(session: Session, name: str, old: bytes | None, new: bytes) -> bool:
    """Replace what is kept under the name if it is `old`; tells whether `new` is kept now."""
    write = (_KEEP, (name, new)) if old is None else (_CHANGE, (new, name, old))
    settled = await session.lwt(Attempt(write, (_READ, (name,)), {"value": new}))
    return settled.applied


async def list_ending(session: Session) -> None:
    """Walk all records once and list those that lack it; safe to repeat, nothing else is changed."""
    now = datetime.now(UTC)
    async for page in session.pages(_EVERY):
        found = [to_record(row[:-1]) for row in page if row[-1] == 0 and row[1] in LISTED_KINDS]
        for start in range(0, len(found), AT_ONCE):
            await asyncio.gather(*(_list(session, one, now) for one in found[start : start + AT_ONCE]))


async def _list(session: Session, record: Record, now: datetime) -> None:
    """Write the place first: until the record names it as well, it leads to nothing."""
    pair = missing_index(record.kind.value, record.tenant_id, record.indexes, record.body, now)
    if pair is None:
        return
    pairs: Pairs = (*record.indexes, pair)
    month = month_write((record.tenant_id, record.kind.value, *pair, month_of(record.created_at)))
    await session.batch([month, *place_writes(record, (pair,), ())])
    text, key = to_pairs_text(pairs), key_of(record)
    write = (_LIST, (text, *key, record.version))
    await session.lwt(Attempt(write, (_STANDING, key), {"indexes": text}))
