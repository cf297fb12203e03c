"""The commands about the audit log: `veristream audit verify`."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of

audit = typer.Typer(no_args_is_help=True, help="The audit log.")


@audit.command("verify")
def audit_verify(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Tenant id \\[default: every tenant].")
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", help="A head this command printed before: the chain must still have it."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Walk the audit chains and name the first row that was edited, removed, reordered or forged.

    Rows missing behind a signed checkpoint, or behind a head given with --expect, are named as well; works
    while the service runs. Exit status 1: something is wrong.

    Try:

      veristream audit verify

      veristream audit verify --tenant ten_… --json

      veristream audit verify --expect ten_…:412:9f86d081…
    """
    from app.doctor import audit_chains  # noqa: PLC0415 - a command imports what it needs alone

    expected = audit_chains.read_heads(expect or ())
    report = asyncio.run(audit_chains.verify_audit(settings_of(data_dir), tenant, expected))
    audit_chains.say_audit_report(report, as_json=as_json)
    raise typer.Exit(0 if report.ok else 1)
