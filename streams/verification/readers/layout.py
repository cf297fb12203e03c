"""Where lines of text stand: quarter turns, levelling, and rows; pure geometry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import atan2, cos, hypot, pi, sin
from statistics import median
from typing import Final

from streams.vision_ports import Box, Quad, TextLine, TextPage, Turn

Point = tuple[float, float]
"""A place in pixels."""

TURNS: Final[tuple[Turn, ...]] = (0, 90, 180, 270)
"""In the order in which they are tried."""


def length(quad: Quad) -> float:
    """Return how long a line is along its reading direction, pixels."""
    return hypot(quad[1][0] - quad[0][0], quad[1][1] - quad[0][1])


def height(quad: Quad) -> float:
    """Return how high a line is, pixels."""
    return hypot(quad[3][0] - quad[0][0], quad[3][1] - quad[0][1])


def facing(quad: Quad, turn: Turn) -> Quad:
    """Reorder the corners so that the line is read as on the page turned clockwise by `turn`."""
    first = -(turn // 90) % 4
    one, two, three, four = (quad[(first + step) % 4] for step in range(4))
    return one, two, three, four


def moved(quad: Quad, by: Point) -> Quad:
    """Return the quad moved to the right and down."""
    return _map(quad, lambda point: (point[0] + by[0], point[1] + by[1]))


def contains(quad: Quad, point: Point) -> bool:
    """Return whether a point is in the frame of a quad."""
    across, down = zip(*quad, strict=True)
    return min(across) < point[0] < max(across) and min(down) < point[1] < max(down)


def is_lengthwise(quad: Quad, turn: Turn) -> bool:
    """Return whether the line runs from left to right, rather than downwards, on the turned page."""
    turned = facing(quad, turn)
    return length(turned) >= height(turned)


def turn_page(lines: Sequence[TextLine], size: tuple[int, int], turn: Turn) -> TextPage:
    """Lay lines read on a picture of (width, height) onto the page turned clockwise by `turn`."""
    width, tall = size

    def place(point: Point) -> Point:
        x, y = point
        match turn:
            case 0:
                return x, y
            case 90:
                return tall - y, x
            case 180:
                return width - x, tall - y
            case 270:
                return y, width - x

    placed = [TextLine(line.text, line.score, _map(line.quad, place)) for line in lines]
    if turn in (90, 270):
        width, tall = tall, width
    return TextPage(tuple(placed), width, tall, turn)


@dataclass(frozen=True, slots=True)
class Placed:
    """A line of text on the levelled page."""

    text: str
    score: float
    box: Box
    """Left, top, right, bottom in pixels; the page's own rotation is taken out."""
    quad: Quad
    """Where it stands on the page before levelling."""

    @property
    def left(self) -> float:
        """The left edge."""
        return self.box[0]

    @property
    def right(self) -> float:
        """The right edge."""
        return self.box[2]

    @property
    def middle(self) -> float:
        """The height of the middle of the line."""
        return (self.box[1] + self.box[3]) / 2

    @property
    def height(self) -> float:
        """How high the line is."""
        return self.box[3] - self.box[1]

    @property
    def width(self) -> float:
        """How long the line is."""
        return self.box[2] - self.box[0]


def tilt(quads: Sequence[Quad]) -> float:
    """Return the clockwise angle of the page in radians: the median of its longer lines."""
    if not quads:
        return 0.0
    ordered = sorted(quads, key=length)
    longer = ordered[len(ordered) // 2 :]
    angle = median(atan2(quad[1][1] - quad[0][1], quad[1][0] - quad[0][0]) for quad in longer)
    return angle if abs(angle) < pi / 4 else 0.0


def level(page: TextPage) -> tuple[Placed, ...]:
    """Take the page's tilt out, and return its lines from top to bottom."""
    return tuple(sorted(levelled(page), key=lambda line: line.middle))


def levelled(page: TextPage) -> tuple[Placed, ...]:
    """Take the page's tilt out, and return its lines in the page's own order."""
    angle = tilt([line.quad for line in page.lines])
    across, down = cos(angle), sin(angle)

    def place(point: Point) -> Point:
        x, y = point
        return x * across + y * down, y * across - x * down

    return tuple(
        Placed(line.text, line.score, _frame(_map(line.quad, place)), line.quad) for line in page.lines
    )


def shortened(quad: Quad, aspect: float) -> Quad:
    """Return the beginning of a line: at most `aspect` times as long as high."""
    share = aspect * height(quad) / max(length(quad), 1.0)
    if share >= 1:
        return quad
    one, two, three, four = quad
    return one, between(one, two, share), between(four, three, share), four


def turn_back(quad: Quad, page: TextPage) -> Quad:
    """Return a quad of a turned page as it lies on the picture, corners still in reading order."""
    back: Turn = {0: 0, 90: 270, 180: 180, 270: 90}[page.turn]  # type: ignore[assignment] # only turns are in it
    line = TextLine("", 0.0, quad)
    return turn_page([line], (page.width, page.height), back).lines[0].quad


def share_row(one: Placed, other: Placed) -> bool:
    """Return whether two lines stand side by side."""
    return abs(one.middle - other.middle) < 0.5 * min(one.height, other.height)


def between(one: Point, other: Point, share: float) -> Point:
    """Return the point that lies a share of the way from one to the other."""
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def _map(quad: Quad, place: Callable[[Point], Point]) -> Quad:
    one, two, three, four = (place(point) for point in quad)
    return one, two, three, four


def _frame(quad: Quad) -> Box:
    """Return the upright box of a nearly level quad: the mean of each two corners of a side."""
    left, right = (quad[0][0] + quad[3][0]) / 2, (quad[1][0] + quad[2][0]) / 2
    top, bottom = (quad[0][1] + quad[1][1]) / 2, (quad[2][1] + quad[3][1]) / 2
    return left, top, right, bottom
