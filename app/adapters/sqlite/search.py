"""Find records by a fragment of their text: the newest directly, the others by the index.

A page ends as soon as it is full; only what was created within one millisecond is put in order afterwards.

No question takes longer the more there is: a fragment whose pieces are all common is sought for so long at
a time, and the answer says how far the search came.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from app.adapters.shared.columns import BEYOND, from_micros, to_micros, to_millis, to_pairs_text
from app.adapters.shared.trigrams import LENGTH, grams_for
from app.adapters.sqlite.batching import read_rows
from app.adapters.sqlite.search_index import BAR, GATHERED, MARK, WITHIN_BITS, index_token, initials
from schemas.ids import TenantId
from streams.ports.records import Position, RecordKind

AT_FIRST: Final = 1
"""Batches of indexed records that are searched first, then more as time allows."""

GROWTH: Final = 4
"""At most so many times as many as before."""

ENOUGH_S: Final = 0.000_7
"""A question that found nothing goes no further back when it would take longer than so many seconds."""

FILLING_S: Final = 0.02
"""So long for one that found something: there may be more of it, and a page wants to be filled."""

_TICK_S: Final = 1e-6

_TIMES_RARE: Final = 4
"""So many times the batches that came after `_RARE` of the rarest token are looked through as well."""

_RARE: Final = 16
"""Of so many newest records under a gram the oldest shows how common it is."""

_SO_RARE: Final = 50
"""A gram that is so many times rarer than the commonest of its fragment is looked through by itself."""

_AS_COMMON: Final = 4
"""A gram that is not even so many times rarer narrows no more than the others."""

_LAST_ID: Final = "~"
"""Behind every id."""

COLUMNS: Final = (
    "r.tenant, r.kind, r.id, r.body, r.created_at, r.version, r.fingerprint, r.indexes, r.first_body, "
    "r.searched"
)
"""What makes a record, in the order the journal reads it."""

_GATHERED_BEFORE: Final = """
SELECT sought_at FROM gathered WHERE sought_at < ? ORDER BY sought_at DESC LIMIT 1 OFFSET ?"""
_SINCE: Final = "SELECT count(*) - 1 FROM gathered WHERE sought_at >= ?"
_ANY_BETWEEN: Final = "SELECT sought_at FROM records WHERE sought_at BETWEEN ? AND ? LIMIT 1"
_SPREAD: Final = f"""
SELECT asked.column1, (
    SELECT g.rowid FROM record_grams g WHERE g.record_grams MATCH asked.column1
    ORDER BY g.rowid DESC LIMIT 1 OFFSET {_RARE - 1}
) FROM (VALUES (?)) asked"""  # noqa: S608 - constants only
_FOUND: Final = f"""
SELECT {COLUMNS}, r.sought_at FROM record_grams g CROSS JOIN records r ON r.sought_at = g.rowid
WHERE g.record_grams MATCH ? AND g.rowid BETWEEN ? AND ? AND r.tenant = ? AND r.kind = ?
    AND instr(r.searched, ?) AND instr(r.indexes, ?) AND (r.created_at, r.id) < (?, ?)
ORDER BY g.rowid DESC LIMIT ?"""  # noqa: S608 - constants only
_FOUND_WAITING: Final = f"""
SELECT {COLUMNS}, r.sought_at FROM records r INDEXED BY records_sought
WHERE r.sought_at BETWEEN ? AND ? AND r.tenant = ? AND r.kind = ? AND instr(r.searched, ?)
    AND instr(r.indexes, ?) AND (r.created_at, r.id) < (?, ?)
