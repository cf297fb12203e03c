"""Identifiers: a prefix that names the kind and 26 characters of Crockford base32 over 128 bits (G1)."""

import hashlib
from typing import Final, NewType
from uuid import UUID

TenantId = NewType("TenantId", str)
SubjectId = NewType("SubjectId", str)
VerificationId = NewType("VerificationId", str)
DecisionId = NewType("DecisionId", str)
SessionId = NewType("SessionId", str)
ReviewCaseId = NewType("ReviewCaseId", str)
EvidenceId = NewType("EvidenceId", str)
EventId = NewType("EventId", str)
AuditEventId = NewType("AuditEventId", str)
KeyId = NewType("KeyId", str)
UserId = NewType("UserId", str)
ReviewerSessionId = NewType("ReviewerSessionId", str)
FlowId = NewType("FlowId", str)
EndpointId = NewType("EndpointId", str)
DeliveryId = NewType("DeliveryId", str)

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
_VERSION_8: Final = 0x8 << 76 | 0x2 << 62


def encode_id(prefix: str, value: UUID) -> str:
    """Write a UUID as an identifier; identifiers of one kind sort as their UUIDs do."""
    return _write(prefix, value.int)


def derive_id(prefix: str, *parts: str) -> str:
    """Derive an identifier from its parts, the same one every time (UUIDv8 over SHA-256, RFC 9562 5.8).

    The parts are length-prefixed, so no two lists of parts share an identifier.
    """
    raw = [part.encode() for part in parts]
    framed = b"".join([len(part).to_bytes(4, "big") + part for part in raw])
    number = int.from_bytes(hashlib.sha256(framed).digest()[:16], "big")
    return _write(prefix, number & ~_VERSION_AND_VARIANT | _VERSION_8)


def _write(prefix: str, number: int) -> str:
    return f"{prefix}_" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
