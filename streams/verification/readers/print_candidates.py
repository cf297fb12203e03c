"""Choose the lines of a passport's page that may print a compared field, by place and shape alone.

Nothing is recognised here. A value is about as long as its text, stands nearer to its label above it than
that label to anything else, and most states follow the order of ICAO Doc 9303 part 3 section 3: the number at
the top, then the names, then the dates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import median
from typing import Final

from streams.verification.readers.anchors import stands_below
from streams.verification.readers.layout import Placed

CHAIN: Final = ("surname", "given_names", "date_of_birth", "expiry_date")
"""Fields that follow one another on the page; the number and the sex stand here or there."""
WIDTHS: Final = (0.5, 0.58, 0.67, 0.77, 0.88, 1.0)
"""Widths a printed letter may have, as shares of the machine-readable zone's pitch."""
_MISFIT_MAX: Final = 0.375
"""From this much longer or shorter than expected, in logarithms, a line is not the text."""
_ORDER_WEIGHT: Final = 0.19
"""Misfit that the way down the whole page is worth: texts of as many letters differ in width by as much,
and of lines that fit alike the names and the date of birth are the upper ones."""
_SINGLE: Final = 1.6
"""Width over height up to which a line may be a single letter."""
_PAIR: Final = 2.8
"""The same of a letter in two languages: `V/F`."""
_PAIR_MISFIT: Final = 0.2
"""More than the way down the page is worth: single letters are tried first."""
_MIN_WIDTH_CHARS: Final = 5
"""Letters a line needs for its letters' width to be measured."""
_LAST: Final = frozenset({"expiry_date", "sex"})
"""Fields that stand behind others of like shape: the date of issue, the type of the document."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may be a value, and the one that may be its label: their places among the lines."""

    value: int
    label: int


@dataclass(frozen=True, slots=True)
class _Search:
    """The labelled lines of a page in reading order, and how many letters each field has."""

    lines: Sequence[Placed]
    pairs: Sequence[Candidate]
    letters: Mapping[str, int]

    def costs(self, name: str, width: float) -> list[float]:
        """Return how little each pair fits a field whose letters are so wide; infinite for no value."""
        return [self._cost(name, place, width) for place in range(len(self.pairs))]

    def _cost(self, name: str, place: int, width: float) -> float:
        line, count = self.lines[self.pairs[place].value], self.letters[name]
        if count == 1:
            wide = line.width / max(line.height, 1.0)
            misfit = 0.0 if wide < _SINGLE else _PAIR_MISFIT if wide < _PAIR else inf
        else:
            misfit = abs(log(max(line.width, 1.0) / (count * width)))
        if misfit >= _MISFIT_MAX:
            return inf
        return misfit + _ORDER_WEIGHT * (-place if name in _LAST else place) / (len(self.pairs) + 1)


def pairs_of(lines: Sequence[Placed]) -> tuple[Candidate, ...]:
    """Return every line that stands below one that may be its label, in reading order."""
    pairs = [pair for index in range(len(lines)) if (pair := _labelled(index, lines))]
    return tuple(sorted(pairs, key=lambda pair: (lines[pair.value].middle, lines[pair.value].left)))


def candidates(
    lines: Sequence[Placed],
    pairs: Sequence[Candidate],
    letters: Mapping[str, int],
    widths: Sequence[float],
) -> dict[str, Candidate]:
    """Return the likeliest value of each field that has one, for texts of so many letters.

    `widths` are those a letter may have, in pixels.
    """
    search = _Search(lines, pairs, letters)
    chain = [name for name in CHAIN if name in letters]
    tried = ((_in_order([search.costs(name, width) for name in chain]), width) for width in widths)
    (_, places), width = min(tried, key=lambda found: (found[0][0], found[1]))
    found = dict(zip(chain, places, strict=False))  # none where no sequence fits
    for name in letters:
        costs = search.costs(name, width)
        if name not in found and min(costs, default=inf) < inf:
            found[name] = costs.index(min(costs))
    return {name: pairs[place] for name, place in found.items()}


def width_of(lines: Sequence[Placed]) -> float | None:
    """Return how wide a letter of the lines that were read is, None when too few were."""
    widths = [line.width / len(line.text) for line in lines if len(line.text) >= _MIN_WIDTH_CHARS]
    return median(widths) if widths else None


def _labelled(index: int, lines: Sequence[Placed]) -> Candidate | None:
    """Pair a line with the nearest one above it, if that one has no nearer neighbour above or below."""
    value = lines[index]
    label = _above(value, lines)
    if label is None:
        return None
    apart = value.middle - lines[label].middle
    below = [line for line in lines if stands_below(lines[label], line)]
    before = _above(lines[label], lines)
    nearest = min(line.middle for line in below) == value.middle
    nearer = before is None or lines[label].middle - lines[before].middle > apart
    return Candidate(index, label) if nearest and nearer else None


def _above(line: Placed, lines: Sequence[Placed]) -> int | None:
    above = [place for place, other in enumerate(lines) if stands_below(other, line)]
    return max(above, key=lambda place: lines[place].middle, default=None)


def _in_order(costs: Sequence[Sequence[float]]) -> tuple[float, list[int]]:
    """Return one place for each field, in the fields' order, at the least cost; infinite where impossible."""
    best: dict[int, tuple[float, list[int]]] = {-1: (0.0, [])}
    for each in costs:
        reached: dict[int, tuple[float, list[int]]] = {}
        for place, cost in enumerate(each):
            before = [best[last] for last in best if last < place]
            if cost < inf and before:
                spent, chosen = min(before, key=lambda found: found[0])
                reached[place] = spent + cost, [*chosen, place]
        best = reached
    return min(best.values(), key=lambda found: found[0], default=(inf, []))
