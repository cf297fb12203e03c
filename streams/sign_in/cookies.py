"""Draw and check the cookies of sessions, and those of devices (G49, S11-S16).

A member who signed in on a device before is not locked out by others' wrong passwords. The cookie of a device
grants nothing by itself (OWASP "Slow Down Online Guessing Attacks with Device Cookies"): it opens no session
and replaces no factor. It only lets attempts from that device count by themselves instead of against the
account and the network address.
"""

import base64
import hashlib
import hmac
import re
from datetime import datetime, timedelta
from typing import Final

from schemas.base import to_milliseconds
from schemas.ids import ALPHABET
from schemas.people import Reviewer
from streams.reviewers.context import People, keyed_hash
from streams.tenants.handler import Draw

DEVICE_COOKIE: Final = "service_device"

DEVICE_LIFETIME: Final = timedelta(days=180)
"""Renewed at every full sign-in, so only a device that was not used for half a year loses it."""

DEVICE_ID_CHARS: Final = 26
"""130 random bits."""

_DEVICE_FORM: Final = re.compile(rf"([{ALPHABET}]{{{DEVICE_ID_CHARS}}})\.([0-9]{{1,12}})\.([0-9a-f]{{64}})")

COOKIE: Final = "service_session"
"""Interface section 5."""

LOOKUP_BYTES: Final = 26

SECRET_BYTES: Final = 32


def issue_device(people: People, reviewer: Reviewer) -> str:
    """Return a device cookie for a member who just verified both factors; a new password voids it."""
    device_id = "".join(ALPHABET[byte & 31] for byte in people.draw(DEVICE_ID_CHARS))
    issued_s = str(int(people.clock().timestamp()))
    return f"{device_id}.{issued_s}.{_mac(people, reviewer, device_id, issued_s)}"


def known_device(people: People, reviewer: Reviewer, cookie: str, now: datetime) -> str | None:
    """Return the device's id; None: altered, too old, or not of this member with this password."""
    form = _DEVICE_FORM.fullmatch(cookie)
    if form is None:
        return None
    device_id, issued_s, mac = form.groups()
    genuine = hmac.compare_digest(mac, _mac(people, reviewer, device_id, issued_s))
    fresh = 0 <= now.timestamp() - int(issued_s) < DEVICE_LIFETIME.total_seconds()
    return device_id if genuine and fresh else None


def _mac(people: People, reviewer: Reviewer, device_id: str, issued_s: str) -> str:
    changed_at = reviewer.password_changed_at
    password = "" if changed_at is None else to_milliseconds(changed_at).isoformat()  # as it is stored
    owner = (reviewer.tenant_id, reviewer.reviewer_id, password)
    return keyed_hash(people.key, "device", *owner, device_id, issued_s)


def draw_cookie(draw: Draw, lookup: str | None = None) -> tuple[str, str]:
    """Return a new cookie value and its look-up part, a random one unless given."""
    lookup = lookup or "".join(ALPHABET[byte & 31] for byte in draw(LOOKUP_BYTES))
    secret = base64.urlsafe_b64encode(draw(SECRET_BYTES)).rstrip(b"=").decode()
    return f"{lookup}.{secret}", lookup


def hash_cookie(value: str, pepper: bytes) -> str:
    """Return the hash that is stored of a cookie: HMAC-SHA-256 of the whole value, hexadecimal."""
    return hmac.new(pepper, value.encode(), hashlib.sha256).hexdigest()
