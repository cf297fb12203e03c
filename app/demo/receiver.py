"""Webhook receiver on this machine, as a tenant would write one: verify, report and answer.

Signatures are checked by the independent library, not by the lines that made them.
"""

import base64
import binascii
import hmac
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from app.process.startup import CannotStart

BODY_MOST: Final = 64 << 10
"""Bytes of a body that are read; a webhook is below 20 kB."""

SHOWN_MOST: Final = 80
"""Characters shown of a value that anybody may have sent."""

NO_MATCH: Final = "no signature fits: it is another secret, or the body is not byte for byte what was signed"
NEWLINE: Final = "the body ends with a newline that was not signed"


@dataclass(frozen=True, slots=True)
class Heard:
    """One received delivery; fields missing in the body are None."""

    id: str
    type: str | None
    sequence: int | None
    attempt: str | None
    again: bool
    """An event with this id was here before: at least once means sometimes twice."""
    fault: str | None
    """Why the signature cannot be trusted; None when it is good."""
    data: Mapping[str, Any]

    def as_json(self) -> str:
        """Return it on one line, for programs."""
        return json.dumps({**asdict(self), "signature": "bad" if self.fault else "ok"})

    def as_line(self) -> str:
        """Return it on one line, for a person."""
        parts = [shown(self.type or "?"), shown(self.id), f"sequence={shown(self.sequence)}"]
        if self.attempt is not None:
            parts.append(f"attempt={shown(self.attempt)}")
        parts += [f"{shown(name)}={shown(value)}" for name, value in self.data.items() if value]
        parts.append("again" if self.again else "new")
        return "  ".join([*parts, f"signature: {self.fault or 'ok'}"])


def shown(value: object) -> str:
    """Return an untrusted value as safe text: short, without control characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:SHOWN_MOST])
    return printable + ("…" if len(text) > SHOWN_MOST else "")


def fault_of(secret: bytes, headers: Mapping[str, str], body: bytes, *, any_time: bool = False) -> str | None:
    """Return why a delivery cannot be trusted, or None; `any_time` accepts one older than 5 minutes."""
    fault = _fault_of(secret, headers, body, any_time=any_time)
    if fault == NO_MATCH and body.endswith(b"\n"):
        stripped = body.removesuffix(b"\n").removesuffix(b"\r")
        return NEWLINE if _fault_of(secret, headers, stripped, any_time=any_time) is None else fault
    return fault


def _fault_of(secret: bytes, headers: Mapping[str, str], body: bytes, *, any_time: bool) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "the body is not UTF-8 text"
    try:
        if not any_time:
            Webhook(secret).verify(text, dict(headers), json_parse=False)
        elif not _fits(Webhook(secret), headers, text):
            return NO_MATCH
    except WebhookVerificationError as error:
        return NO_MATCH if "No matching" in str(error) else f"{error}"[:1].lower() + f"{error}"[1:]
    except (ValueError, OverflowError, OSError):  # what the library leaves to its caller
        return "the webhook-timestamp or webhook-signature header is malformed"
    return None


def _fits(hook: Webhook, headers: Mapping[str, str], text: str) -> bool:
    """Return whether a signature of the header is right, however old it is."""
    named = {name.lower(): value for name, value in headers.items()}
    id_, moment, given = (named.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id_ and moment and given):
        raise WebhookVerificationError("Missing required headers")
    wanted = _raw(hook.sign(id_, datetime.fromtimestamp(float(moment), UTC), text))
    offered = [part for part in given.split(" ") if part.startswith("v1,")]
    return any(hmac.compare_digest(_raw(part), wanted) for part in offered)


def _raw(signature: str) -> bytes:
    try:
        return base64.b64decode(signature.partition(",")[2])
    except binascii.Error:
        return b""


@asynccontextmanager
async def open_receiver(
    secret: bytes, report: Callable[[Heard], None], *, port: int = 0, fail: int | None = None
) -> AsyncIterator[str]:
    """Listen on this machine's loopback; yields the URL to register.

    A delivery with a good signature is answered 204, another one 400; `fail` is answered to all instead.

    Raises:
        CannotStart: The port is taken.
    """
    seen: set[str] = set()

    async def take(request: web.Request) -> web.Response:
        heard = _heard(secret, request.headers, await request.read(), seen)
        report(heard)
        if fail is not None:
            return web.Response(status=fail)
        return web.Response(status=HTTPStatus.BAD_REQUEST if heard.fault else HTTPStatus.NO_CONTENT)

    application = web.Application(client_max_size=BODY_MOST)
    application.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise CannotStart(
                f"port {port} cannot be used: {error.strerror}; choose another: --port"
            ) from error
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def _heard(secret: bytes, headers: Mapping[str, str], body: bytes, seen: set[str]) -> Heard:
    fault = fault_of(secret, headers, body)
    event = _object(body)
    data, sequence, id_ = event.get("data"), event.get("sequence"), headers.get("webhook-id", "")
    heard = Heard(
        id=id_,
        type=str(event["type"]) if "type" in event else None,
        sequence=sequence if isinstance(sequence, int) else None,
        attempt=headers.get("webhook-attempt"),
        again=id_ in seen,
        fault=fault,
        data=data if isinstance(data, dict) else {},
    )
    if fault is None:
        seen.add(id_)
    return heard


def _object(body: bytes) -> dict[str, Any]:
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
