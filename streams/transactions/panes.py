"""Aggregates of the older events of a velocity row: panes of a minute, half an hour and a day.

An event is in one pane only: that of the finest resolution that reaches back to it. When a pane becomes too
old for its resolution it is merged into the next one, and beyond the last it is dropped.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from streams.transactions.distinct import union

Whole = int | bytes
"""A whole number, 0 or more: msgpack's integers have 64 bits, larger ones are big-endian bytes."""

_MINUTE_MS: Final = 60_000
_HALF_HOUR_MS: Final = 30 * _MINUTE_MS
_DAY_MS: Final = 48 * _HALF_HOUR_MS
RESOLUTIONS: Final = (
    (_MINUTE_MS, 60 * _MINUTE_MS),
    (_HALF_HOUR_MS, 48 * _HALF_HOUR_MS),
    (_DAY_MS, 91 * _DAY_MS + 5 * _MINUTE_MS),
)
"""How long a pane is, and for how long one is stored after it ended, before the newest event of the row.

The last is 90 days before a transaction that arrives 24 hours late beside one that is 5 minutes ahead (G39).
"""


def stored(number: int) -> Whole:
    """Return the number as it is stored."""
    return number if number < 1 << 64 else number.to_bytes((number.bit_length() + 7) // 8, "big")


def whole(number: Whole) -> int:
    """Return the number that is stored."""
    return number if isinstance(number, int) else int.from_bytes(number, "big")


class Totals(msgspec.Struct, array_like=True):
    """The amounts of one currency, as whole numbers of 10 ** -scale."""

    scale: int
    total: Whole
    squares: Whole
    least: Whole
    most: Whole

    @classmethod
    def of(cls, minor: Whole, scale: int) -> "Totals":
        """Return the totals of one amount."""
        return cls(scale, minor, stored(whole(minor) ** 2), minor, minor)

    def numbers(self, scale: int) -> tuple[int, int, int, int]:
        """Return the sum, the sum of squares, the least and the most at a scale that is no smaller."""
        factor = int(10 ** (scale - self.scale))
        return (
            whole(self.total) * factor,
            whole(self.squares) * factor * factor,
            whole(self.least) * factor,
            whole(self.most) * factor,
        )

    def merge(self, other: "Totals") -> None:
        """Take in the amounts of the other."""
        scale = max(self.scale, other.scale)
        total, squares, least, most = self.numbers(scale)
        other_total, other_squares, other_least, other_most = other.numbers(scale)
        self.scale = scale
        self.total = stored(total + other_total)
        self.squares = stored(squares + other_squares)
        self.least = stored(min(least, other_least))
        self.most = stored(max(most, other_most))


class Cell(msgspec.Struct, array_like=True):
    """The events of one kind in one pane."""

    kind: int
    count: int
    first_ms: int
    last_ms: int
    amount: Totals
    base: Totals | None
    distinct: list[bytes]
    """The hashes of each `DistinctField`, in its order."""

    def merge(self, other: "Cell") -> None:
        """Take in the events of the other, which are of the same kind."""
        self.count += other.count
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)
        self.amount.merge(other.amount)
        if self.base is not None and other.base is not None:  # a kind says whether there is one
            self.base.merge(other.base)
        self.distinct = [
            union(pair) if all(pair) else pair[0] or pair[1]
            for pair in zip(self.distinct, other.distinct, strict=True)
        ]


class Panes(msgspec.Struct, array_like=True):
    """The cells of every resolution by the number of their pane since 1970."""

    minutes: dict[int, list[Cell]] = {}
    half_hours: dict[int, list[Cell]] = {}
    days: dict[int, list[Cell]] = {}
    dropped_ms: int = -1
    """The time of the last event that is in no pane any more; -1: none."""

    def add(self, cell: Cell, newest_ms: int) -> None:
        """Put the cell into the pane of the finest resolution that reaches back to it."""
        for (size_ms, reach_ms), panes in self._resolutions():
            number = cell.last_ms // size_ms  # of merged panes the younger
            if (number + 1) * size_ms > newest_ms - reach_ms:
                _put(panes.setdefault(number, []), cell)
                return
        self.dropped_ms = max(self.dropped_ms, cell.last_ms)

    def roll_up(self, newest_ms: int) -> None:
        """Move what became too old for its resolution to the next one."""
        for (size_ms, reach_ms), panes in self._resolutions():
            for number in [one for one in panes if (one + 1) * size_ms <= newest_ms - reach_ms]:
                for cell in panes.pop(number):
                    self.add(cell, newest_ms)

    def merge_finest(self) -> bool:
        """Merge neighbours of the finest resolution that has several panes; return False when none has.

        A pane moves to the number of the younger one, so that nothing is dropped before its time. Counts and
        sums of a window then take in more at its edge, never less.
        """
        for _, panes in self._resolutions():
            if len(panes) > 1:
                numbers = sorted(panes)
                for older, younger in zip(numbers[::2], numbers[1::2], strict=False):
                    for cell in panes.pop(older):
                        _put(panes[younger], cell)
                return True
        return False

    def cells(self) -> Iterator[Cell]:
        """Yield every cell."""
        for _, panes in self._resolutions():
            for cells in panes.values():
                yield from cells

    def _resolutions(self) -> Iterator[tuple[tuple[int, int], dict[int, list[Cell]]]]:
        return zip(RESOLUTIONS, (self.minutes, self.half_hours, self.days), strict=True)


def _put(cells: list[Cell], cell: Cell) -> None:
    """Merge the cell into the one of its kind, or append it."""
    for one in cells:
        if one.kind == cell.kind:
            one.merge(cell)
            return
    cells.append(cell)
