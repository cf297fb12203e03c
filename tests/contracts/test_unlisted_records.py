"""Records that an earlier version wrote without the index by which they end are listed by the migration."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from app.adapters.cassandra.connection import Address
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.schema import WITH_ENDING_LISTED
from app.adapters.cassandra.session import Statement
from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.sqlite import schema
from app.adapters.sqlite.engine import prepare
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.ids import PLATFORM, EvidenceId, ReviewerSessionId, SessionId, UserId, derive_id
from schemas.people import OneTimeToken, ReviewerSession, TokenPurpose
from schemas.problems import NotFound
from schemas.sessions import SessionSlot, SessionWatch
from streams.ports.records import Change, Record, RecordKind, due_index
from streams.ports.stores import Stores
from streams.retention.expiry import RecordExpiry
from streams.sessions.removal import SessionRemoval
from streams.tenants.handler import TENANTS_INDEX
from streams.verification.known_images import PictureHolder
from streams.verification.removal import PictureRemoval
from tests.builders import ACME, NOW, SUBJECT, build_tenant
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER, KEYSPACE, open_cassandra, session_of

SESSION = SessionId(derive_id("vs", "old"))
MEMBER = UserId(derive_id("usr", "member"))
LATER = timedelta(days=400)
SET_VERSION: Final = Statement("UPDATE settings SET value = ? WHERE name = 'schema_version' IF EXISTS")
VIEWED = ("viewed", "case")


def ending() -> tuple[Record, ...]:
    """One record of each kind that ends, as the first versions wrote them."""
    times: Any = {"created_at": NOW, "expires_at": NOW + timedelta(hours=12)}
    member: Any = {"tenant_id": ACME, "reviewer_id": MEMBER, **times}
    token = OneTimeToken(purpose=TokenPurpose.INVITATION, **member)
    member |= {"lookup": "a", "secret_hash": "0", "seen_at": NOW}
    signed_in = ReviewerSession(session_id=ReviewerSessionId(derive_id("rs", "a")), **member)
    watch = SessionWatch(tenant_id=ACME, session_id=SESSION)
    picture = PictureHolder(subject_id=SUBJECT, evidence_id=EvidenceId(derive_id("evd", "gone")))
    return (
        Record(ACME, RecordKind.ACT, "plain", b"about", NOW),
        Record(ACME, RecordKind.ACT, "view", b"about", NOW, indexes=(VIEWED,)),
        Record(PLATFORM, RecordKind.TOKEN, "once", token.to_bytes(), NOW),
        Record(PLATFORM, RecordKind.REVIEWER_SESSION, "a", signed_in.to_bytes(), NOW),
        Record(PLATFORM, RecordKind.SESSION_WATCH, SESSION, watch.to_bytes(), NOW),
        Record(ACME, RecordKind.SESSION_SLOT, "slot", SessionSlot(session_id=SESSION).to_bytes(), NOW),
        Record(ACME, RecordKind.PICTURE, "live|digest", picture.to_bytes(), NOW),
    )


def staying() -> tuple[Record, ...]:
    """Records of the same kinds that stay: marks of an Idempotency-Key, and a watch that is due."""
    due = NOW + timedelta(hours=1)
    watch = SessionWatch(tenant_id=ACME, session_id=SESSION, due=due)
    return (
        Record(ACME, RecordKind.TOKEN, "key", MEMBER.encode(), NOW),
        Record(PLATFORM, RecordKind.TOKEN, "entry", b"passport", NOW),
        Record(PLATFORM, RecordKind.SESSION_WATCH, "due", watch.to_bytes(), NOW, indexes=(due_index(due),)),
    )


async def write_unlisted(stores: Stores) -> None:
    """Write all of them, and the tenant."""
    body = build_tenant().to_bytes()
    tenant = Record(PLATFORM, RecordKind.TENANT, ACME, body, NOW, indexes=(TENANTS_INDEX,))
    for record in (tenant, *ending(), *staying()):
        await stores.journal.commit(Change(ACME, (record,)))


async def sweep(stores: Stores) -> int:
    """Let everything that ends records sweep, long after now."""
    later = datetime.now(UTC) + LATER
    sweeps = [each(stores, lambda: later) for each in (RecordExpiry, SessionRemoval, PictureRemoval)]
    return sum([await one.sweep() for one in sweeps])


@asynccontextmanager
async def sqlite_migrated(folder: Path) -> AsyncIterator[Stores]:
    """A file of the schema before, brought up."""
    async with open_sqlite_stores(folder, ROOT_KEY, durable=False) as stores:
        await write_unlisted(stores)
        assert await sweep(stores) == 0
    file = folder / DATABASE_FILE
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.WITH_ENDING_LISTED - 1}")
    prepare(file)
    async with open_sqlite_stores(folder, ROOT_KEY, durable=False) as stores:
        yield stores


@asynccontextmanager
async def cassandra_migrated(address: Address, folder: Path) -> AsyncIterator[Stores]:
    """A keyspace of the schema before, brought up."""
    async with open_cassandra(address, folder) as opened:
        session = session_of(address)
        await write_unlisted(opened.stores)
        assert await sweep(opened.stores) == 0
        await session.execute(SET_VERSION, (str(WITH_ENDING_LISTED - 1).encode(),))
        await migrate(address, KEYSPACE, {DATACENTER: 1})
        yield opened.stores


@pytest.fixture(params=["sqlite", pytest.param("cassandra", marks=pytest.mark.engines)])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Stores]:
    """A store of the version before with all of the records, about to be migrated."""
    if request.param == "sqlite":
        return sqlite_migrated(tmp_path)
    return cassandra_migrated(request.getfixturevalue("contracts_keyspace"), tmp_path)


@pytest.fixture
async def migrated(opening: AbstractAsyncContextManager[Stores]) -> AsyncIterator[Stores]:
    """The same, migrated and open."""
    async with opening as stores:
        yield stores


async def stored(stores: Stores, records: tuple[Record, ...]) -> list[str]:
    """The ids of those that are stored."""
    found = []
    for one in records:
        with suppress(NotFound):
            found.append((await stores.records.get(one.tenant_id, one.kind, one.id)).id)
    return found


async def test_what_earlier_versions_left_ends_after_the_migration(migrated: Stores) -> None:
    (view,) = await migrated.records.page(ACME, RecordKind.ACT, VIEWED, limit=9)
    assert view.id == "view"

    removed = await sweep(migrated)

    assert removed == len(ending())
    assert await stored(migrated, ending()) == []
    assert await stored(migrated, staying()) == [one.id for one in staying()]
    assert await migrated.records.page(ACME, RecordKind.ACT, VIEWED, limit=9) == []


async def test_a_record_listed_by_the_migration_is_changed_as_any_other(migrated: Stores) -> None:
    """Its next version is listed where that says, and only there."""
    slot = next(one for one in ending() if one.kind is RecordKind.SESSION_SLOT)
    taken = replace(slot, version=2, indexes=(("opened", "2001-01"),))
    await migrated.journal.commit(Change(ACME, (taken,)))

    assert await sweep(migrated) == len(ending()) - 1
    assert await stored(migrated, (slot,)) == [slot.id]
