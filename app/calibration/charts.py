"""Draw the results of a calibration: distances of both kinds of pairs, and the DET curve."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.calibration.drawing import Bar, Drawing, Line, Point, Words
from app.calibration.error_rates import Band, Comparisons, Rate, rate

WIDTH: Final = 760
HEIGHT: Final = 520
MATED: Final = "#1f6fb4"
NONMATED: Final = "#c2571a"
NOW: Final = "#666666"
ADVISED: Final = "#15803d"
"""Colours of the pairs labelled same and different, of the thresholds in force and of those recommended."""

_GRID: Final = "#dddddd"
_INK: Final = "#222222"
_LEFT, _TOP, _RIGHT, _BOTTOM = 80.0, 70.0, 730.0, 450.0
_BIN: Final = 0.02
"""Of a distance."""
_FEW_TICKS: Final = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to pixels; values beyond the ends stand at the ends."""

    low: float
    high: float
    start: float
    """The pixel of the low end."""
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        value = min(max(value, self.low), self.high)
        to_scale: Callable[[float], float] = math.log10 if self.logarithmic else float
        low, high = to_scale(self.low), to_scale(self.high)
        return self.start + (to_scale(value) - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """Return round values to label: powers of ten, or steps of 1, 2 or 5."""
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        rough = (self.high - self.low) / _FEW_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw_distributions(comparisons: Comparisons, now: Band, advised: Band) -> Drawing:
    """Return histograms of the distances of mated and non-mated pairs, each as shares of its own kind."""
    title = "Distances of pairs labelled same and different"
    drawing = Drawing(WIDTH, HEIGHT, title)
    both = np.concatenate([comparisons.mated, comparisons.nonmated])
    low = max(math.floor((min(both.min(), now.accept_at) - 0.05) * 10) / 10, 0.0)
    across = Axis(low, math.ceil((max(both.max(), now.reject_above) + 0.05) * 10) / 10, _LEFT, _RIGHT)
    shares = [_shares(distances, across) for distances in (comparisons.mated, comparisons.nonmated)]
    up = Axis(0, max(share.max() for share in shares) * 1.05, _BOTTOM, _TOP)
    _frame(drawing, across, up, ("distance", "share of the pairs"), lambda value: f"{value:g}")
    drawing.add(Bar(across(advised.accept_at), _TOP, across(advised.reject_above), _BOTTOM, ADVISED, 0.12))
    for share, colour in zip(shares, (MATED, NONMATED), strict=True):
        drawing.add(*_bars(share, across, up, colour))
    for band, colour, dash in ((now, NOW, 6.0), (advised, ADVISED, 0.0)):
        for threshold in (band.accept_at, band.reject_above):
            place = across(threshold)
            drawing.add(Line(((place, _TOP), (place, _BOTTOM)), colour, 1.6, dash))
    _legend(
        drawing,
        (MATED, f"same, {len(comparisons.mated)} pairs"),
        (NONMATED, f"different, {len(comparisons.nonmated)} pairs"),
        (NOW, f"in force {now.accept_at:g}, {now.reject_above:g}"),
        (ADVISED, f"recommended {advised.accept_at:g}, {advised.reject_above:g}"),
    )
    return drawing


def draw_det(comparisons: Comparisons, now: Band, advised: Band) -> Drawing:
    """Return the detection error trade-off: FNMR over FMR at every threshold, both logarithmic.

    A rate of 0 is drawn at the edge. Left of and below the dashed lines the pairs are too few to distinguish
    a rate from 0.
    """
    drawing = Drawing(WIDTH, HEIGHT, "Detection error trade-off (DET)")
    unseen = [rate(0, len(kind)).high for kind in (comparisons.nonmated, comparisons.mated)]
    across = Axis(_power_below(len(comparisons.nonmated)), 1.0, _LEFT, _RIGHT, logarithmic=True)
    up = Axis(_power_below(len(comparisons.mated)), 1.0, _BOTTOM, _TOP, logarithmic=True)
    _frame(
        drawing, across, up, ("FMR: different people that match", "FNMR: same person that does not"), _percent
    )
    drawing.add(
        Line(((across(unseen[0]), _TOP), (across(unseen[0]), _BOTTOM)), NOW, 1, 4),
        Line(((_LEFT, up(unseen[1])), (_RIGHT, up(unseen[1]))), NOW, 1, 4),
        Line(tuple(_staircase(comparisons.trade_off(), across, up)), _INK, 2),
    )
    for band, colour in ((now, NOW), (advised, ADVISED)):
        for threshold in (band.accept_at, band.reject_above):
            at = comparisons.fmr(threshold), comparisons.fnmr(threshold)
            drawing.add(*_cross(across, up, at, colour))
    _legend(
        drawing,
        (_INK, "every threshold"),
        (NOW, f"in force {now.accept_at:g}, {now.reject_above:g}; dashed: rule of 3"),
        (ADVISED, f"recommended {advised.accept_at:g}, {advised.reject_above:g}, with intervals"),
    )
    return drawing


def _shares(distances: NDArray[np.float64], across: Axis) -> NDArray[np.float64]:
    bins = round((across.high - across.low) / _BIN)
    counted, _ = np.histogram(distances, bins, (across.low, across.high))
    return counted / len(distances)


def _bars(shares: NDArray[np.float64], across: Axis, up: Axis, colour: str) -> Iterator[Bar]:
    for number, share in enumerate(shares):
        if share > 0:
            left, right = (across(across.low + (number + edge) * _BIN) for edge in (0, 1))
            yield Bar(left, up(float(share)), right, _BOTTOM, colour, 0.55)


def _staircase(points: Sequence[tuple[float, float]], across: Axis, up: Axis) -> Iterator[Point]:
    """Yield the corners of the curve: between two thresholds nothing is claimed but the worse of both."""
    before: Point | None = None
    for fmr, fnmr in points:
        here = across(fmr), up(fnmr)
        if before is not None:
            yield here[0], before[1]
        yield here
        before = here


def _cross(across: Axis, up: Axis, at: tuple[Rate, Rate], colour: str) -> Iterator[Line]:
    """Yield the intervals of both rates through the point."""
    fmr, fnmr = at
    x, y = across(fmr.value), up(fnmr.value)
    yield Line(((across(fmr.low), y), (across(fmr.high), y)), colour, 2.4)
    yield Line(((x, up(fnmr.low)), (x, up(fnmr.high))), colour, 2.4)


def _frame(
    drawing: Drawing, across: Axis, up: Axis, names: tuple[str, str], written: Callable[[float], str]
) -> None:
    """Draw title, axes, a grid and the names of both axes."""
    drawing.add(Words((_LEFT, 28), drawing.title, 18, colour=_INK))
    for tick in across.ticks():
        drawing.add(Line(((across(tick), _TOP), (across(tick), _BOTTOM)), _GRID))
        drawing.add(Words((across(tick), _BOTTOM + 20), written(tick), anchor="middle"))
    for tick in up.ticks():
        drawing.add(Line(((_LEFT, up(tick)), (_RIGHT, up(tick))), _GRID))
        drawing.add(Words((_LEFT - 8, up(tick) + 4), _percent(tick), anchor="end"))
    drawing.add(
        Line(((_LEFT, _TOP), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), _INK, 1.4),
        Words(((_LEFT + _RIGHT) / 2, _BOTTOM + 48), names[0], 14, "middle"),
        Words((22, (_TOP + _BOTTOM) / 2), names[1], 14, "middle", sideways=True),
    )


def _legend(drawing: Drawing, *entries: tuple[str, str]) -> None:
    """Write what the colours mean in one row over the chart."""
    place = _LEFT
    for colour, text in entries:
        drawing.add(Bar(place, 45, place + 12, 57, colour), Words((place + 17, 56), text, 12))
        place += 30 + 6.4 * len(text)


def _percent(value: float) -> str:
    return f"{value * 100:.6g} %"


def _power_below(trials: int) -> float:
    """Return the power of ten below one error in as many trials."""
    return 10.0 ** math.floor(math.log10(0.5 / trials))
