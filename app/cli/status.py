"""The command `veristream status`."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_store


def status(
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Address of the service \\[default: where it began to serve last]."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look every two seconds until Ctrl-C.")] = False,  # noqa: FBT002 - an option of a command
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Show at one look whether the service is ready, what waits, and how much room the disks have.

    Exit status 1: it is not ready, or the broker could not be asked. `veristream doctor` finds out why.

    Try:

      veristream status

      veristream status --watch

      veristream status --json --data-dir /var/lib/veristream
    """
    settings = settings_of(data_dir)
    require_store(settings)
    from app.doctor import status as looks  # noqa: PLC0415 - `--help` must not wait for it
    from app.process.output import out, say_json  # noqa: PLC0415 - as above

    if watch:
        with suppress(KeyboardInterrupt):
            asyncio.run(looks.watch(settings, url))
        return
    found = asyncio.run(looks.read_status(settings, url))
    if as_json:
        say_json(found.model_dump(mode="json"))
    else:
        out.print(looks.draw(found))
    raise typer.Exit(0 if found.ready and found.broker is None else 1)
