"""Request headers that mean something here: the credential, the idempotency key, the caller's address."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from aiohttp import web

from app.http.endpoints import IDEMPOTENCY
from schemas.problems import FieldProblem, ProblemCode, Refused, Unauthenticated
from streams.sign_in.session_cookies import COOKIE

SINGLE: Final = ("Authorization", IDEMPOTENCY)
"""Headers that may be given once; two parties that each read another one would disagree."""

_IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]{1,512})")


def refuse_duplicates(request: web.Request) -> None:
    """Refuse a header of `SINGLE` that was given twice.

    Raises:
        Refused: HEADER_DUPLICATED.
    """
    for name in SINGLE:
        if len(request.headers.getall(name, ())) > 1:
            raise _refused(name, ProblemCode.HEADER_DUPLICATED, "The header was given more than once.")


def idempotency_key(request: web.Request) -> str | None:
    """Return the key, without quotes when it was quoted; None when there is none (G2).

    Raises:
        Refused: IDEMPOTENCY_KEY_INVALID.
    """
    given = request.headers.get(IDEMPOTENCY)
    if given is None:
        return None
    quoted = len(given) > 1 and given.startswith('"') and given.endswith('"')
    key = given[1:-1] if quoted else given
    if _IDEMPOTENCY_KEY.fullmatch(key) is None:
        message = "The key must be 1 to 255 printable ASCII characters, quoted or bare."
        raise _refused(IDEMPOTENCY, ProblemCode.IDEMPOTENCY_KEY_INVALID, message)
    return key


def bearer(request: web.Request) -> str:
    """Return what `Authorization: Bearer` carries (RFC 6750 section 2.1); no other place is looked at.

    Raises:
        Unauthenticated: There is none, or it is of another scheme or form.
    """
    found = _BEARER.fullmatch(request.headers.get("Authorization", ""))
    if found is None:
        raise Unauthenticated
    return found[1]


def has_bearer(request: web.Request) -> bool:
    """Return whether an `Authorization` header was sent; it counts before any cookie."""
    return "Authorization" in request.headers


def session_cookie(request: web.Request) -> str | None:
    """Return the reviewer's session cookie; two of them are none, for nobody knows which one counts."""
    return cookie_named(request, COOKIE)


def cookie_named(request: web.Request, wanted: str) -> str | None:
    """Return the value of a cookie that was sent once."""
    sent = [
        value.strip()
        for header in request.headers.getall("Cookie", ())
        for pair in header.split(";")
        for name, _, value in [pair.partition("=")]
        if name.strip() == wanted
    ]
    return sent[0] if len(sent) == 1 else None


def require_own_origin(request: web.Request, base_url: str) -> None:
    """Refuse a write with the cookie that another site may have caused (G99).

    Raises:
        Refused: ORIGIN_REFUSED, also when the browser says nothing of where it comes from.
    """
    origin = request.headers.get("Origin")
    own = origin == base_url.rstrip("/") if origin is not None else False
    if not own and request.headers.get("Sec-Fetch-Site") != "same-origin":
        message = "A write with the session cookie must come from the service's own pages."
        raise Refused.because(ProblemCode.ORIGIN_REFUSED, message)


def address_of(request: web.Request, trusted: Sequence[IPv4Network | IPv6Network]) -> str | None:
    """Return the caller's address; `X-Forwarded-For` counts as far as trusted proxies vouch for it (S49)."""
    peer = request.remote
    if not trusted or peer is None:
        return peer
    hops = [
        hop.strip() for value in request.headers.getall("X-Forwarded-For", ()) for hop in value.split(",")
    ]
    while hops and _is_trusted(peer, trusted):
        forwarded = _parsed(hops.pop())
        if forwarded is None:
            break
        peer = str(forwarded)
    return peer


def came_in_the_clear(request: web.Request, trusted: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether a trusted proxy says that its caller used plain http (S8, S49).

    Headers of other callers are ignored; of several proxies the first one counts.
    """
    if request.remote is None or not _is_trusted(request.remote, trusted):
        return False
    return request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower() == "http"


def _is_trusted(address: str, trusted: Sequence[IPv4Network | IPv6Network]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in trusted)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(address)
    except ValueError:
        return None


def _refused(header: str, code: ProblemCode, message: str) -> Refused:
    return Refused.because(code, message, FieldProblem(code=code, message=message, header=header))
