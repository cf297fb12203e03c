"""Settings of the front: its public address (S8), and its rate limits (G62, S61)."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from schemas.base import Frozen


def is_secure(base_url: str) -> bool:
    """Return whether the URL needs TLS: always, but for plain http on loopback.

    There nobody listens, and some browsers would refuse a Secure cookie.
    """
    parts = urlsplit(base_url)
    return parts.scheme != "http" or not _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_usable(base_url: str) -> str:
    """Return the address; it is https, or plain http that does not leave this machine.

    Raises:
        ValueError: It is another, and why.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ValueError("is no address callers can use, such as https://id.example")
    if parts.query or parts.fragment:
        raise ValueError("has no query and no fragment")
    if parts.scheme == "http" and is_secure(base_url):
        raise ValueError(
            "would have passwords and keys travel in the clear; put a proxy with TLS before the front and "
            "name its https address (plain http is for 127.0.0.1, ::1 and localhost)"
        )
    return base_url


class RateLimits(Frozen):
    """Requests per minute, but for `sign_in` and `rejected`."""

    key: int = Field(default=300, ge=1)
    """Per key, reviewer session or client token: the sum of every route."""
    verifications: int = Field(default=60, ge=1)
    """Per key: `POST /v1/verifications` alone."""
    tenant: int = Field(default=1200, ge=1)
    """The sum of all keys of a tenant, every route: more keys do not raise it above four keys' limit."""
    tenant_verifications: int = Field(default=240, ge=1)
    """The sum of all keys of a tenant: `POST /v1/verifications` alone."""
    capture: int = Field(default=60, ge=1)
    """Per client token (G62)."""
    capture_frames: int = Field(default=120, ge=1)
    """Per client token: frames of movements, which do not count against `capture` (P10)."""
    reveal_number: int = Field(default=10, ge=1)
    """Per reviewer session: whole document numbers alone (P18)."""
    sign_in: int = Field(default=10, ge=1)
    """Sign-ins in 15 minutes, counted in the store: all of an address, failed ones of an account (G96)."""
    rejected: int = Field(default=100, ge=1)
    """Refused credentials per minute and address; over it their answer is 429 instead of 401."""


def parse_rate_limits(setting: str) -> RateLimits | None:
    """Read the setting: `on`, `off` (None), or the numbers as a JSON object.

    Raises:
        ValueError: It is none of these.
    """
    match setting.strip().lower():
        case "on" | "":
            return RateLimits()
        case "off":
            return None
    try:
        return RateLimits.model_validate_json(setting)
    except ValidationError as error:
        complaints = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ValueError(f"neither on, off nor a JSON object of limits: {complaints}") from None
