"""The command `veristream subject export`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_pairs


def subject_export(
    subject_id: Annotated[str, typer.Argument(help="The subject, as the tenant names it.")],
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="A new file whose name ends in .zip.")],
    tenant: TenantOption,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Write all that is stored of a subject to a ZIP; works while the service runs, and is audited.

    It holds the subject's images in the clear: hand it over on a way that only they can read.

    Try:

      veristream subject export customer-1 customer-1.zip --tenant ten_…
    """
    from app.cli.actions import subject_export as actions  # noqa: PLC0415 - a command imports what it needs alone

    made = actions.export(settings_of(data_dir), tenant, subject_id, destination)
    say_pairs(asyncio.run(made), as_json=as_json)
