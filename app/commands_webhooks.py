"""What the commands about webhooks do: a receiver to develop against, and a look at one delivery."""

import asyncio
import getpass
import sys
from pathlib import Path

from app.console import err, out
from app.startup import CannotStart, until_told_to_stop
from app.webhook_receiver import Heard, fault_of, open_receiver
from streams.webhooks.signing import secret_bytes

SECRET_VARIABLE = "SERVICE_WEBHOOK_SECRET"  # noqa: S105 - the name of one


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


async def listen(secret: bytes, *, port: int, once: bool, fail: int | None, as_json: bool) -> bool:
    """Receive and tell until told to stop, or once; returns whether every signature was good.

    Raises:
        CannotStart: The port is taken.
    """
    heard_one, good = asyncio.Event(), True

    def tell(heard: Heard) -> None:
        nonlocal good
        good = good and heard.fault is None
        _say(heard.as_json() if as_json else heard.as_line())
        heard_one.set()

    ends = [asyncio.create_task(until_told_to_stop()), asyncio.create_task(heard_one.wait())]
    await asyncio.sleep(0)  # from here on a signal is heard
    async with open_receiver(secret, tell, port=port, fail=fail) as url:
        _say(f'{{"ready": "{url}"}}' if as_json else f"receiver is ready: {url}")
        if not as_json:
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
