"""The text of one picture, with cached results of detection and recognition, and which lines matter."""

from collections.abc import Sequence
from typing import Final

from streams.verification.readers.layout import facing, height, length, moved, turn_page
from streams.vision_ports import Detail, Picture, Quad, TextLine, TextPage, TextReader, Turn

MACHINE_LINES_MAX: Final = 6
"""Number of longest lines searched for a zone: its two, and others over the width of a page."""
MACHINE_ASPECT_MIN: Final = 10.0
"""A line of 44 characters is some 25 times as long as high; perspective and loose boxes take half."""
MACHINE_SHARE_MIN: Final = 0.6
"""A line of the zone is the longest or not much shorter."""

LEGIBLE_SCORE: Final = 0.6
"""Recogniser's score from which a line counts as text; patterns and faces give less."""

LEGIBLE_LETTERS: Final = 3
"""Letters or digits a line must have to count as text."""


class PictureText:
    """The text of one picture; raises what the reader's methods raise."""

    def __init__(self, reader: TextReader, picture: Picture) -> None:
        self._reader = reader
        self._picture = picture
        self._quads: dict[Detail, tuple[Quad, ...]] = {}
        self._lines: dict[Detail, dict[Quad, TextLine]] = {detail: {} for detail in Detail}

    async def find(self, detail: Detail) -> tuple[Quad, ...]:
        """Return the positions of lines of text on the picture."""
        if detail not in self._quads:
            self._quads[detail] = await self._reader.find_lines(self._picture, detail)
        return self._quads[detail]

    async def find_around(self, quad: Quad) -> tuple[Quad, ...]:
        """Return the positions of lines in a quad and around it, sought in that part of the picture alone."""
        margin = min(length(quad), height(quad)) / 2
        across, down = zip(*quad, strict=True)
        left, top = (max(0, int(min(places) - margin)) for places in (across, down))
        part = self._picture.pixels[top : int(max(down) + margin), left : int(max(across) + margin)]
        if not part.size:
            return ()
        found = await self._reader.find_lines(Picture(part), Detail.FINE)
        return tuple(moved(one, (left, top)) for one in found)

    async def read(self, quads: Sequence[Quad], turn: Turn, detail: Detail = Detail.FINE) -> TextPage:
        """Read lines of the page turned by `turn`, in order."""
        lines = self._lines[detail]
        new = [quad for quad in quads if quad not in lines]
        if new:
            read = await self._reader.read_lines(self._picture, new, detail)
            lines.update(zip(new, read, strict=True))
        return self.turned([lines[quad] for quad in quads], turn)

    def turned(self, lines: Sequence[TextLine], turn: Turn) -> TextPage:
        """Return the positions of lines on the page turned by `turn`."""
        return turn_page(lines, (self._picture.width, self._picture.height), turn)

    def everything(self, turn: Turn) -> TextPage:
        """Return all recognised lines, on the page turned by `turn`."""
        return self.turned([line for lines in self._lines.values() for line in lines.values()], turn)


def machine_lines(quads: Sequence[Quad], turn: Turn) -> list[Quad]:
    """Return the lines that may be a zone's on the page turned by `turn`, longest first."""
    turned = sorted((facing(quad, turn) for quad in quads), key=length, reverse=True)
    long = [quad for quad in turned if length(quad) > MACHINE_ASPECT_MIN * height(quad)][:MACHINE_LINES_MAX]
    return [quad for quad in long if length(quad) > MACHINE_SHARE_MIN * length(long[0])]


def legible_lines(page: TextPage) -> list[TextLine]:
    """Return the lines that are certainly text."""
    return [
        line
        for line in page.lines
        if line.score >= LEGIBLE_SCORE and sum(map(str.isalnum, line.text)) >= LEGIBLE_LETTERS
    ]
