"""Commands that check a deployment: `doctor`, `status` and `audit verify`."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_store
from app.process.output import say_json

Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the service \\[default: where it began to serve last]."),
]
Invariants = Annotated[bool, typer.Option("--invariants", help="Walk log and stores for what should not be.")]
DueAfter = Annotated[
    float, typer.Option("--due-after", min=0, help="Seconds a command may still be under way.")
]
Canary = Annotated[
    list[str] | None, typer.Option("--canary", help="A planted value that must be found nowhere.")
]
Log = Annotated[list[Path] | None, typer.Option("--log", help="A log or saved metrics to look for it in.")]


def doctor(
    data_dir: DataDir = None,
    as_json: AsJson = False,
    url: Url = None,
    invariants: Invariants = False,
    due_after: DueAfter = 60.0,
    canary: Canary = None,
    log: Log = None,
) -> None:
    """Ask the running service how it is, and check settings, disk, keys, models, store, broker and audit log.

    Each failure says how to fix it. Settings of the service that differ from those given here are named,
    never shown.

    With --invariants: compare commands, decisions, events, audit rows and evidence with each other, while
    the service runs; each invariant is said in words, each violation is one line, and the exit status is 1.

    Try:

      veristream doctor --json

      veristream doctor --url https://id.example

      veristream doctor --invariants --canary ERIKSSON --log veristream.log
    """
    settings = settings_of(data_dir)
    require_store(settings)
    if invariants:
        from app.doctor.invariants.check import Question, check_and_print

        asked = Question(timedelta(seconds=due_after), tuple(canary or ()), tuple(log or ()))
        raise typer.Exit(check_and_print(settings, asked, as_json=as_json))
    from app.doctor.checks import print_findings, run_checks

    findings = asyncio.run(run_checks(settings, url))
    if as_json:
        say_json([finding.model_dump() for finding in findings])
    else:
        print_findings(findings)
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)


def status(
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Address of the service \\[default: where it began to serve last]."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat it every two seconds until Ctrl-C, with --json a line each."),
    ] = False,
    as_json: AsJson = False,
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
    from app.doctor import status as looks
    from app.process.output import out, say_json

    if watch:
        with suppress(KeyboardInterrupt):
            asyncio.run(looks.watch(settings, url, looks.write_line if as_json else None))
        return
    found = asyncio.run(looks.read_status(settings, url))
    if as_json:
        say_json(found.model_dump(mode="json"))
    else:
        out.print(looks.draw(found))
    raise typer.Exit(0 if found.ready and found.broker is None else 1)


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
    as_json: AsJson = False,
) -> None:
    """Walk the audit chains and name the first row that was edited, removed, reordered or forged.

    Rows missing behind a signed checkpoint, or behind a head given with --expect, are named as well; works
    while the service runs. Exit status 1: something is wrong.

    Try:

      veristream audit verify

      veristream audit verify --tenant ten_… --json

      veristream audit verify --expect ten_…:412:9f86d081…
    """
    from app.doctor import audit_chains

    expected = audit_chains.read_heads(expect or ())
    report = asyncio.run(audit_chains.verify_audit(settings_of(data_dir), tenant, expected))
    audit_chains.print_audit_report(report, as_json=as_json)
    raise typer.Exit(0 if report.ok else 1)