ORDER BY r.sought_at DESC LIMIT ?"""  # noqa: S608 - constants only

_Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """A question for the newest records under an index whose text contains a fragment."""

    tenant_id: TenantId
    kind: RecordKind
    index: tuple[str, str]
    fragment: str
    limit: int
    before: Position | None

    def run(self, connection: sqlite3.Connection) -> tuple[Sequence[_Row], Position | None]:
        """Return the columns of the records, and before which nothing was looked at though they are few."""
        if self.limit < 1:
            return (), None
        connection.execute("BEGIN")  # so that nothing is indexed between two reads
        try:
            rows, first = self._ask(connection, 0, self._newest(), self.limit)
            if len(rows) == self.limit:  # its millisecond may hold more; no place says which comes first
                oldest = rows[-1][-1]
                within = (oldest >> WITHIN_BITS << WITHIN_BITS, oldest - 1)
                if connection.execute(_ANY_BETWEEN, within).fetchone() is not None:
                    rows += self._ask(connection, *within, -1)[0]
        finally:
            connection.execute("COMMIT")
        rows.sort(key=lambda row: (row[4], row[2]), reverse=True)
        further = _end_of(first) if first and len(rows) < self.limit else None
        return [row[:-1] for row in rows[: self.limit]], further

    def _newest(self) -> int:
        if self.before is None:
            return BEYOND
        return (to_millis(self.before.created_at) + 1 << WITHIN_BITS) - 1

    def _ask(
        self, connection: sqlite3.Connection, first: int, last: int, most: int
    ) -> tuple[list[_Row], int]:
        """Return what is found from one place to another, and from which place on it was looked for.

        `most` < 0: all of it, however long that takes.
        """
        before = self.before
        bound = (BEYOND, "") if before is None else (to_micros(before.created_at), before.id)
        gathered: int = connection.execute(GATHERED).fetchone()[0]
        pair = to_pairs_text((self.index,))[1:-1]
        asked = (self.tenant_id, self.kind.value, self.fragment, pair, *bound)
        places = (max(first, gathered + 1), last)
        rows = connection.execute(_FOUND_WAITING, (*places, *asked, most)).fetchall()
        if len(rows) == most:
            return rows, first
        pace, last = _Pace(), min(last, gathered)
        wanted = self._wanted(connection, gathered)
        pace.lap()
        gatherings = wanted.at_first if most > 0 else 0
        while True:
            begin = max(first, _gathered_before(connection, last, gatherings)) if gatherings else first
            left = most - len(rows) if most > 0 else most
            rows += connection.execute(_FOUND, (wanted.matched, begin, last, *asked, left)).fetchall()
            faster = pace.times_more(FILLING_S if rows else ENOUGH_S)
            if begin == first or len(rows) == most or not faster:
                return rows, begin
            last, gatherings = begin - 1, gatherings * faster

    def _wanted(self, connection: sqlite3.Connection, gathered: int) -> "_Wanted":
        tenant, kind, (name, value) = self.tenant_id, self.kind.value, self.index
        grams, head = grams_for(self.fragment), value.partition(BAR)[0]
        begun = "*" if len(grams[0]) < 2 * LENGTH else ""
        own = initials(tenant, kind, head)
        tokens = [own + gram + begun for gram in grams]
        listed = [] if head == value else [index_token(tenant, kind, name, value)]
        spread = dict(read_rows(connection, _SPREAD, [(token,) for token in (*tokens, *listed)]))
        reach = {token: gathered - (found or 0) for token, found in spread.items()}
        selective = [*_most_selective(tokens, reach), *listed]
        rarest = max(selective, key=lambda token: reach[token])
        if spread[rarest] is None:
            return _Wanted(" AND ".join(selective), 0)
        (since,) = connection.execute(_SINCE, (spread[rarest],)).fetchone()
        asked = " AND ".join(f"({token} OR {MARK})" for token in selective)
        return _Wanted(asked, AT_FIRST + _TIMES_RARE * since)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The query to the index."""

    matched: str
    """It may name a few records too many, never too few."""
    at_first: int
    """Batches to search at first, the more the rarer it is; 0: of all, for there are but a few."""


class _Pace:
    """The duration of a query so far, and of its last part."""

    def __init__(self) -> None:
        self._began = self._lap = time.monotonic()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        last, self._lap = self._lap, time.monotonic()
        return self._lap - last

    def times_more(self, enough_s: float) -> int:
        """Return how many times what this lap did can be done in the time left, `GROWTH` at most."""
        took = max(self.lap(), _TICK_S)
        left = max(self._began + enough_s - self._lap, 0.0)
        return min(GROWTH, int(left / took))


def _gathered_before(connection: sqlite3.Connection, place: int, gatherings: int) -> int:
    """Return the position at which the last so many batches before a position begin; 0: not so many.

    It is where a millisecond begins, for the records of one are in no order of places.
    """
    row = connection.execute(_GATHERED_BEFORE, (place, gatherings - 1)).fetchone()
    return 0 if row is None else int(row[0]) >> WITHIN_BITS << WITHIN_BITS


def _end_of(first: int) -> Position:
    """Return what everything before a place's millisecond comes before."""
    return Position(from_micros((first >> WITHIN_BITS) * 1_000 - 1), _LAST_ID)


def _most_selective(tokens: list[str], reach: Mapping[str, int]) -> list[str]:
    """Return the few most selective tokens, by how far back the newest records under each reach.

    Rare ones are enough. Else the rarest and both ends of the fragment, which are far apart: what is common
    to either may still have no record in common. To read a common list costs more than to compare some texts.
    """
    ends = [tokens[0], tokens[-1]]
    if len(tokens) <= len(ends):
        return tokens
    rarest, rare = sorted(tokens, key=lambda token: reach[token], reverse=True)[:2]
    rarer = reach[rarest] // max(1, min(reach[token] for token in tokens))
    if rarer >= _SO_RARE:
        return [rarest, rare]
    return ends if rarer < _AS_COMMON or rarest in ends else [rarest, *ends]
