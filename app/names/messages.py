"""Messages between a worker and its names process: msgpack behind four bytes of length, both ways."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from schemas.enums import CheckKind
from schemas.problems import VeristreamError
from schemas.screenings import CheckResultKind, Match, ScreeningTarget
from streams.names.matching import Found, Thresholds

MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""The longest message: one entry of the longest upload, and a little."""

PART_BYTES: Final = 256 * 1024
"""Entries in one message, unless one alone is longer."""

LENGTH_BYTES: Final = 4


class TooLong(VeristreamError):
    """A message would be longer than any may be."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """A request or an answer; the answer has the number of its request."""

    number: int


class Ping(Message, frozen=True, array_like=True, tag="ping"):
    """Asks for `Done`."""


class AddEntries(Message, frozen=True, array_like=True, tag="add"):
    """Adds entries to an index that is being built; the first make it. Answered by `Done` or `Failed`."""

    key: int
    """Of the index; a worker uses each once."""
    lines: list[bytes]


class FinishIndex(Message, frozen=True, array_like=True, tag="finish"):
    """Makes what was added an index that can be asked. Answered by `Done`."""

    key: int


class DropIndex(Message, frozen=True, array_like=True, tag="drop"):
    """Frees an index, finished or not. Not answered."""

    key: int


class Search(Message, frozen=True, array_like=True, tag="search"):
    """Asks who is like a target. Answered by `Matches` or `Failed`."""

    key: int
    target: bytes
    """JSON of a `ScreeningTarget`."""
    list_name: str
    match: float
    possible: float
    corroborate: bool

    def thresholds(self) -> Thresholds:
        """Return what counts as a match."""
        return Thresholds(self.match, self.possible, self.corroborate)


class FindEntry(Message, frozen=True, array_like=True, tag="entry"):
    """Asks for an entity's entry. Answered by `EntryDigest` or `Failed`."""

    key: int
    entity_id: str


Request = Ping | AddEntries | FinishIndex | DropIndex | Search | FindEntry


class Done(Message, frozen=True, array_like=True, tag="done"):
    """A request was carried out."""

    entries: int = 0
    """Of the index."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A match, and what it amounts to."""

    match: bytes
    """JSON of a `Match`."""
    result: str
    digest: str
    checks: list[str]


class Matches(Message, frozen=True, array_like=True, tag="matches"):
    """Whom a target is like, best first."""

    rows: list[Row]

    def found(self) -> list[Found]:
        """Return the matches as `find_matches` does."""
        return [
            Found(
                Match.from_bytes(row.match),
                CheckResultKind(row.result),
                row.digest,
                tuple(map(CheckKind, row.checks)),
            )
            for row in self.rows
        ]


class EntryDigest(Message, frozen=True, array_like=True, tag="digest"):
    """The SHA-256 of an entry, if there is one."""

    digest: str | None


class Failed(Message, frozen=True, array_like=True, tag="failed"):
    """A request could not be carried out."""

    invalid: bool
    """A line was no entry; otherwise nothing is known of the cause."""


Answer = Done | Matches | EntryDigest | Failed


def search(number: int, key: int, target: ScreeningTarget, list_name: str, thresholds: Thresholds) -> Search:
    """Return the question who on a list is like a target."""
    match, possible, corroborate = thresholds.match, thresholds.possible, thresholds.corroborate
    return Search(number, key, target.to_bytes(), list_name, match, possible, corroborate)


def matches(number: int, found: Sequence[Found]) -> Matches:
    """Return the answer to a search."""
    rows = [
        Row(one.match.to_bytes(), one.result.value, one.digest, [kind.value for kind in one.checks])
        for one in found
    ]
    return Matches(number, rows)


def framed(message: Message) -> bytes:
    """Return a message as it is sent.

    Raises:
        TooLong: It may not be sent.
    """
    packed = msgspec.msgpack.encode(message)
    if len(packed) > MESSAGE_BYTES:
        raise TooLong("a message to or from the names process is too long")
    return len(packed).to_bytes(LENGTH_BYTES) + packed


def in_parts(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield entries in as many as fit into one message."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part
