"""Identifiers: a prefix that names the kind and 26 characters of Crockford base32 over 128 bits (G1)."""

import hashlib
from datetime import UTC, datetime
from functools import reduce
from typing import Final, NewType
from uuid import UUID

TenantId = NewType("TenantId", str)
SubjectId = NewType("SubjectId", str)
VerificationId = NewType("VerificationId", str)
DecisionId = NewType("DecisionId", str)
SessionId = NewType("SessionId", str)
ReviewCaseId = NewType("ReviewCaseId", str)
ErasureId = NewType("ErasureId", str)
EvidenceId = NewType("EvidenceId", str)
EventId = NewType("EventId", str)
AuditEventId = NewType("AuditEventId", str)
KeyId = NewType("KeyId", str)
UserId = NewType("UserId", str)
ReviewerSessionId = NewType("ReviewerSessionId", str)
FlowId = NewType("FlowId", str)
EndpointId = NewType("EndpointId", str)
DeliveryId = NewType("DeliveryId", str)
AssessmentId = NewType("AssessmentId", str)
TransactionId = NewType("TransactionId", str)
BacktestId = NewType("BacktestId", str)
ScreeningId = NewType("ScreeningId", str)
DispositionId = NewType("DispositionId", str)
ChallengeId = NewType("ChallengeId", str)

PLATFORM: Final = TenantId("platform")
"""The chain and the records that belong to no tenant (G93): tenants themselves, keys by look-up prefix."""

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford base32 in lower case: no i, l, o or u."""

ID_PATTERN: Final = r"[a-z]{2,4}_[0-9a-hjkmnp-tv-z]{26}"
"""The form of every identifier, for routes that must not match anything else."""

_PAIRS: Final = tuple(high + low for high in ALPHABET for low in ALPHABET)
"""Two characters at a time, by their ten bits."""

_SHIFTS: Final = tuple(range(120, -1, -10))
_VERSION_AND_VARIANT: Final = 0xF << 76 | 0x3 << 62
_VERSION_7: Final = 0x7 << 76 | 0x2 << 62
_VERSION_8: Final = 0x8 << 76 | 0x2 << 62

_NEAR_CHARS: Final = 10
"""Two bits that are always 0, and 48: those of the time in a fresh identifier."""

_LATEST_MS: Final = 253_402_300_800_000
"""Milliseconds of Unix time of the first moment that `datetime` cannot hold, the year 10000."""


def encode_id(prefix: str, value: UUID) -> str:
    """Write a UUID as an identifier; identifiers of one kind sort as their UUIDs do."""
    return _write(prefix, value.int)


def derive_id(prefix: str, *parts: str, near: str | None = None) -> str:
    """Derive an identifier from its parts, the same one every time (UUIDv8 over SHA-256, RFC 9562 5.8).

    The parts are length-prefixed, so no two lists of parts share an identifier. With the identifier it is to
    be `near`, it begins with that one's first 48 bits: an index has what belongs to one thing on one page,
    and on its last pages what belongs to new things, so a commit writes few.
    """
    framed = b"".join([len(part).to_bytes(4, "big") + part for part in map(str.encode, parts)])
    number = int.from_bytes(hashlib.sha256(framed).digest()[:16], "big")
    derived = _write(prefix, number & ~_VERSION_AND_VARIANT | _VERSION_8)
    if near is None:
        return derived
    begin = near.index("_") + 1
    return f"{prefix}_{near[begin : begin + _NEAR_CHARS]}{derived[len(prefix) + 1 + _NEAR_CHARS :]}"


def is_derived(identifier: str) -> bool:
    """Return whether an identifier has the form of `derive_id`: no time is read from it."""
    return _number(identifier) & _VERSION_AND_VARIANT == _VERSION_8


def drawn_at(identifier: str) -> datetime | None:
    """Return when a fresh identifier (UUIDv7, RFC 9562 section 5.7) was drawn; None of any other.

    Anybody can write down such an identifier: the time is a hint, not a proof.
    """
    number = _number(identifier)
    if number & _VERSION_AND_VARIANT != _VERSION_7:
        return None
    return datetime.fromtimestamp((number >> 80) / 1000, UTC) if number >> 80 < _LATEST_MS else None


def _number(identifier: str) -> int:
    return reduce(lambda number, char: number << 5 | ALPHABET.index(char), identifier.partition("_")[2], 0)


def _write(prefix: str, number: int) -> str:
    return f"{prefix}_" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
