"""The `veristream` commands: each does one thing, says what it did, and names the mend when it cannot."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from app.cli.audit import audit
from app.cli.backup import activate, backups, restore
from app.cli.broker_users import broker_users
from app.cli.calibrate import calibrate
from app.cli.demo import demo
from app.cli.lists import key_list, reviewer_list, tenant_list
from app.cli.migrate import migrate
from app.cli.options import (
    AsJson,
    BrokerPort,
    DataDir,
    Port,
    ShowVersion,
    TenantOption,
    settings_of,
    start_settings_of,
)
from app.cli.reviewers import reviewers
from app.cli.root_keys import root_keys
from app.cli.status import status
from app.cli.subject_export import subject_export
from app.cli.subjects import subjects
from app.cli.webhooks import sender_key, webhooks
from app.composition.existing_deployment import require_store
from app.process.output import say_json, say_pairs
from app.process.startup import run
from schemas.enums import Scope

app = typer.Typer(
    name="veristream",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
    epilog="The documentation is in the folder app/docs of the package.",
)
tenants = typer.Typer(no_args_is_help=True, help="Tenants: the companies that integrate this service.")
keys = typer.Typer(no_args_is_help=True, help="API keys of a tenant.")
catalogue = typer.Typer(no_args_is_help=True, help="The documents that can be verified.")
dead_letters = typer.Typer(no_args_is_help=True, help="Messages that could not be understood.")
tenants.command("list")(tenant_list)
keys.command("list")(key_list)
reviewers.command("list")(reviewer_list)
app.add_typer(demo, name="demo")
app.add_typer(tenants, name="tenant")
app.add_typer(keys, name="key")
app.add_typer(reviewers, name="reviewer")
app.add_typer(webhooks, name="webhook")
app.add_typer(broker_users, name="broker-user")
app.command("sender-key")(sender_key)
app.command("calibrate")(calibrate)
app.command("status")(status)
app.command("migrate")(migrate)
subjects.command("export")(subject_export)
app.add_typer(subjects, name="subject")
app.add_typer(root_keys, name="root-key")
app.add_typer(audit, name="audit")
app.add_typer(backups, name="backup")
app.command("restore")(restore)
app.command("activate")(activate)
app.add_typer(catalogue, name="catalog")
app.add_typer(dead_letters, name="dlq")

HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", help="Loopback port of /readyz and /metrics \\[default: none]."),
]


@app.callback()
def veristream(version: ShowVersion = False) -> None:
    """Identity verification you run yourself. Start with [bold]veristream demo[/]."""


@app.command()
def up(
    data_dir: DataDir = None,
    port: Port = None,
    broker_port: BrokerPort = None,
    health_port: HealthPort = None,
) -> None:
    """Run everything in one process: broker, HTTP front and stream agents.

    Try:

      veristream up

      veristream up --port 9000 --data-dir /var/lib/veristream

      veristream up --health-port 8081
    """
    from app.cli.actions import roles

    settings = start_settings_of(data_dir, port=port, broker_port=broker_port, health_port=health_port)
    run(roles.up(settings))


@app.command()
def broker(data_dir: DataDir = None, broker_port: BrokerPort = None) -> None:
    """Run only the embedded Kafka-protocol broker.

    Try:

      veristream broker --broker-port 9092
    """
    from app.cli.actions import roles

    run(roles.broker(start_settings_of(data_dir, broker_port=broker_port)))


@app.command()
def front(
    data_dir: DataDir = None,
    port: Port = None,
    reuse_port: Annotated[
        bool | None, typer.Option("--reuse-port", help="Let several fronts share the port.")
    ] = None,
    health_port: HealthPort = None,
) -> None:
    """Run only the HTTP front, against the broker of the same data folder or SERVICE_KAFKA_BOOTSTRAP.

    Try:

      veristream front --port 8080

      veristream front --port 8080 --reuse-port
    """
    from app.cli.actions import roles

    settings = start_settings_of(data_dir, port=port, reuse_port=reuse_port, health_port=health_port)
    run(roles.front(settings))


@app.command()
def worker(
    data_dir: DataDir = None,
    streams: Annotated[str, typer.Option("--streams", help="Which agents, separated by commas.")] = "all",
    health_port: HealthPort = None,
) -> None:
    """Run only stream agents, against the broker of the same data folder or SERVICE_KAFKA_BOOTSTRAP.

    Try:

      veristream worker

      veristream worker --streams verification --health-port 8081
    """
    from app.cli.actions import roles

    settings = start_settings_of(data_dir, health_port=health_port)
    run(roles.worker(settings, roles.chosen_streams(streams)))


@tenants.command("create")
def tenant_create(name: str, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Create a tenant; works while the service runs.

    Try:

      veristream tenant create "Acme Bank" --json
    """
    from app.cli.actions import tenants as actions_tenants

    say_pairs(asyncio.run(actions_tenants.create_tenant(settings_of(data_dir), name)), as_json=as_json)


