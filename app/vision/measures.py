"""Measure a picture without reading it: its sharpness, and how many rows of print it shows."""

from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from app.vision.images import cut
from streams.vision_ports import Box, Picture, Sharpness

_SIDE: Final = 640
"""Longer side of the copy looked at, pixels; the rows of a page that fills it are some 10 pixels high."""
_HEIGHTS: Final = (4, 28)
"""Pixels a row may be high."""
_ASPECT_MIN: Final = 3.5
"""A row is so many times as long as high, a word or a date at the least."""
_FILLED_MIN: Final = 0.45
"""Share of its box that a row fills; branches and hair fill less."""
_GAP: Final = (11, 3)
"""Pixels between letters that belong to one row, across and down.

What is closed by it leaves at most 59 pieces in a row of `_SIDE` pixels, 37,760 in all: 16 bits label them,
in a third of the time that 32 take.
"""
_STROKE: Final = (9, 5)
"""Pixels of what is dark between brighter surroundings, across and down: strokes of letters, not shadows."""
_FAINT: Final = 12
"""Levels of grey by which print is darker than its paper at the least; below it is texture."""

_BLUR_WIDTH_PX: Final = 1000

_TILE_PX: Final = 64

_BURNT_HSV: Final = ((0, 0, 251), (255, 24, 255))
"""Of burnt pixels, the least and the greatest hue, saturation and value."""


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
    _, _, stats, _ = cv2.connectedComponentsWithStats(joined, ltype=cv2.CV_16U)
    width, height, filled = stats[1:, 2], stats[1:, 3], stats[1:, 4]
    found = (height >= _HEIGHTS[0]) & (height <= _HEIGHTS[1]) & (width >= _ASPECT_MIN * height)
    return int((found & (filled >= _FILLED_MIN * width * height)).sum())


def measure_sharpness(picture: Picture, box: Box | None = None) -> Sharpness:
    """Measure the sharpness of a picture, or of one box of it, scaled to 1000 px on its longer side.

    Burnt pixels are counted in a box only: white paper has as many.

    Raises:
        ImageNotEvaluable: The box lies outside the picture.
    """
    region = picture.pixels if box is None else cut(picture, box)
    scale = _BLUR_WIDTH_PX / max(picture.width, picture.height)
    size = max(8, round(region.shape[1] * scale)), max(8, round(region.shape[0] * scale))
    by = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    grey = cv2.resize(cv2.cvtColor(region, cv2.COLOR_RGB2GRAY), size, interpolation=by)
    glare = 0.0 if box is None else _glare(cv2.resize(region, size, interpolation=by))
    return Sharpness(_blur(grey), cv2.mean(grey)[0], glare)


def _glare(region: NDArray[Any]) -> float:
    burnt = cv2.inRange(cv2.cvtColor(region, cv2.COLOR_RGB2HSV), *_BURNT_HSV)
    return cv2.countNonZero(burnt) / burnt.size


def _blur(grey: NDArray[Any]) -> float:
    """Return the 90th percentile of the tiles' Laplacian variance: one sharp part proves the focus."""
    edges = cv2.Laplacian(grey, cv2.CV_16S)
    rows, columns = (max(1, side // _TILE_PX) for side in edges.shape)
    tiles = [
        cv2.meanStdDev(tile)[1].item() ** 2  # a third of the time of numpy's variance
        for band in np.array_split(edges, rows)
        for tile in np.array_split(band, columns, axis=1)
    ]
    return float(np.percentile(tiles, 90))
