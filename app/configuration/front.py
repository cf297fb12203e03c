"""Check the public address of the front: plain http is for loopback only (S8)."""

from ipaddress import ip_address
from urllib.parse import urlsplit


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
