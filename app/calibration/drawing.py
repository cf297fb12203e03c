"""Draw lines, bars and text, and write them as SVG and PNG from the same shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, Literal
from xml.sax.saxutils import escape

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float]
"""To the right and down from the top left corner, pixels."""

Anchor = Literal["start", "middle", "end"]
"""Which part of a text stands at its point."""

PAPER: Final = "#ffffff"

_FINER: Final = 3
"""The PNG is drawn so many times larger and then scaled down, for smooth edges."""
_PILLOW_ANCHORS: Final[dict[Anchor, str]] = {"start": "ls", "middle": "ms", "end": "rs"}
_UPRIGHT, _SIDEWAYS = 0, -90


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `dash` is the length of its dashes and gaps, 0 for none."""

    points: tuple[Point, ...]
    colour: str
    width: float = 1.0
    dash: float = 0.0

    def svg(self) -> str:
        """Return its element."""
        points = " ".join(f"{x:.2f},{y:.2f}" for x, y in self.points)
        dashes = f' stroke-dasharray="{self.dash:g}"' if self.dash else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{self.colour}" '
            f'stroke-width="{self.width:g}" stroke-linejoin="round"{dashes}/>'
        )

    def paint(self, pen: ImageDraw.ImageDraw, finer: int) -> None:
        """Draw it, `finer` times larger."""
        for piece in self._dashes() if self.dash else [self.points]:
            scaled = [(x * finer, y * finer) for x, y in piece]
            pen.line(scaled, fill=self.colour, width=round(self.width * finer), joint="curve")

    def _dashes(self) -> list[tuple[Point, Point]]:
        """Return the dashes of its first stretch; dashed lines are straight."""
        (x0, y0), (x1, y1) = self.points[0], self.points[-1]
        length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
        starts = [start / length for start in _steps(length, 2 * self.dash)]
        share = self.dash / length
        return [(_between((x0, y0), (x1, y1), s), _between((x0, y0), (x1, y1), s + share)) for s in starts]


@dataclass(frozen=True, slots=True)
class Bar:
    """A filled rectangle, see-through by `opacity`."""

    left: float
    top: float
    right: float
    bottom: float
    colour: str
    opacity: float = 1.0

    def svg(self) -> str:
        """Return its element."""
        return (
            f'<rect x="{self.left:.2f}" y="{self.top:.2f}" width="{self.right - self.left:.2f}" '
            f'height="{self.bottom - self.top:.2f}" fill="{self.colour}" fill-opacity="{self.opacity:g}"/>'
        )

    def paint(self, pen: ImageDraw.ImageDraw, finer: int) -> None:
        """Draw it, `finer` times larger."""
        if self.right <= self.left or self.bottom <= self.top:
            return
        corners = [finer * edge for edge in (self.left, self.top, self.right, self.bottom)]
        corners[2:] = [corners[2] - 1, corners[3] - 1]  # Pillow's corners belong to the rectangle
        pen.rectangle(corners, fill=(*_rgb(self.colour), round(255 * self.opacity)))


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text on its base line, or turned to read upwards."""

    at: Point
    text: str
    size: float = 13.0
    anchor: Anchor = "start"
    colour: str = "#222222"
    sideways: bool = False

    def svg(self) -> str:
        """Return its element."""
        x, y = self.at
        turned = f' transform="rotate({_SIDEWAYS} {x:.2f} {y:.2f})"' if self.sideways else ""
        return (
            f'<text x="{x:.2f}" y="{y:.2f}" font-size="{self.size:g}" text-anchor="{self.anchor}" '
            f'fill="{self.colour}"{turned}>{escape(self.text)}</text>'
        )

    def paint(self, pen: ImageDraw.ImageDraw, finer: int) -> None:
        """Draw it, `finer` times larger; turned text is drawn by `Drawing`."""
        x, y = (finer * place for place in self.at)
        font = ImageFont.load_default(self.size * finer)
        pen.text((x, y), self.text, font=font, fill=self.colour, anchor=_PILLOW_ANCHORS[self.anchor])


Shape = Line | Bar | Words


@dataclass(slots=True)
class Drawing:
    """Shapes on white paper, later ones over earlier ones."""

    width: int
    height: int
    title: str
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Put shapes on top."""
        self.shapes += shapes

    def svg(self) -> str:
        """Return the drawing as an SVG document without anything to load."""
        root = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif" role="img">'
        )
        return "\n".join(
            [
                root,
                f"<title>{escape(self.title)}</title>",
                Bar(0, 0, self.width, self.height, PAPER).svg(),
                *(shape.svg() for shape in self.shapes),
                "</svg>\n",
            ]
        )

    def png(self) -> bytes:
        """Return the drawing as a PNG file."""
        size = self.width * _FINER, self.height * _FINER
        sheet = Image.new("RGB", size, PAPER)
        for shape in self.shapes:
            if isinstance(shape, Words) and shape.sideways:
                sheet = _with_sideways(sheet, shape)
            else:
                shape.paint(ImageDraw.Draw(sheet, "RGBA"), _FINER)
        written = BytesIO()
        sheet.resize((self.width, self.height), Image.Resampling.BOX).save(written, "PNG", optimize=True)
        return written.getvalue()


def _with_sideways(sheet: Image.Image, words: Words) -> Image.Image:
    """Turn the sheet so that the words lie level, write them, and turn it back."""
    x, y = words.at
    turned = sheet.transpose(Image.Transpose.ROTATE_270)
    level = Words((turned.width / _FINER - y, x), words.text, words.size, words.anchor, words.colour)
    level.paint(ImageDraw.Draw(turned, "RGBA"), _FINER)
    return turned.transpose(Image.Transpose.ROTATE_90)


def _steps(end: float, step: float) -> Sequence[float]:
    return [number * step for number in range(int(end / step) + 1)]


def _between(one: Point, other: Point, share: float) -> Point:
    share = min(share, 1.0)
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
