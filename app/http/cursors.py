"""Sign and check cursors, valid only for their tenant, list and filters (G32, S73).

A cursor is the version of the key that made it, a dot, and the authenticated place. One without a version
was made before there were any.
"""

import binascii
import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from schemas.problems import ProblemCode, Refused
from streams.ports.records import Position

_MAC_BYTES: Final = 16
_VERSION: Final = re.compile(r"[0-9a-f]{16}")
_TIME_BYTES: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LENGTH: Final = 400
"""Characters; ours have some ninety."""
_ALTERED: Final = "The cursor was altered or belongs to another list."
_OUTLIVED: Final = "The cursor was made under a key that was removed. Read the list from its beginning."

CursorKeyVersions: TypeAlias = Callable[[], Mapping[str, bytes]]
"""Returns the versions of the key by name, the one to write under first."""


class Cursors:
    """Writes cursors under the first version of the key, and reads those of every version there is."""

    def __init__(self, versions: CursorKeyVersions) -> None:
        self._versions = versions

    def write(self, position: Position, scope: Mapping[str, str]) -> str:
        """Return the cursor that continues after a position; `scope` names list, tenant, mode and filters."""
        microseconds = (position.created_at - _EPOCH) // timedelta(microseconds=1)
        place = microseconds.to_bytes(_TIME_BYTES, "big") + position.id.encode()
        version, key = next(iter(self._versions().items()))
        return f"{version}.{_encoded(_mac(key, place, scope, version) + place)}"

    def write_next(self, following: Position | None, scope: Mapping[str, str]) -> str | None:
        """Return the cursor of the page that begins after a position; None: there is none."""
        return None if following is None else self.write(following, scope)

    def read(self, cursor: str, scope: Mapping[str, str]) -> Position:
        """Return the position.

        Raises:
            Refused: CURSOR_INVALID; it was altered, written for another tenant, mode, list or filter, or its
                version of the key was removed.
        """
        version, _, text = cursor.rpartition(".")
        raw, known = _decoded(text), self._versions()
        mac, place = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if version and version not in known:
            raise _invalid(_OUTLIVED if _VERSION.fullmatch(version) else _ALTERED)
        keys = [known[version]] if version else list(known.values())
        genuine = any(hmac.compare_digest(mac, _mac(key, place, scope, version)) for key in keys)
        if len(place) <= _TIME_BYTES or not genuine:
            raise _invalid()
        microseconds = int.from_bytes(place[:_TIME_BYTES], "big")
        return Position(_EPOCH + timedelta(microseconds=microseconds), place[_TIME_BYTES:].decode())


def _mac(key: bytes, place: bytes, scope: Mapping[str, str], version: str) -> bytes:
    bound = json.dumps(scope, sort_keys=True).encode() + version.encode()
    message = len(bound).to_bytes(4, "big") + bound + place
    return hmac.digest(key, message, hashlib.sha256)[:_MAC_BYTES]


def _decoded(cursor: str) -> bytes:
    if len(cursor) > _MAX_LENGTH or not cursor.isascii():
        raise _invalid()
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except binascii.Error:
        raise _invalid() from None
    if _encoded(raw) != cursor:
        raise _invalid()  # two spellings of one cursor are one too many
    return raw


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _invalid(detail: str = _ALTERED) -> Refused:
    return Refused.because(ProblemCode.CURSOR_INVALID, detail)
