"""The commands about webhooks: for who receives them, and the key of a process that only sends them."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, NoDataDir, TenantOption, settings_of
from app.process.output import out, say_error, say_json, say_rows

webhooks = typer.Typer(no_args_is_help=True, help="For receivers of webhooks.")

Secret = Annotated[
    str | None,
    typer.Option(
        "--secret",
        envvar="SERVICE_WEBHOOK_SECRET",
        help="Secret of the endpoint; others on this machine see it here, so prefer the variable or a file.",
    ),
]
SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", help="A file that holds the secret of the endpoint.")
]


@webhooks.command("listen")
def webhook_listen(
    secret: Secret = None,
    secret_file: SecretFile = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 0,
    once: Annotated[  # noqa: FBT002 - an option of a command
        bool, typer.Option("--once", help="Stop after one delivery; exit status 1 if it was not good.")
    ] = False,
    fail: Annotated[
        int | None, typer.Option("--fail", min=200, max=599, help="Answer this status to every delivery.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Receive webhooks on this machine, verify each, and print its contents; Ctrl-C ends it.

    Without a secret one is drawn, and printed with the line that registers it. A good delivery is answered
    204, any other 400. The service calls this machine only with SERVICE_WEBHOOKS_ALLOW_INSECURE=true.

    Try:

      veristream webhook listen

      veristream webhook listen --secret-file endpoint.secret --port 9000

      SERVICE_WEBHOOK_SECRET=whsec_… veristream webhook listen --once --json

      veristream webhook listen --secret-file endpoint.secret --fail 503
    """
    from app.cli.actions import webhooks as commands  # noqa: PLC0415 - `--help` must not wait for it

    known = commands.listen_secret(secret, secret_file)
    service = commands.service_url(settings_of(data_dir))
    good = asyncio.run(commands.listen(known, service, port=port, once=once, fail=fail, as_json=as_json))
    raise typer.Exit(1 if once and not good else 0)


@webhooks.command("verify")
def webhook_verify(
    id_: Annotated[str, typer.Option("--id", help="Header webhook-id.")],
    timestamp: Annotated[str, typer.Option("--timestamp", help="Header webhook-timestamp.")],
    signature: Annotated[str, typer.Option("--signature", help="Header webhook-signature, whole.")],
    body: Annotated[
        Path | None, typer.Argument(help="File with the body, byte for byte \\[default: stdin].")
    ] = None,
    secret: Secret = None,
    secret_file: SecretFile = None,
    any_time: Annotated[  # noqa: FBT002 - an option of a command
        bool, typer.Option("--any-time", help="Accept a delivery older than five minutes.")
    ] = False,
    data_dir: NoDataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Check whether one delivery can be trusted: exit status 0, or 1 with the reason.

    Try:

      veristream webhook verify --secret-file endpoint.secret --id evt_… --timestamp 1790000000 \
--signature v1,… --any-time body.json

      veristream webhook verify --id evt_… --timestamp 1790000000 --signature v1,… < body.json
    """
    del data_dir
    from app.cli.actions import webhooks as commands  # noqa: PLC0415 - `--help` must not wait for it

    known = commands.read_secret(secret, secret_file, may_ask=body is not None and str(body) != "-")
    raw = commands.read_body(body)
    fault = commands.verify(known, id_, timestamp, signature, raw, any_time=any_time)
    if as_json:
        say_json({"good": fault is None, "reason": fault})
    elif fault is None:
        out.print("good: it was signed with this secret, and is what was signed")
    else:
        say_error(fault)
    raise typer.Exit(0 if fault is None else 1)


@webhooks.command("resend")
def webhook_resend(
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="A delivery, whd_…, or an event, evt_…: all its deliveries.")
    ],
    tenant: TenantOption,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Send a delivery again, whatever became of it; the running service sends it within seconds.

    Its schedule begins anew and its webhook-id stays, so a receiver knows that it had it before. The id of
    an event stands in its webhook-id header. POST /v1/webhooks/deliveries/{id}/replay does the same.

    Try:

      veristream webhook resend whd_… --tenant ten_…

      veristream webhook resend evt_… --tenant ten_… --json
    """
    from app.cli.actions import webhook_resend as actions_webhook_resend  # noqa: PLC0415 - `--help` must not wait for it

    again = asyncio.run(actions_webhook_resend.resend(settings_of(data_dir), tenant, id_))
    if as_json:
        say_json(again)
    else:
        say_rows(tuple(again[0]), [tuple(row.values()) for row in again])


def sender_key(data_dir: DataDir = None) -> None:
    """Print the key of a process that only sends webhooks, derived from the root key; the same every time.

    It opens endpoints' secrets and signs what a sender writes; it leads neither to the root key nor to
    evidence. That process is given it as SERVICE_SENDER_KEY or SERVICE_SENDER_KEY_FILE, and no root key.

    Try:

      SERVICE_ROOT_KEY_FILE=secrets/root_key veristream sender-key > secrets/sender_key

      veristream worker --streams webhooks,deliveries
    """
    from app.cli.actions import tenants  # noqa: PLC0415 - `--help` must not wait for it

    typer.echo(asyncio.run(tenants.sender_key(settings_of(data_dir))))
