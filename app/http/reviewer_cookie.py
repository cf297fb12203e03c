"""Set and clear the reviewer's cookie, and shared steps of the sign-in routes (interface section 5, S8)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from app.configuration.front import is_secure
from app.http.endpoints import Call
from app.http.headers import require_own_origin
from app.http.ports import FrontPorts
from streams.sign_in.attempt_limits import TooManyAttempts
from streams.sign_in.cookies import COOKIE, DEVICE_LIFETIME
from streams.sign_in.cookies import DEVICE_COOKIE as DEVICE

CLEAR_SITE: Final = '"cache", "storage"'
"""Clear-Site-Data at sign-out (S65). Not "cookies": that would clear those of every neighbour of the domain,
and the one of ours is cleared by name."""

SIGN_IN_PATH: Final = "/v1/control/sessions"
"""Where the device cookie means something."""

SETS: Final = {"Set-Cookie": "The new `service_session`; the one before is dead."}
"""How the description names the header."""

SETS_BOTH: Final = {
    "Set-Cookie": "The new `service_session`, the one before is dead; and `service_device`: sign-ins from "
    "this browser count by themselves, so nobody else's wrong passwords lock its owner out. A new password "
    "voids it."
}
"""As `SETS`, where both factors were met."""


def set_cookie(response: web.Response, value: str, base_url: str) -> web.Response:
    """Give the answer the cookie; the browser forgets it when it closes, the service after its limits."""
    response.headers["Set-Cookie"] = f"{COOKIE}={value}; {_attributes(base_url)}"
    return response


def add_device_cookie(response: web.Response, value: str, base_url: str) -> web.Response:
    """Set a device cookie, which the browser sends to sign-in alone."""
    secure = "; Secure" if is_secure(base_url) else ""
    lasts = f"Max-Age={int(DEVICE_LIFETIME.total_seconds())}"
    response.headers.add(
        "Set-Cookie", f"{DEVICE}={value}; {lasts}; Path={SIGN_IN_PATH}; HttpOnly; SameSite=Strict{secure}"
    )
    return response


def forget_cookie(response: web.Response, base_url: str) -> web.Response:
    """Clear the cookie and all site data in the browser."""
    response.headers["Set-Cookie"] = f"{COOKIE}=; Max-Age=0; {_attributes(base_url)}"
    response.headers["Clear-Site-Data"] = CLEAR_SITE
    return response


def _attributes(base_url: str) -> str:
    usual = "Path=/; HttpOnly; SameSite=Lax"
    return f"{usual}; Secure" if is_secure(base_url) else usual


def refuse_foreign_page(call: Call, base_url: str) -> None:
    """Refuse a sign-in that a browser reports as cross-site (login CSRF).

    Raises:
        Refused: ORIGIN_REFUSED.
    """
    if "Origin" in call.request.headers or "Sec-Fetch-Site" in call.request.headers:
        require_own_origin(call.request, base_url)


@contextmanager
def counted(call: Call, ports: FrontPorts) -> Iterator[None]:
    """Answer a caller over a limit of attempts with how long to wait."""
    try:
        yield
    except TooManyAttempts as full:
        ports.metrics.rate_limited.labels("attempts").inc()
        call.headers["Retry-After"] = str(full.retry_after_s)
        raise
