"""`veristream migrate`: brings the store to this version, before a front or a worker of it starts."""

import asyncio
from typing import Any

from app.adapters.cassandra.connection import open_session
from app.adapters.cassandra.keyspace import migrate as migrate_keyspace
from app.adapters.cassandra.keyspace import schema_version
from app.adapters.cassandra.schema import NEWEST as NEWEST_KEYSPACE
from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.sqlite.engine import prepare
from app.adapters.sqlite.migration import MigrationPlan, plan_migration, try_migration
from app.adapters.sqlite.schema import NEWEST
from app.composition.cassandra import address_of, replication_of
from app.composition.existing_deployment import require_store
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.problems import VeristreamError


async def migrate(settings: Settings) -> dict[str, str | int]:
    """Bring the configured store up; safe to run again, and by several at once.

    A file of SQLite would bring itself up at the next start as well, and is made by the first one; a
    Cassandra never does, for its processes are not stopped and started together.

    Raises:
        CannotStart: There is no file of SQLite, or the store cannot be reached or is newer; the message names
            the mend.
        SettingsRefused: A setting is malformed.
    """
    address = await asyncio.to_thread(address_of, settings)
    try:
        if address is None:
            return await asyncio.to_thread(_migrate_file, settings)
        done = await migrate_keyspace(address, settings.cassandra_keyspace, replication_of(settings))
    except (VeristreamError, OSError) as error:
        raise CannotStart(str(error)) from error
    return {"store": f"cassandra {address}", "keyspace": done.keyspace, "from": done.before, "to": done.after}


async def migration_status(settings: Settings) -> dict[str, Any]:
    """Return the schema of the configured store, and the steps that are still to take; reads only.

    Raises:
        CannotStart: There is no store, it cannot be reached, or it is newer than this version.
        SettingsRefused: A setting is malformed.
    """
    address = await asyncio.to_thread(address_of, settings)
    try:
        if address is None:
            planned = await asyncio.to_thread(_plan, settings)
            return _told(f"sqlite {settings.data_dir / DATABASE_FILE}", planned)
        async with open_session(address, settings.cassandra_keyspace) as session:
            standing = await schema_version(session)
    except (VeristreamError, OSError) as error:
        raise CannotStart(str(error)) from error
    return _told(f"cassandra {address}", MigrationPlan(standing, NEWEST_KEYSPACE))


async def try_out(settings: Settings) -> dict[str, Any]:
    """Migrate a copy of the SQLite file and remove it; for a Cassandra return the steps alone.

    Raises:
        CannotStart: See `migration_status`; or the migration failed on the copy.
        SettingsRefused: A setting is malformed.
    """
    told = await migration_status(settings)
    if settings.cassandra_contact_points:
        return {**told, "tried": "no: Cassandra cannot try a change of its tables"}
    try:
        await asyncio.to_thread(try_migration, settings.data_dir / DATABASE_FILE)
    except VeristreamError as error:
        raise CannotStart(str(error)) from error
    return {**told, "tried": "on a copy, without a fault"}


def _plan(settings: Settings) -> MigrationPlan:
    require_store(settings)
    return plan_migration(settings.data_dir / DATABASE_FILE)


def _told(store: str, planned: MigrationPlan) -> dict[str, Any]:
    steps = list(planned.steps)
    return {"store": store, "schema": planned.standing, "newest": planned.newest, "to_do": steps}


def _migrate_file(settings: Settings) -> dict[str, str | int]:
    require_store(settings)
    file = settings.data_dir / DATABASE_FILE
    before = plan_migration(file).standing
    prepare(file)
    return {"store": f"sqlite {file}", "from": before, "to": NEWEST}
