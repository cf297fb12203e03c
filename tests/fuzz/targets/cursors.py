"""Cursors and keys of idempotency: texts of a caller that lead to places."""

from datetime import UTC, datetime

from app.http.cursors import Cursors
from schemas.problems import Refused
from streams.ports.records import Position

CURSORS = Cursors(lambda: {"0123456789abcdef": b"a key of the fuzz test, 32 bytes"})
SCOPE = {"list": "verifications", "tenant": "ten_1"}
PLACE = Position(datetime(2026, 11, 22, tzinfo=UTC), "ver_00000000000000000000000000")
GOOD = CURSORS.write(PLACE, SCOPE)

SEEDS = (
    b"\0" + GOOD.encode(),
    b"\1" + GOOD[:-1].encode(),
    b"\0" + GOOD.encode() + b"==",
    b"\0" + GOOD.replace("_", "/").encode(),
    b"\0" + "é\ud7ff".encode(),
    b"\1" + b"A" * 400,
)


class Forged(AssertionError):
    """A cursor was accepted that was never written."""


def target(data: bytes) -> None:
    """Read one cursor; only the one that was written may lead anywhere."""
    text = data[1:].decode(errors="surrogateescape" if data[:1] == b"\1" else "replace")
    try:
        found = CURSORS.read(text, SCOPE)
    except Refused:
        return
    if text != GOOD or found != PLACE:
        raise Forged(text)
