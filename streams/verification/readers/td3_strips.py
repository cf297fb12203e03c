"""Locate the lines of a machine-readable zone that the detector missed or split.

Pure geometry on quads of one turn: each begins at its first letter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Final

from streams.verification.readers.layout import Point, height, length
from streams.vision_ports import Quad

PITCHES: Final = (6.35 / 111.8, 7.4 / 111.8, 8.4 / 111.8)
"""From line to line in lengths of a line: by ICAO Doc 9303 part 3 section 4.2, and as some space them."""
_PITCH_MIN, _PITCH_MAX = 0.035, 0.1
"""Within which a piece of the first line stands above the second; perspective may halve the pitch."""
_ALIKE: Final = 0.55
"""Pieces of one line are of like height; the detector's boxes are loose."""
_GAP_MAX: Final = 3.0
"""From piece to piece, in heights."""
_PIECE_MIN: Final = 2.0
"""A piece of a line is so many times as long as high."""
_LINE_MIN: Final = 15.0
"""A whole line is at least so many times as long as high."""
_JOINED_MAX: Final = 3
"""Joined lines that are searched for a zone."""
_JOINED_SHARE_MIN: Final = 0.85
"""One of them is the longest line of its page or not much shorter."""
_REACH: Final = 0.012
"""How far a strip reaches beyond the line it is cut by, in lengths of it: half a letter."""


_PAGE_ACROSS: Final = (-0.1, 1.1)
_PAGE_BELOW: Final = (-0.85, 0.2)
"""Where the middle of a printed line stands by the second line, in lengths of it: the page reaches from -0.06
to 1.06 across and from -0.7 to 0.09 (part 4 section 2), and perspective may add a fifth."""


@dataclass(frozen=True, slots=True)
class _Axes:
    """A line as a frame of reference: along it and down from its middle, in pixels."""

    origin: Point
    along: Point
    down: Point

    def across(self, point: Point) -> float:
        """Return how far along the line a point lies."""
        return _dot(_less(point, self.origin), self.along)

    def below(self, point: Point) -> float:
        """Return how far below the line's middle a point lies."""
        return _dot(_less(point, self.origin), self.down)

    def place(self, across: float, below: float) -> Point:
        """Return the point at a place of this frame."""
        return (
            self.origin[0] + across * self.along[0] + below * self.down[0],
            self.origin[1] + across * self.along[1] + below * self.down[1],
        )


def of_page(second: Quad, quads: Sequence[Quad]) -> list[Quad]:
    """Return the lines on the page of a zone's second line; what lies beside the page is another paper."""
    axes = _axes(_middle(second, 0, 3), _middle(second, 1, 2))
    if axes is None:
        return [*quads]
    (left, right), (top, bottom) = (
        (length(second) * first, length(second) * last) for first, last in (_PAGE_ACROSS, _PAGE_BELOW)
    )
    return [
        quad
        for quad in quads
        if left < axes.across(_centre(quad)) < right and top < axes.below(_centre(quad)) < bottom
    ]


def first_line_strips(second: Quad, quads: Sequence[Quad]) -> tuple[Quad, ...]:
    """Return strips in which the first line may stand, the likeliest first.

    Where the detector found pieces of a row above the second line the strip runs through them, over the
    whole length of the second line; else, and after that, strips are cut one pitch above it.
    """
    long, tall = length(second), height(second)
    axes = _axes(_middle(second, 0, 3), _middle(second, 1, 2))
    if axes is None or not tall > 0:
        return ()
    reach = (-_REACH * long, (1 + _REACH) * long)
    strips = [_strip(axes, reach, -pitch * long, tall) for pitch in PITCHES]
    above = [quad for quad in quads if _is_piece_above(axes, quad, long, tall)]
    if above:
        middle = max(axes.below(_centre(quad)) for quad in above)
        row = [quad for quad in above if abs(axes.below(_centre(quad)) - middle) < 0.6 * tall]
        strips.insert(0, _through(row, axes, reach))
    return tuple(strips)


def longest_joined(quads: Sequence[Quad]) -> list[Quad]:
    """Return the pieces joined that may be a zone's second line: nothing on its page is longer."""
    longest = max(map(length, quads), default=0.0)
    return [line for line in joined(quads) if length(line) > _JOINED_SHARE_MIN * longest][:_JOINED_MAX]