@keys.command("create")
def key_create(
    tenant: TenantOption,
    name: Annotated[str, typer.Option("--name", help="What the key is for.")] = "command line",
    test: Annotated[bool, typer.Option("--test", help="A key that sees and makes only test data.")] = False,
    scopes: Annotated[
        str | None, typer.Option("--scopes", help="Separated by commas \\[default: all].")
    ] = None,
    expires_days: Annotated[
        int | None, typer.Option("--expires-days", min=1, help="\\[default: never]")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and show it once; works while the service runs.

    Try:

      veristream key create --tenant ten_… --test

      veristream key create --tenant ten_… --scopes verifications:write,verifications:read --json
    """
    from app.cli.actions import tenants as actions_tenants

    chosen = actions_tenants.chosen_scopes(scopes) if scopes else tuple(Scope)
    made = actions_tenants.create_key(
        settings_of(data_dir), tenant, name=name, livemode=not test, scopes=chosen, expires_days=expires_days
    )
    say_pairs(asyncio.run(made), as_json=as_json)


@keys.command("revoke")
def key_revoke(key_id: str, tenant: TenantOption, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Revoke an API key; its next request is refused.

    Try:

      veristream key revoke key_… --tenant ten_…
    """
    from app.cli.actions import tenants as actions_tenants

    say_pairs(asyncio.run(actions_tenants.revoke_key(settings_of(data_dir), tenant, key_id)), as_json=as_json)


@dead_letters.command("list")
def dlq_list(
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List messages that were buried, with the reason and where they came from.

    Try:

      veristream dlq list --limit 20
    """
    from app.cli.actions import roles

    roles.say_dead_letters(asyncio.run(roles.dead_letters(settings_of(data_dir), limit)), as_json=as_json)


@dead_letters.command("redrive")
def dlq_redrive(
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Send buried messages back to where they came from, each once; what was forged or cut short stays.

    Try:

      veristream dlq redrive --limit 20
    """
    from app.cli.actions import roles

    say_pairs(asyncio.run(roles.redrive(settings_of(data_dir), limit)), as_json=as_json)


@catalogue.command("load")
def catalog_load(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Install the first catalogue if it was never installed; what stands is never overwritten.

    Try:

      veristream catalog load --json
    """
    from app.cli.actions import tenants as actions_tenants

    say_pairs(
        {"installed": asyncio.run(actions_tenants.load_catalogue(settings_of(data_dir)))}, as_json=as_json
    )


@app.command()
def doctor(
    data_dir: DataDir = None,
    as_json: AsJson = False,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Address of the service \\[default: where it began to serve last]."),
    ] = None,
    invariants: Annotated[
        bool, typer.Option("--invariants", help="Walk log and stores for what should not be.")
    ] = False,
    due_after: Annotated[
        float, typer.Option("--due-after", min=0, help="Seconds a command may still be under way.")
    ] = 60.0,
    canary: Annotated[
        list[str] | None, typer.Option("--canary", help="A planted value that must be found nowhere.")
    ] = None,
    log: Annotated[
        list[Path] | None, typer.Option("--log", help="A log or saved metrics to look for it in.")
    ] = None,
) -> None:
    """Ask the running service how it is, and check settings, disk, keys, models, store, broker and audit log.

    Each failure names its mend. Settings of the service that are not those given here are named, never shown.

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
        from app.doctor.invariants.check import Question, examine_and_say

        asked = Question(timedelta(seconds=due_after), tuple(canary or ()), tuple(log or ()))
        raise typer.Exit(examine_and_say(settings, asked, as_json=as_json))
    from app.doctor.checks import examine, say_findings

    findings = asyncio.run(examine(settings, url))
    if as_json:
        say_json([finding.model_dump() for finding in findings])
    else:
        say_findings(findings)
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)
