"""The commands about subjects: the customers that tenants verify."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_pairs

subjects = typer.Typer(no_args_is_help=True, help="Subjects: the customers that tenants verify.")


@subjects.command("erase")
def subject_erase(
    subject_id: Annotated[str, typer.Argument(metavar="SUBJECT", help="The tenant's id of the subject.")],
    tenant: TenantOption,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored sealed and shown in the proof.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Erase a subject: its data key is destroyed, its evidence removed, its open sessions end.

    The running service does so within two minutes, unless the tenant's four_eyes asks for a member's approval
    first. Run it again to see how far it is. POST /v1/subjects/{subject_id}/erase does the same.

    Try:

      veristream subject erase customer-17 --tenant ten_… --reason "asked by letter"
    """
    from app.cli.actions import subjects as actions  # noqa: PLC0415 - `--help` must not wait for it

    erasure = asyncio.run(actions.erase(settings_of(data_dir), tenant, subject_id, reason))
    say_pairs(erasure, as_json=as_json)
