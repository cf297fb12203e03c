"""Dependencies of all use cases about reviewers: ports, keys, clock and randomness."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from streams.audit.commit import Commit
from streams.ports.evidence import Vault
from streams.ports.records import Records
from streams.tenants.handler import Clock, Draw, NewId

ABSOLUTE: Final = timedelta(hours=12)
"""G49; a deployment may set less (S13)."""

IDLE: Final = timedelta(minutes=30)
"""As `ABSOLUTE`."""


class Passwords(Protocol):
    """Hash passwords with argon2id, in threads and a limited number at a time (S26)."""

    async def hash(self, password: str) -> str:
        """Return the PHC form of a new hash.

        Raises:
            Overloaded: Too many are waiting.
        """
        ...

    async def verify(self, stored_hash: str | None, password: str) -> bool:
        """Return whether the password matches the hash; None costs as much and never matches (S27).

        Raises:
            Overloaded: Too many are waiting.
        """
        ...

    def is_stale(self, stored_hash: str) -> bool:
        """Return whether the hash was made with outdated parameters."""
        ...


@dataclass(frozen=True, slots=True)
class People:
    """Ports and secrets for members, their sessions, passwords and second factors."""

    records: Records
    commit: Commit
    vault: Vault
    passwords: Passwords
    key: bytes = field(repr=False)
    """32 secret bytes for keyed hashes of addresses, tokens and codes."""
    cookie_pepper: bytes = field(repr=False)
    """32 secret bytes for keyed hashes of cookies."""
    clock: Clock
    new_id: NewId
    draw: Draw = secrets.token_bytes
    session_idle: timedelta = IDLE
    session_lifetime: timedelta = ABSOLUTE
    totp_drift_steps: int = 1
    """Time steps of 30 s either way in which a code is accepted (RFC 6238 section 5.2, G28)."""


def keyed_hash(key: bytes, label: str, *parts: str) -> str:
    """Return HMAC-SHA-256 over the label and the length-prefixed parts, hexadecimal."""
    encoded = [part.encode() for part in (label, *parts)]
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
    return hmac.new(key, framed, hashlib.sha256).hexdigest()
