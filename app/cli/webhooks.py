"""Commands for receivers of webhooks: `webhook listen` and `webhook verify`; and `sender-key`."""

import asyncio
import base64
import json
import secrets
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli.options import AsJson, DataDir, NoDataDir, service_url, settings_of
from app.process.output import err, out, say_error, say_json
from app.process.startup import CannotStart, wait_for_stop_signal

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
    once: Annotated[
        bool, typer.Option("--once", help="Stop after one delivery; exit status 1 if it was not good.")
    ] = False,
    fail: Annotated[
        int | None, typer.Option("--fail", min=200, max=599, help="Answer this status to every delivery.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
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
    known = listen_secret(secret, secret_file)
    service = service_url(settings_of(data_dir))
    good = asyncio.run(listen(known, service, port=port, once=once, fail=fail, as_json=as_json))
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
    any_time: Annotated[
        bool, typer.Option("--any-time", help="Accept a delivery older than five minutes.")
    ] = False,
    data_dir: NoDataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check whether one delivery can be trusted: exit status 0, or 1 with the reason.

    Try:

      veristream webhook verify --secret-file endpoint.secret --id evt_… --timestamp 1790000000 \
--signature v1,… --any-time body.json

      veristream webhook verify --id evt_… --timestamp 1790000000 --signature v1,… < body.json
    """
    del data_dir
    known = read_secret(secret, secret_file, may_ask=body is not None and str(body) != "-")
    raw = read_body(body)
    fault = verify(known, id_, timestamp, signature, raw, any_time=any_time)
    if as_json:
        say_json({"good": fault is None, "reason": fault})
    elif fault is None:
        out.print("good: it was signed with this secret, and is what was signed")
    else:
        say_error(fault)
    raise typer.Exit(0 if fault is None else 1)


def sender_key(data_dir: DataDir = None) -> None:
    """Print the key of a process that only sends webhooks, derived from the root key; the same every time.

    It opens endpoints' secrets and signs what a sender writes; it leads neither to the root key nor to
    evidence. That process is given it as SERVICE_SENDER_KEY or SERVICE_SENDER_KEY_FILE, and no root key.

    Try:

      SERVICE_ROOT_KEY_FILE=secrets/root_key veristream sender-key > secrets/sender_key

      veristream worker --streams webhooks,deliveries
    """
    from app.cli import tenants

    typer.echo(asyncio.run(tenants.sender_key(settings_of(data_dir))))


SECRET_VARIABLE = "SERVICE_WEBHOOK_SECRET"  # noqa: S105 - the name of one


DRAWN_BYTES: Final = 32
"""Of a secret drawn here; Standard Webhooks ask for 24 to 64."""


@dataclass(frozen=True, slots=True)
class ListenSecret:
    """The secret of a receiver; `drawn` is its text if it was generated for this run."""

    known: bytes
    drawn: str | None = None


def listen_secret(given: str | None, file: Path | None) -> ListenSecret:
    """Return the secret that was given, or draw one.

    Raises:
        CannotStart: The one given cannot be read, or cannot be one.
    """
    from streams.webhooks.signing import PREFIX, secret_bytes

    if given or file is not None:
        return ListenSecret(read_secret(given, file, may_ask=False))
    drawn = PREFIX + base64.b64encode(secrets.token_bytes(DRAWN_BYTES)).decode()
    return ListenSecret(secret_bytes(drawn), drawn)


def registration(service: str, receiver: str, secret: str) -> str:
    """Return the line that registers a receiver; the shell puts the API key in from `API_KEY`."""
    body = json.dumps({"url": receiver, "event_types": ["*"], "secret": secret})
    return (
        f"curl -sS -X POST {shlex.quote(f'{service}/v1/webhooks/endpoints')} "
        f'-H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" -d {shlex.quote(body)}'
    )


def read_secret(given: str | None, file: Path | None, *, may_ask: bool) -> bytes:
    """Return the bytes that sign, from the option, the environment, a file, or a person at a terminal.

    Raises:
        CannotStart: There is none, its file cannot be read, or it cannot be one; its value is never shown.
    """
    import getpass

    from streams.webhooks.signing import secret_bytes

    text = given
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CannotStart(f"--secret-file cannot be read: {type(error).__name__}") from error
    if not text and may_ask and sys.stdin.isatty():
        text = getpass.getpass("Secret of the endpoint: ")
    if not text:
        raise CannotStart(f"the endpoint's secret is needed: set {SECRET_VARIABLE}, or give --secret-file")
    try:
        return secret_bytes(text)
    except ValueError as error:
        raise CannotStart(f"{error}; give the secret the endpoint was registered with") from None


async def listen(
    secret: ListenSecret, service: str, *, port: int, once: bool, fail: int | None, as_json: bool
) -> bool:
    """Receive and print until stopped, or once; return whether every signature was good.

    A secret that was drawn is printed with the line that registers it at the service.

    Raises:
        CannotStart: The port is taken.
    """
    from app.demo.receiver import Heard, open_receiver

    heard_one, good = asyncio.Event(), True

    def report(heard: Heard) -> None:
        nonlocal good
        good = good and heard.fault is None
        _say(heard.as_json() if as_json else heard.as_line())
        heard_one.set()

    ends = [asyncio.create_task(wait_for_stop_signal()), asyncio.create_task(heard_one.wait())]
    await asyncio.sleep(0)  # from here on a signal is heard
    async with open_receiver(secret.known, report, port=port, fail=fail) as url:
        line = None if secret.drawn is None else registration(service, url, secret.drawn)
        if as_json:
            drawn = {} if line is None else {"secret": secret.drawn, "register": line}
            _say(json.dumps({"ready": url, **drawn}))
        else:
            _say(f"receiver is ready: {url}")
            if line is not None:
                _say(f"its secret, drawn for this run: {secret.drawn}")
                _say(f"register it, with a key in API_KEY: {line}")
            err.print("the service calls it only with SERVICE_WEBHOOKS_ALLOW_INSECURE=true", highlight=False)
        await asyncio.wait(ends if once else ends[:1], return_when=asyncio.FIRST_COMPLETED)
    for task in ends:
        task.cancel()
    return good


def _say(line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def read_body(body: Path | None) -> bytes:
    """Return what was delivered, from a file or from stdin, byte for byte.

    Raises:
        CannotStart: The file cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if body is None or str(body) == "-" else body.read_bytes()
    except OSError as error:
        raise CannotStart(f"{body} cannot be read: {error.strerror}") from error


def verify(
    secret: bytes, id_: str, timestamp: str, signature: str, body: bytes, *, any_time: bool
) -> str | None:
    """Return why a delivery cannot be trusted, or None when it can."""
    from app.demo.receiver import fault_of

    headers = {"webhook-id": id_, "webhook-timestamp": timestamp, "webhook-signature": signature}
    return fault_of(secret, headers, body, any_time=any_time)
