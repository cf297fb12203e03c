"""Message authentication of records, so that only holders of the deployment's keys can write valid ones.

Each record carries one header: a random id, the time it was signed, and a keyed BLAKE2b (RFC 7693) under the
key of its topic over topic, partition, key, value, every other header, id and time. The offset is not part
of it, for nobody knows it before the broker gave it; `streams.runtime.replays` recognises a second copy.
"""

import hashlib
import hmac
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from streams.runtime.message import Delivery

AUTHENTICATION: Final = "auth"
"""Header of every record we write."""

FRESH_MS: Final = 60_000
"""How far signing and append may lie apart, in milliseconds. A write is given up after 10 s, and the
signer's time follows the broker's clock (`producer.BrokerClock`), so a genuine record is well within it. A
process that was suspended in between learns it from the broker's answer: the write counts as failed."""

LATE: Final = "not written when it was signed"
"""Reason of a record that was put into its place too long after, or before, it was signed."""

FAILED: Final = "authentication failed"
"""Prefix of the dead-letter reason of records with an invalid header; they are never redriven."""

ID_BYTES: Final = 16
"""128 random bits: no two records of a deployment's life share an id."""

MAC_BYTES: Final = 32
"""256 bits."""

_VERSION: Final = b"\x01"
_LAYOUT: Final = struct.Struct(f">c{ID_BYTES}sq{MAC_BYTES}s")
HEADER_BYTES: Final = _LAYOUT.size
"""Length of the header's value."""

_FIXED: Final = struct.Struct(">Iq")
_LENGTH: Final = struct.Struct(">i")
_NOTHING: Final = _LENGTH.pack(-1)

Derive = Callable[[str], bytes]
"""Returns the 32-byte key for a label, always the same; `KeyUnavailable`: one this process may not have."""


class Unauthentic(Exception):
    """The record was not written by a holder of the topic's key, or not for this place; says why."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an authentic record says of itself."""

    id: bytes
    signed_ms: int
    """Milliseconds since 1970, by the broker's clock as its writer knew it."""


class RecordKeys:
    """Sign and verify records, with one key per topic so that a role has no other topic's key."""

    def __init__(self, derive: Derive, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._derive = derive
        self._draw = draw
        self._keys: dict[str, bytes] = {}

    def _key(self, name: str) -> bytes:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = self._derive(f"records/{name}")
        return key

    def sign(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes]],
        now_ms: int,
    ) -> tuple[str, bytes]:
        """Return the header that authenticates a record about to be written.

        Raises:
            KeyUnavailable: This process writes no records of that topic.
        """
        name = self._draw(ID_BYTES)
        covered = _covered(topic, partition, key, value, headers, name, now_ms)
        tag = _code(self._key(topic), covered)
        return AUTHENTICATION, _LAYOUT.pack(_VERSION, name, now_ms, tag)

    def check(self, delivery: Delivery) -> Stamp:
        """Return what an authentic record says of itself.

        Raises:
            Unauthentic: It carries no such header, or one that does not fit it.
            KeyUnavailable: This process reads no records of that topic.
        """
        header = delivery.headers.get(AUTHENTICATION)
        if header is None:
            raise Unauthentic("no header")
        if len(header) != _LAYOUT.size or header[:1] != _VERSION:
            raise Unauthentic("malformed header")
        _, name, signed_ms, tag = _LAYOUT.unpack(header)
        others = [(n, content) for n, content in delivery.headers.items() if n != AUTHENTICATION]
        covered = _covered(
            delivery.topic, delivery.partition, delivery.key, delivery.value, others, name, signed_ms
        )
        if not hmac.compare_digest(_code(self._key(delivery.topic), covered), tag):
            raise Unauthentic("the code does not fit the record")
        return Stamp(name, signed_ms)

    def seal_entry(self, table: str, key: bytes, value: bytes) -> bytes:
        """Return a table's value with the code that ties it to its key and its table."""
        return _code(self._key(table), _LENGTH.pack(len(key)) + key + value) + value

    def open_entry(self, table: str, key: bytes, sealed: bytes) -> bytes | None:
        """Return a table's value, or None when its code is not valid."""
        tag, value = sealed[:MAC_BYTES], sealed[MAC_BYTES:]
        expected = _code(self._key(table), _LENGTH.pack(len(key)) + key + value)
        return value if hmac.compare_digest(expected, tag) else None


def require_fresh(stamp: Stamp, appended_ms: int | None) -> None:
    """Refuse a record that was put into its place long after, or before, it was signed.

    Raises:
        Unauthentic: It was, or the topic keeps its producers' times instead of the broker's.
    """
    if appended_ms is None:
        raise Unauthentic("the topic's message.timestamp.type is not LogAppendTime")
    if not is_fresh(stamp.signed_ms, appended_ms):
        raise Unauthentic(LATE)


def is_fresh(signed_ms: int, appended_ms: int) -> bool:
    """Return whether signing and append are close enough for an honest writer."""
    return abs(appended_ms - signed_ms) <= FRESH_MS


def without_authentication(headers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the headers a record was signed with."""
    return {name: content for name, content in headers.items() if name != AUTHENTICATION}


def _covered(
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes]],
    name: bytes,
    signed_ms: int,
) -> bytes:
    """Return the bytes under the code: each part behind its length, so that no two records share them."""
    covered = [_VERSION, name, _FIXED.pack(partition, signed_ms), _framed(topic)]
    for part in (key, value):
        if part is None:
            covered.append(_NOTHING)
        else:
            covered += (_LENGTH.pack(len(part)), part)
    for header, content in headers:
        covered += (_framed(header), _LENGTH.pack(len(content)), content)
    return b"".join(covered)


@lru_cache(maxsize=256)
def _framed(name: str) -> bytes:
    """Return the name of a topic or a header behind its length; there are few of either."""
    raw = name.encode()
    return _LENGTH.pack(len(raw)) + raw


def _code(key: bytes, covered: bytes) -> bytes:
    """Return the code of a message; unlike HMAC it is half as dear and lets no other thread in between."""
    return hashlib.blake2b(covered, key=key, digest_size=MAC_BYTES).digest()
