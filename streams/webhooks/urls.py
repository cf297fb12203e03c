"""Validate and normalise the URL of a webhook endpoint (G38, G104, S36)."""

import re
import unicodedata
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from pydantic_core import Url

from schemas.problems import ProblemCode, Refused
from streams.webhooks.addresses import is_public

URL_MOST: Final = 2048
"""Characters, as given and as stored; intermediaries cut longer ones."""

USUAL_PORTS: Final = frozenset({443, 8443})
"""Allowed ports unless a setting adds others, so that URLs cannot probe other services (S36)."""

_BEGIN: Final = re.compile(r"(https?)://(?=[^/?#])", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
"""Labels of a host name (RFC 1035 2.3.1), with the underscore that some names have."""

_NAME_MOST: Final = 253
"""Characters of a name (RFC 1035 2.3.4)."""

_PRIVATE_SUFFIXES: Final = ("localhost", "local", "internal", "localdomain", "home.arpa")
"""Suffixes of names local to a machine or network (RFC 6761, RFC 6762, RFC 8375, ICANN's .internal)."""


def receiver_url(text: str, *, insecure: bool, ports: Collection[int] = USUAL_PORTS) -> str:
    """Return the URL in its normal form, in which every URL parser finds the same host, port and path.

    `insecure` additionally allows http, loopback and any port, and nothing
    else. No name is resolved: its addresses are checked at every attempt.

    Raises:
        Refused: Nothing may be sent there; the message says what to change.
    """
    _refuse_odd_text(text)
    begin = _BEGIN.match(text)
    if begin is None or (begin[1].lower() != "https" and not insecure):
        raise _unusable("must begin with https:// and a host")
    _refuse_odd_parts(text[begin.end() :])
    try:
        url = Url(text)
    except ValueError as error:
        raise _unusable(f"is not a URL: {_cause(error)}") from None
    _refuse_port(url.port, insecure=insecure, ports=ports)
    host = url.host or ""
    judged_host = _judged_host(host, insecure=insecure)
    written = str(url).replace(f"://{host}", f"://{judged_host}", 1)
    return _within_bounds(written if url.query else written.removesuffix("?"))


def _refuse_odd_text(text: str) -> None:
    if len(text) > URL_MOST:
        raise _unusable(f"is longer than {URL_MOST} characters")
    if any(unicodedata.category(character)[0] in "CZ" for character in text):
        raise _unusable("holds a space or a control character; write it percent-encoded")
    if "\\" in text:
        raise _unusable("holds a backslash; write / or %5C")


def _refuse_odd_parts(rest: str) -> None:
    """Check what follows the scheme as it was written: an empty part counts as a part."""
    if "#" in rest:
        raise _unusable("has a fragment, which is never sent; leave out # and what follows")
    if "@" in re.split(r"[/?]", rest, maxsplit=1)[0]:
        raise _unusable("holds a user name or password; deliveries are signed instead")


def _refuse_port(port: int | None, *, insecure: bool, ports: Collection[int]) -> None:
    if port == 0:
        raise _unusable("names port 0, where nothing can listen")
    if not insecure and port not in ports:
        allowed = ", ".join(map(str, sorted(ports)))
        raise _unusable(f"names port {port}; use {allowed}, or ask the operator to allow it")


def _cause(error: ValueError) -> str:
    """Return the parser's message without the URL, which may contain a secret."""
    errors = getattr(error, "errors", None)
    return str(errors()[0]["ctx"]["error"]) if errors is not None else "it cannot be read"


def _judged_host(host: str, *, insecure: bool) -> str:
    literal = _literal(host)
    if literal is not None:
        if is_public(literal) or (insecure and literal.is_loopback):
            return host
        raise _unusable("leads to an address that is not reachable from the internet; name a public host")
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > _NAME_MOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise _unusable("names a host that no name server can know")
    if insecure and labels[-1] == "localhost":
        return name
    if len(labels) == 1 or any(f".{name}".endswith(f".{private}") for private in _PRIVATE_SUFFIXES):
        raise _unusable("names a host of a private network; name one that is reachable from the internet")
    return name


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host is, or None; the parser has normalised every spelling of IPv4."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _within_bounds(url: str) -> str:
    if len(url) > URL_MOST:
        raise _unusable(f"is longer than {URL_MOST} characters once it is percent-encoded")
    return url


def _unusable(what: str) -> Refused:
    return Refused.at("/url", ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, f"The URL {what}.")
