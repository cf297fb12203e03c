"""Pages of text for readers, drawn with words instead of pixels."""

from streams.vision_ports import Quad, TextLine, TextPage

Cell = tuple[str, float, float]
"""Text, left and top in pixels."""


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
