"""Sign and check cursors, valid only for their tenant, list and filters (G32, S73)."""

import binascii
import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.problems import ProblemCode, Refused
from streams.ports.records import Position

_MAC_BYTES: Final = 16
_TIME_BYTES: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LENGTH: Final = 400
"""Characters; ours have some seventy."""


class Cursors:
    """Writes cursors under one key, and reads those of the keys before it as well."""

    def __init__(self, key: bytes, older: Sequence[bytes] = ()) -> None:
        self._key = key
        self._older = tuple(older)

    def write(self, position: Position, scope: Mapping[str, str]) -> str:
        """Return the cursor that continues after a position; `scope` names list, tenant, mode and filters."""
        microseconds = (position.created_at - _EPOCH) // timedelta(microseconds=1)
        place = microseconds.to_bytes(_TIME_BYTES, "big") + position.id.encode()
        return urlsafe_b64encode(_mac(self._key, place, scope) + place).decode().rstrip("=")

    def write_next(self, following: Position | None, scope: Mapping[str, str]) -> str | None:
        """Return the cursor of the page that begins after a position; None: there is none."""
        return None if following is None else self.write(following, scope)

    def read(self, cursor: str, scope: Mapping[str, str]) -> Position:
        """Return the position.

        Raises:
            Refused: CURSOR_INVALID; it was altered, or written for another tenant, mode, list or filter.
        """
        raw = _decoded(cursor)
        mac, place = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        genuine = any(hmac.compare_digest(mac, _mac(key, place, scope)) for key in (self._key, *self._older))
        if len(place) <= _TIME_BYTES or not genuine:
            raise _invalid()
        microseconds = int.from_bytes(place[:_TIME_BYTES], "big")
        return Position(_EPOCH + timedelta(microseconds=microseconds), place[_TIME_BYTES:].decode())


def _mac(key: bytes, place: bytes, scope: Mapping[str, str]) -> bytes:
    bound = json.dumps(scope, sort_keys=True).encode()
    message = len(bound).to_bytes(4, "big") + bound + place
    return hmac.digest(key, message, hashlib.sha256)[:_MAC_BYTES]


def _decoded(cursor: str) -> bytes:
    if len(cursor) > _MAX_LENGTH or not cursor.isascii():
        raise _invalid()
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except binascii.Error:
        raise _invalid() from None
    if urlsafe_b64encode(raw).decode().rstrip("=") != cursor:
        raise _invalid()  # two spellings of one cursor are one too many
    return raw


def _invalid() -> Refused:
    return Refused.because(ProblemCode.CURSOR_INVALID, "The cursor was altered or belongs to another list.")
