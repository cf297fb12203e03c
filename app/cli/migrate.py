"""The command `veristream migrate`: bring the store to this version before a role of it starts."""

import asyncio

from app.adapters.files.data_dir import DATABASE_FILE
from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_store
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.problems import VeristreamError


def migrate(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Make the tables of the configured Cassandra, or bring them up; run it before a new version starts.

    Try:

      veristream migrate --json
    """
    say_pairs(asyncio.run(migrate_store(settings_of(data_dir))), as_json=as_json)


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


def _migrate_file(settings: Settings) -> dict[str, str | int]:
    from app.adapters.sqlite.engine import prepare
    from app.adapters.sqlite.schema import NEWEST

    require_store(settings)
    file = settings.data_dir / DATABASE_FILE
    prepare(file)
    return {"store": f"sqlite {file}", "to": NEWEST}
