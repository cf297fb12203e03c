"""Geometry of faces: quarter turns, similarities, aligned chips and overlapping boxes."""

import math
from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from streams.vision_ports import Box, Pixels, Turn

Points = NDArray[np.float64]
"""Points as rows of x and y."""

_ROTATIONS: Final = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}

_SHRINK_MAX: Final = 2.0
"""A bilinear warp that shrinks by more skips pixels; the picture is averaged down first."""


def turned(pixels: Pixels, turn: Turn) -> Pixels:
    """Return the picture turned clockwise by quarter turns."""
    if turn == 0:
        return np.ascontiguousarray(pixels)
    return np.asarray(cv2.rotate(pixels, _ROTATIONS[turn]), np.uint8)


def similarity(source: Points, target: Points) -> NDArray[np.float64]:
    """Return the 2 x 3 matrix of the turn, scale and shift that bring the source nearest to the target."""
    from_ = source[:, 0] + 1j * source[:, 1]
    to = target[:, 0] + 1j * target[:, 1]
    centred = from_ - from_.mean()
    factor = np.vdot(centred, to - to.mean()) / np.vdot(centred, centred).real
    shift = to.mean() - factor * from_.mean()
    return np.array([[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]])


def cut_chip(pixels: Pixels, points: Points, template: Points, side: int) -> Pixels:
    """Return the aligned square of the given side, whose points match the template's.

    What lies outside the picture is black.
    """
    to_picture = similarity(template, points)
    shrink = math.hypot(to_picture[0, 0], to_picture[1, 0])
    if shrink > _SHRINK_MAX:
        pixels, to_picture = _averaged(pixels, to_picture, side, shrink)
    chip = cv2.warpAffine(pixels, to_picture, (side, side), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    return np.asarray(chip, np.uint8)


def _averaged(
    pixels: Pixels, to_picture: NDArray[np.float64], side: int, shrink: float
) -> tuple[Pixels, NDArray[np.float64]]:
    """Downscale the part of the picture under the chip, and return it with its own matrix."""
    corners = np.array([[0, 0, 1], [side, 0, 1], [0, side, 1], [side, side, 1]]) @ to_picture.T
    height, width = pixels.shape[:2]
    left, top = (max(int(low), 0) for low in corners.min(axis=0) - 1)
    right, bottom = (int(high) for high in np.minimum(corners.max(axis=0) + 2, (width, height)))
    if right - left < shrink or bottom - top < shrink:
        return pixels, to_picture
    part = pixels[top:bottom, left:right]
    columns, rows = round((right - left) / shrink), round((bottom - top) / shrink)
    small = np.asarray(cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)
    ratio = np.array([columns / (right - left), rows / (bottom - top)])
    matrix = to_picture * ratio[:, None]
    matrix[:, 2] = (to_picture[:, 2] - (left, top) + 0.5) * ratio - 0.5
    return small, matrix


def keep_apart(
    boxes: NDArray[np.float64], scores: NDArray[np.float64], iou: float, cover: float
) -> list[int]:
    """Return the indices of the boxes, best first, that overlap no better one too much.

    Too much is an intersection over union above `iou`, or one of the two covered by more than `cover`.
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        others = boxes[chosen]
        low, high = np.maximum(others[:, :2], boxes[index, :2]), np.minimum(others[:, 2:], boxes[index, 2:])
        common = np.clip(high - low, 0, None).prod(axis=1)
        union = areas[chosen] + areas[index] - common
        covered = common / np.minimum(areas[chosen], areas[index])
        if not ((common > iou * union) | (covered > cover)).any():
            chosen.append(int(index))
    return chosen


def area(box: Box) -> float:
    """Return the area of a box in pixels."""
    left, top, right, bottom = box
    return (right - left) * (bottom - top)


def as_points(points: Sequence[tuple[float, float]]) -> Points:
    """Return a face's landmarks as rows."""
    return np.array(points, np.float64)


def as_pairs(points: Points) -> tuple[tuple[float, float], ...]:
    """Return rows of x and y as a face carries them."""
    return tuple((float(x), float(y)) for x, y in points)
