"""The command `veristream migrate`: brings the store to the schema of this version, or says what is to do."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import say_pairs


def migrate(
    status: Annotated[  # noqa: FBT002 - an option of a command
        bool, typer.Option("--status", help="Say which schema the store has; change nothing.")
    ] = False,
    dry_run: Annotated[  # noqa: FBT002 - an option of a command
        bool, typer.Option("--dry-run", help="Migrate a copy of the file and remove it; change nothing.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
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
    from app.cli.actions import migrate as actions  # noqa: PLC0415 - `--help` must not wait for a driver

    settings = settings_of(data_dir)
    if dry_run:
        told = asyncio.run(actions.try_out(settings))
    elif status:
        told = asyncio.run(actions.migration_status(settings))
    else:
        told = asyncio.run(actions.migrate(settings))
    say_pairs(told, as_json=as_json)
