"""The commands about the root key: `veristream root-key rotate`, `status` and `remove`."""

import asyncio

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import say_pairs

root_keys = typer.Typer(no_args_is_help=True, help="The root key, under which everything is sealed.")


@root_keys.command("rotate")
def rotate(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Replace the root key, and wrap every data key under the new one; works while the service runs.

    A key in the data folder is drawn and added to root.key. Where SERVICE_ROOT_KEY is set, put the new key
    behind the old one, a line each, and restart every process first. A rotation that was cut off goes on.

    Try:

      veristream root-key rotate

      veristream root-key rotate --data-dir /var/lib/veristream --json
    """
    from app.root_keys import commands

    say_pairs(asyncio.run(commands.rotate(settings_of(data_dir))), as_json=as_json)


@root_keys.command("status")
def status(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Say which root key is the current one, how many data keys each wraps, and what to do next.

    Try:

      veristream root-key status

      veristream root-key status --json
    """
    from app.root_keys import commands

    say_pairs(asyncio.run(commands.status(settings_of(data_dir))), as_json=as_json)


@root_keys.command("remove")
def remove(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Remove the root key that was replaced; refused while a data key still needs it.

    Backups that were taken under it need it for as long as they are kept: keep a copy of it with them.

    Try:

      veristream root-key remove
    """
    from app.root_keys import commands

    say_pairs(asyncio.run(commands.remove(settings_of(data_dir))), as_json=as_json)
