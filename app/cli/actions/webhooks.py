"""What the commands about webhooks do: a receiver to develop against, and a look at one delivery."""

import asyncio
import base64
import getpass
import json
import secrets
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.demo.receiver import Heard, fault_of, open_receiver
from app.process.output import err, out
from app.process.startup import CannotStart, wait_for_stop_signal
from app.settings import Settings
from streams.webhooks.signing import PREFIX, secret_bytes

SECRET_VARIABLE = "SERVICE_WEBHOOK_SECRET"  # noqa: S105 - the name of one


DRAWN_BYTES: Final = 32
"""Of a secret drawn here; Standard Webhooks ask for 24 to 64."""


@dataclass(frozen=True, slots=True)
class ListenSecret:
    """What a receiver verifies with; `drawn` is the text to register where it was drawn for this run."""

    known: bytes
    drawn: str | None = None


def listen_secret(given: str | None, file: Path | None) -> ListenSecret:
    """Return the secret that was given, or draw one.

    Raises:
        CannotStart: The one given cannot be read, or cannot be one.
    """
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


def service_url(settings: Settings) -> str:
    """Return where the service of these settings is called from this machine."""
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104 - compared
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def read_secret(given: str | None, file: Path | None, *, may_ask: bool) -> bytes:
    """Return the bytes that sign, from the option, the environment, a file, or a person at a terminal.

    Raises:
        CannotStart: There is none, its file cannot be read, or it cannot be one; its value is never shown.
    """
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
    headers = {"webhook-id": id_, "webhook-timestamp": timestamp, "webhook-signature": signature}
    return fault_of(secret, headers, body, any_time=any_time)
