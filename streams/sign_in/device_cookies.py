"""Device cookies: a member who signed in on a device before is not locked out by others' wrong passwords.

The cookie grants nothing by itself (OWASP "Slow Down Online Guessing Attacks with Device Cookies"): it opens
no session and replaces no factor. It only lets attempts from that device count by themselves instead of
against the account and the network address.
"""

import hmac
import re
from datetime import datetime, timedelta
from typing import Final

from schemas.base import to_milliseconds
from schemas.ids import ALPHABET
from schemas.people import Reviewer
from streams.reviewers.context import People, keyed_hash

COOKIE: Final = "service_device"

LIFETIME: Final = timedelta(days=180)
"""Renewed at every full sign-in, so only a device that was not used for half a year loses it."""

ID_CHARS: Final = 26
"""130 random bits."""

_FORM: Final = re.compile(rf"([{ALPHABET}]{{{ID_CHARS}}})\.([0-9]{{1,12}})\.([0-9a-f]{{64}})")


def issue_device(people: People, reviewer: Reviewer) -> str:
    """Return a device cookie for a member who just verified both factors; a new password voids it."""
    device_id = "".join(ALPHABET[byte & 31] for byte in people.draw(ID_CHARS))
    issued_s = str(int(people.clock().timestamp()))
    return f"{device_id}.{issued_s}.{_mac(people, reviewer, device_id, issued_s)}"


def known_device(people: People, reviewer: Reviewer, cookie: str, now: datetime) -> str | None:
    """Return the device's id; None: altered, too old, or not of this member with this password."""
    form = _FORM.fullmatch(cookie)
    if form is None:
        return None
    device_id, issued_s, mac = form.groups()
    genuine = hmac.compare_digest(mac, _mac(people, reviewer, device_id, issued_s))
    fresh = 0 <= now.timestamp() - int(issued_s) < LIFETIME.total_seconds()
    return device_id if genuine and fresh else None


def _mac(people: People, reviewer: Reviewer, device_id: str, issued_s: str) -> str:
    changed_at = reviewer.password_changed_at
    password = "" if changed_at is None else to_milliseconds(changed_at).isoformat()  # as it is stored
    owner = (reviewer.tenant_id, reviewer.reviewer_id, password)
    return keyed_hash(people.key, "device", *owner, device_id, issued_s)
