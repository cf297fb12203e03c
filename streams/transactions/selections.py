"""Select what the features of one transaction look at in the row of their key, each selection once (G113)."""

from bisect import bisect_left
from dataclasses import dataclass, replace

from schemas.policies import WINDOW_MS, AmountField, DistinctField, Feature, Window
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.transactions.panes import Cell, whole
from streams.transactions.row import Kind, RowEvent, VelocityEvent, VelocityRow


@dataclass(frozen=True, slots=True)
class Numbers:
    """Amounts: the sum, the sum of squares, the least and the most, as whole numbers of 10 ** -scale."""

    count: int
    scale: int
    total: int
    squares: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The events and cells of a window that a feature is about."""

    t_ms: int
    start_ms: int
    events: list[RowEvent]
    inside: list[Cell]
    """Of which every event is in the window."""
    edge: list[Cell]
    """Of which some events may be outside it."""
    complete: bool
    """Whether nothing of the window was dropped."""

    @property
    def cells(self) -> list[Cell]:
        """The cells that have an event in the window, or may have one."""
        return self.inside + self.edge

    @property
    def exact(self) -> bool:
        """Whether every event of the window is known to be in it, and none is missing."""
        return self.complete and not self.edge

    def count(self) -> int:
        """Return the number of events; never less than the window has."""
        return len(self.events) + sum(cell.count for cell in self.cells)


_Wanted = tuple[Direction | None, TransactionType | None, str | None, OutcomeClass | None, AmountField | None]
"""The filter of a feature, and the amount whose currency must be the transaction's."""


class RowView:
    """The row as one transaction sees it; what several features need is found once."""

    def __init__(self, row: VelocityRow, event: VelocityEvent) -> None:
        self.event = event
        self._row = row
        self._times = [one.t_ms for one in row.events]
        self._cells = list(row.panes.cells())
        self._windows: dict[int, Selection] = {}
        self._kinds: dict[_Wanted, set[int]] = {}
        self._selections: dict[tuple[Window, _Wanted], Selection] = {}
        self._numbers: dict[tuple[_Wanted, int, int], Numbers | None] = {}

    def select(self, feature: Feature) -> Selection:
        """Return what of the feature's window matches its filter and its currency."""
        wanted = _wanted(feature)
        key = (feature.window, wanted)
        if key not in self._selections:
            self._selections[key] = self._of_kinds(self._window(WINDOW_MS[feature.window]), wanted)
        return self._selections[key]

    def numbers(self, feature: Feature) -> Numbers | None:
        """Return what the amounts of the feature's window add up to, or None when there is none.

        A window holds all that a shorter one holds: those with as many events and cells have the same.
        """
        found = self.select(feature)
        key = (_wanted(feature), len(found.events), len(found.cells))
        if key not in self._numbers:
            self._numbers[key] = _numbers(found, feature.field)
        return self._numbers[key]

    def _of_kinds(self, window: Selection, wanted: _Wanted) -> Selection:
        if wanted not in self._kinds:
            self._kinds[wanted] = {
                position
                for position, kind in enumerate(self._row.kinds)
                if _matches(kind, wanted) and self._is_of_currency(kind, wanted[-1])
            }
        kinds = self._kinds[wanted]
        if len(kinds) == len(self._row.kinds):
            return window
        return replace(
            window,
            events=[one for one in window.events if one.kind in kinds],
            inside=[one for one in window.inside if one.kind in kinds],
            edge=[one for one in window.edge if one.kind in kinds],
        )

    def _window(self, length_ms: int) -> Selection:
        if length_ms not in self._windows:
            t_ms, start_ms = self.event.t_ms, self.event.t_ms - length_ms
            events = self._row.events[bisect_left(self._times, start_ms) : bisect_left(self._times, t_ms)]
            cells = [one for one in self._cells if one.first_ms < t_ms and one.last_ms >= start_ms]
            inside = [one for one in cells if start_ms <= one.first_ms and one.last_ms < t_ms]
            edge = [one for one in cells if not (start_ms <= one.first_ms and one.last_ms < t_ms)]
            complete = self._row.panes.dropped_ms < start_ms
            self._windows[length_ms] = Selection(t_ms, start_ms, events, inside, edge, complete)
        return self._windows[length_ms]

    def _is_of_currency(self, kind: Kind, money: AmountField | None) -> bool:
        if money is AmountField.AMOUNT:
            return kind.currency == self.event.amount.currency
        if money is AmountField.BASE_AMOUNT:
            base = self.event.base_amount
            return base is not None and kind.base_currency == base.currency
        return True


def _wanted(feature: Feature) -> _Wanted:
    where, field = feature.where, feature.field
    money = field if isinstance(field, AmountField) else None
    return (where.direction, where.type, where.currency, where.outcome, money)


def _matches(kind: Kind, wanted: _Wanted) -> bool:
    direction, transaction_type, currency, outcome, _ = wanted
    return (
        direction in (None, kind.direction)
        and transaction_type in (None, kind.type)
        and currency in (None, kind.currency)
        and outcome in (None, kind.outcome)
    )


def _numbers(found: Selection, field: AmountField | DistinctField | None) -> Numbers | None:
    """Return what the amounts add up to, or None when there is none."""
    base = field is AmountField.BASE_AMOUNT
    pairs = [(one.base_minor, one.base_scale) if base else (one.minor, one.scale) for one in found.events]
    amounts = [(whole(minor), scale) for minor, scale in pairs if minor is not None]
    cells = [cell.base if base else cell.amount for cell in found.cells]
    totals = [one for one in cells if one is not None]
    scale = max((*(own for _, own in amounts), *(one.scale for one in totals)), default=0)
    numbers = [minor if own == scale else minor * 10 ** (scale - own) for minor, own in amounts]
    parts = [one.numbers(scale) for one in totals]
    if numbers:
        parts.append((sum(numbers), sum([one * one for one in numbers]), min(numbers), max(numbers)))
    if not parts:
        return None
    total, squares, least, most = zip(*parts, strict=True)
    return Numbers(found.count(), scale, sum(total), sum(squares), min(least), max(most))
