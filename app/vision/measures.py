"""Count what looks like rows of print, without reading them and without the libraries that could."""

from typing import Final

import cv2
import numpy as np

from streams.vision_ports import Picture

_SIDE: Final = 640
"""Longer side of the copy looked at, pixels; the rows of a page that fills it are some 10 pixels high."""
_HEIGHTS: Final = (4, 28)
"""Pixels a row may be high."""
_ASPECT_MIN: Final = 3.5
"""A row is so many times as long as high, a word or a date at the least."""
_FILLED_MIN: Final = 0.45
"""Share of its box that a row fills; branches and hair fill less."""
_GAP: Final = (11, 3)
"""Pixels between letters that belong to one row, across and down."""
_STROKE: Final = (9, 5)
"""Pixels of what is dark between brighter surroundings, across and down: strokes of letters, not shadows."""
_FAINT: Final = 12
"""Levels of grey by which print is darker than its paper at the least; below it is texture."""


def print_rows(picture: Picture) -> int:
    """Return how many rows of dark print there seem to be, whichever quarter turn the picture has."""
    scale = _SIDE / max(picture.width, picture.height)
    size = max(16, round(picture.width * scale)), max(16, round(picture.height * scale))
    small = cv2.resize(picture.pixels, size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    lying = cv2.rotate(grey, cv2.ROTATE_90_CLOCKWISE)
    return max(_rows(np.asarray(grey, np.uint8)), _rows(np.asarray(lying, np.uint8)))


def _rows(grey: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> int:
    strokes = cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, cv2.getStructuringElement(cv2.MORPH_RECT, _STROKE))
    level, dark = cv2.threshold(strokes, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    if level < _FAINT:
        return 0
    joined = cv2.morphologyEx(dark, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, _GAP))
    _, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    width, height, filled = stats[1:, 2], stats[1:, 3], stats[1:, 4]
    found = (height >= _HEIGHTS[0]) & (height <= _HEIGHTS[1]) & (width >= _ASPECT_MIN * height)
    return int((found & (filled >= _FILLED_MIN * width * height)).sum())
