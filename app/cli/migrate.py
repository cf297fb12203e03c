"""The command `veristream migrate`: bring the store to the schema of this version, or say what is to do."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.adapters.files.data_dir import DATABASE_FILE
from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_store
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.problems import VeristreamError

if TYPE_CHECKING:
    from app.adapters.sqlite.migration import MigrationPlan


def migrate(
    status: Annotated[
        bool, typer.Option("--status", help="Say which schema the store has; change nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Migrate a copy of the file and remove it; change nothing.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Bring the store to the schema of this version; a store of a newer version is refused.

    A Cassandra is only brought up by this command: run it before a new version starts. SQLite is brought up
    by the first start of a new version as well. The file as it was is kept beside it, as
    veristream.sqlite3.schema-N; remove it once the new version has proved itself.

    Try:

      veristream migrate --status

      veristream migrate --dry-run

      veristream migrate --json
    """
    settings = settings_of(data_dir)
    if dry_run:
        shown = asyncio.run(try_out(settings))
    elif status:
        shown = asyncio.run(migration_status(settings))
    else:
        shown = asyncio.run(migrate_store(settings))
    say_pairs(shown, as_json=as_json)


async def migrate_store(settings: Settings) -> dict[str, str | int]:
    """Bring the configured store up; safe to run again, and by several at once.

    A file of SQLite would bring itself up at the next start as well, and is made by the first one; a
    Cassandra never does, for its processes are not stopped and started at once.

    Raises:
        CannotStart: There is no file of SQLite, or the store cannot be reached or is newer; the message names
            the fix.
        SettingsRefused: A setting is malformed.
    """
    from app.adapters.cassandra.keyspace import migrate as migrate_keyspace
    from app.composition.cassandra import address_of, replication_of

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
    from app.adapters.cassandra.connection import open_session
    from app.adapters.cassandra.keyspace import schema_version
    from app.adapters.cassandra.schema import NEWEST
    from app.adapters.sqlite.migration import MigrationPlan
    from app.composition.cassandra import address_of

    address = await asyncio.to_thread(address_of, settings)
    try:
        if address is None:
            planned = await asyncio.to_thread(_plan, settings)
            return _shown(f"sqlite {settings.data_dir / DATABASE_FILE}", planned)
        async with open_session(address, settings.cassandra_keyspace) as session:
            standing = await schema_version(session)
    except (VeristreamError, OSError) as error:
        raise CannotStart(str(error)) from error
    return _shown(f"cassandra {address}", MigrationPlan(standing, NEWEST))


async def try_out(settings: Settings) -> dict[str, Any]:
    """Migrate a copy of the SQLite file and remove it; for a Cassandra return the steps alone.

    Raises:
        CannotStart: See `migration_status`; or the migration failed on the copy.
        SettingsRefused: A setting is malformed.
    """
    from app.adapters.sqlite.migration import try_migration

    shown = await migration_status(settings)
    if settings.cassandra_contact_points:
        return {**shown, "tried": "no: Cassandra cannot try a change of its tables"}
    try:
        await asyncio.to_thread(try_migration, settings.data_dir / DATABASE_FILE)
    except VeristreamError as error:
        raise CannotStart(str(error)) from error
    return {**shown, "tried": "on a copy, without a fault"}


def _plan(settings: Settings) -> "MigrationPlan":
    from app.adapters.sqlite.migration import plan_migration

    require_store(settings)
    return plan_migration(settings.data_dir / DATABASE_FILE)


def _shown(store: str, planned: "MigrationPlan") -> dict[str, Any]:
    steps = list(planned.steps)
    return {"store": store, "schema": planned.standing, "newest": planned.newest, "to_do": steps}


def _migrate_file(settings: Settings) -> dict[str, str | int]:
    from app.adapters.sqlite.engine import prepare
    from app.adapters.sqlite.migration import plan_migration
    from app.adapters.sqlite.schema import NEWEST

    require_store(settings)
    file = settings.data_dir / DATABASE_FILE
    before = plan_migration(file).standing
    prepare(file)
    return {"store": f"sqlite {file}", "from": before, "to": NEWEST}
