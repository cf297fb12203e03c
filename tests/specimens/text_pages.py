"""Pages of text for readers: drawn with words instead of pixels, or of any bytes for the fuzz targets."""

import struct
from typing import Final

from streams.vision_ports import Quad, TextLine, TextPage

Cell = tuple[str, float, float]
"""Text, left and top in pixels."""
_PLACE: Final = struct.Struct(">hhhhhhB")
"""Left, top, width, height, and how far the line leans and rises, in pixels; confidence in 255 parts."""

MOST_LINES: Final = 400
"""A dense page has fewer."""


def text_line(text: str, left: float, top: float, *, height: float = 30, score: float = 0.99) -> TextLine:
    """Return a level line whose width is that of its text."""
    width = max(1, len(text)) * height * 0.6
    quad: Quad = ((left, top), (left + width, top), (left + width, top + height), (left, top + height))
    return TextLine(text, score, quad)


def text_page(*cells: Cell, score: float = 0.99) -> TextPage:
    """Return a page of 1250 x 880 px with each text at its place."""
    lines = tuple(text_line(text, left, top, score=score) for text, left, top in cells)
    return TextPage(lines, 1250, 880, 0)


def zone(first: str, second: str, *, gap: float = 80) -> tuple[Cell, Cell]:
    """Return the cells of a machine-readable zone."""
    return (first, 70, 690), (second, 70, 690 + gap)


def page_of(data: bytes) -> TextPage:
    """Return the page that the bytes stand for: lines apart by a newline, each its place and its text."""
    lines = tuple(_line(part) for part in data.split(b"\n")[:MOST_LINES] if len(part) > _PLACE.size)
    return TextPage(lines, 1250, 880, 0)


def _line(part: bytes) -> TextLine:
    left, top, width, height, leans, rises, score = _PLACE.unpack_from(part)
    first = (float(left), float(top))
    second = (first[0] + width, first[1] + rises)
    quad = (
        first,
        second,
        (second[0] + leans, second[1] + height),
        (first[0] + leans, first[1] + height),
    )
    return TextLine(part[_PLACE.size :].decode(errors="replace"), score / 255, quad)


def written(*cells: tuple[str, int, int]) -> bytes:
    """Return the bytes of a page of level lines: text, left and top, 30 pixels high."""
    parts = (
        _PLACE.pack(left, top, max(1, len(text)) * 18, 30, 0, 0, 252) + text.encode()
        for text, left, top in cells
    )
    return b"\n".join(part for part in parts if b"\n" not in part)