def joined(quads: Sequence[Quad]) -> tuple[Quad, ...]:
    """Return the lines that pieces beside one another make up, longest first."""
    pieces = sorted(
        (quad for quad in quads if length(quad) > _PIECE_MIN * height(quad) > 0),
        key=lambda quad: -length(quad),
    )
    found: list[Quad] = []
    used: set[Quad] = set()
    for first in pieces:
        if first in used:
            continue
        row = _row(first, pieces)
        used.update(row)
        axes = _axes(_middle(row[0], 0, 3), _middle(row[-1], 1, 2))
        if len(row) > 1 and axes is not None:
            ends = axes.across(row[0][0]), axes.across(row[-1][1])
            line = _through(row, axes, ends)
            found += [line] if length(line) > _LINE_MIN * height(line) else []
    return tuple(sorted(found, key=length, reverse=True))


def _row(first: Quad, pieces: Sequence[Quad]) -> list[Quad]:
    """Return the pieces that continue one to the left and to the right, in reading order."""
    axes = _axes(_middle(first, 0, 3), _middle(first, 1, 2))
    row = [first]
    if axes is None:
        return row
    tall = height(first)
    beside = sorted(
        (quad for quad in pieces if quad is not first and _is_beside(axes, quad, tall)),
        key=lambda quad: axes.across(_centre(quad)),
    )
    for quad in (one for one in beside if axes.across(_centre(one)) > 0.5 * length(first)):
        if -tall < axes.across(quad[0]) - axes.across(row[-1][1]) < _GAP_MAX * tall:
            row.append(quad)
    for quad in (one for one in reversed(beside) if axes.across(_centre(one)) < 0.5 * length(first)):
        if -tall < axes.across(row[0][0]) - axes.across(quad[1]) < _GAP_MAX * tall:
            row.insert(0, quad)
    return row


def _is_beside(axes: _Axes, quad: Quad, tall: float) -> bool:
    alike = min(height(quad), tall) > _ALIKE * max(height(quad), tall)
    far = abs(axes.across(_centre(quad))) / 40  # a row may bend a little with the page
    return alike and abs(axes.below(_centre(quad))) < 0.4 * tall + far


def _is_piece_above(axes: _Axes, quad: Quad, long: float, tall: float) -> bool:
    alike = min(height(quad), tall) > _ALIKE * max(height(quad), tall)
    inside = -0.1 * long < axes.across(quad[0]) and axes.across(quad[1]) < 1.1 * long
    far = _PITCH_MIN < -axes.below(_centre(quad)) / long < _PITCH_MAX
    return alike and inside and far and length(quad) > _PIECE_MIN * height(quad)


def _through(row: Sequence[Quad], axes: _Axes, reach: tuple[float, float]) -> Quad:
    """Return one strip through the pieces of a row, of the given length, along the row's own slope."""
    ordered = sorted(row, key=lambda quad: axes.across(_centre(quad)))
    one, other = _middle(ordered[0], 0, 3), _middle(ordered[-1], 1, 2)
    run = axes.across(other) - axes.across(one)
    slope = (axes.below(other) - axes.below(one)) / run if run > 0 else 0.0
    start = axes.below(one) - slope * axes.across(one)
    half = max(height(quad) for quad in row) / 2
    left, right = (start + slope * end for end in reach)
    return (
        axes.place(reach[0], left - half),
        axes.place(reach[1], right - half),
        axes.place(reach[1], right + half),
        axes.place(reach[0], left + half),
    )


def _strip(axes: _Axes, reach: tuple[float, float], below: float, tall: float) -> Quad:
    return (
        axes.place(reach[0], below - tall / 2),
        axes.place(reach[1], below - tall / 2),
        axes.place(reach[1], below + tall / 2),
        axes.place(reach[0], below + tall / 2),
    )


def _axes(start: Point, end: Point) -> _Axes | None:
    long = hypot(*_less(end, start))
    if not long > 0:
        return None
    across, down = (end[0] - start[0]) / long, (end[1] - start[1]) / long
    return _Axes(start, (across, down), (-down, across))


def _middle(quad: Quad, one: int, other: int) -> Point:
    return (quad[one][0] + quad[other][0]) / 2, (quad[one][1] + quad[other][1]) / 2


def _centre(quad: Quad) -> Point:
    return sum(point[0] for point in quad) / 4, sum(point[1] for point in quad) / 4


def _less(one: Point, other: Point) -> Point:
    return one[0] - other[0], one[1] - other[1]


def _dot(one: Point, other: Point) -> float:
    return one[0] * other[0] + one[1] * other[1]
