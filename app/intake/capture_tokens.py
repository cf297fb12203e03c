"""Client tokens: who holds one may run one verification session, and nothing else (G36, G76, G82)."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from schemas.ids import ALPHABET, SessionId, TenantId
from schemas.people import CaptureCaller
from schemas.problems import Unauthenticated

_BODY: Final = f"[{ALPHABET}]{{26}}"
_FORM: Final = re.compile(f"cap_({_BODY})({_BODY})([0-9]{{10}})_([A-Za-z0-9_-]{{43}})")
"""Tenant, session, end (seconds since 1970), HMAC-SHA-256 over the three."""


class CaptureTokens:
    """Issues tokens and knows them again without looking anything up; the same session, the same token."""

    def __init__(self, key: bytes, now: Callable[[], datetime]) -> None:
        self._key = key
        self._now = now

    def issue(self, tenant_id: TenantId, session_id: SessionId, expires_at: datetime) -> str:
        """Return the token of a session."""
        body = _body(tenant_id) + _body(session_id) + f"{int(expires_at.timestamp()):010d}"
        return f"cap_{body}_{self._sign(body)}"

    def recognise(self, presented: str) -> CaptureCaller:
        """Return the session a token is good for.

        Raises:
            Unauthenticated: It is malformed, forged or expired.
        """
        found = _FORM.fullmatch(presented)
        if found is None:
            raise Unauthenticated
        tenant, session, ends, signature = found.groups()
        if not hmac.compare_digest(signature, self._sign(tenant + session + ends)):
            raise Unauthenticated
        if self._now() >= datetime.fromtimestamp(int(ends), UTC):
            raise Unauthenticated
        return CaptureCaller(tenant_id=TenantId(f"ten_{tenant}"), session_id=SessionId(f"vs_{session}"))

    def _sign(self, body: str) -> str:
        mac = hmac.new(self._key, body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def _body(identifier: str) -> str:
    return identifier.partition("_")[2]
