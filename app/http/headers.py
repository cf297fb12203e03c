"""Request headers: credential, idempotency key, caller's address, content negotiation and entity tags."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from aiohttp import web

from app.http.endpoints import IDEMPOTENCY
from schemas.problems import FieldProblem, ProblemCode, Refused, Unauthenticated
from streams.sign_in.cookies import COOKIE

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
    """Return the token of `Authorization: Bearer` (RFC 6750 section 2.1); no other place is read.

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
    """Return the reviewer's session cookie; None when there are two, for either could be forged."""
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


def wanted(request: web.Request, offered: Sequence[str]) -> str:
    """Return the preferred media type of the offered ones, the first one without an Accept header."""
    return preferred(",".join(request.headers.getall("Accept", ("*/*",))), offered)


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Return the offered type the caller likes best; the first one when nothing fits or all are equal."""
    weights = [_weight(accept, media_type) for media_type in offered]
    return offered[weights.index(max(weights))]


def _weight(accept: str, media_type: str) -> float:
    """Return the weight of the most specific range that covers the type."""
    found: dict[str, float] = {}
    for entry in accept.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        found[name] = next((_quality(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
    group = media_type.partition("/")[0] + "/*"
    return found.get(media_type, found.get(group, found.get("*/*", 0.0)))


def _quality(given: str) -> float:
    try:
        return min(1.0, max(0.0, float(given)))
    except ValueError:
        return 0.0


def language(request: web.Request, offered: Sequence[str]) -> str:
    """Return which of the offered languages `Accept-Language` likes best, the first one when it likes none.

    A dialect counts as its language: `fr-CA` is served by `fr`.
    """
    best, weight = offered[0], 0.0
    for entry in ",".join(request.headers.getall("Accept-Language", ())).split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        code = name.partition("-")[0]
        liked = next((_quality(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
        if code in offered and liked > weight:
            best, weight = code, liked
    return best


_TAG: Final = re.compile(r'"([!#-~]{1,80})"')
_IF_MATCH: Final = "If-Match"
_BARE: Final = re.compile(r"[0-9]{1,9}")


def etag(version: int | str) -> str:
    """Return the strong entity tag of a version."""
    return f'"{version}"'


def if_match(request: web.Request, *, required: bool) -> int | None:
    """Return the version the caller saw; None when any will do.

    Raises:
        Refused: PRECONDITION_REQUIRED when it must be named, PRECONDITION_FAILED when it is no version.
    """
    given = request.headers.get(_IF_MATCH, "").strip()
    if not given:
        if required:
            raise _refused(
                _IF_MATCH, ProblemCode.PRECONDITION_REQUIRED, "Say with If-Match which version you changed."
            )
        return None
    if given == "*":
        return None
    quoted = _TAG.fullmatch(given)
    version = quoted[1] if quoted else given
    if _BARE.fullmatch(version) is None:
        raise changed_since()
    return int(version)


def changed_since() -> Refused:
    """Build the refusal of a change that was meant for another version."""
    return _refused(_IF_MATCH, ProblemCode.PRECONDITION_FAILED, "It has another version now; read it again.")


def is_unchanged(request: web.Request, tag: str) -> bool:
    """Return whether the caller has this version already (`If-None-Match`)."""
    given = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
    return tag in given or given == ["*"]
