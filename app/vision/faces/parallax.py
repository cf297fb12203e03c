"""Distinguish a copy of a photograph from another photograph of the same face, by parallax of two chips.

A copy, however it was scaled, cropped, lit or printed, is flat: one affine map brings each point of the face
where the other picture has it. Between two photographs the head has moved before the camera, and what stands
nearer, such as the nose, has moved farther than what lies behind it. What is measured is how far the points
lie from where the best affine map puts them. Likeness alone is not enough: two photographs made of one by a
change of pose still correlate by 0.9.
"""

from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from streams.vision_ports import Pixels

SIDE: Final = 150
"""Pixels of the chips compared, and the unit of the parallax: larger or smaller chips are scaled."""
APART: Final = 4.0
"""Stands for any parallax beyond measuring; points tracked farther apart were not found again."""

_DETAIL_PX, _LIGHT_PX, _EVEN_PX = 1.5, 8.0, 9.0
"""Standard deviations of what is averaged away: noise, light, differences of contrast."""
_CONTRAST_MIN: Final = 2.0
"""Levels of grey; flatter places are not amplified."""
_GREY, _GAIN = 128.0, 40.0
_STEP: Final = 8
"""Pixels between the points of the grid."""
_WINDOW: Final = 27
"""Side of what is tracked around a point, pixels: a window of 21 loses blurred and noisy copies."""
_ROUNDS: Final = 6
_TRIMMED: Final = 0.85
"""Share of the points that count: glare and a thumb on the page are no parallax."""
_TERMS: Final = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)
_TRACKING: Final = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 20, 0.01)

Plane = NDArray[np.float32]


def _ellipse() -> NDArray[np.bool_]:
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside: NDArray[np.bool_] = ((columns - 75) / 50.0) ** 2 + ((rows - 78) / 60.0) ** 2 < 1
    return inside


_FACE: Final = _ellipse()
"""Where the face is on a chip; background and collar count for nothing."""
_MASK: Final = _FACE.astype(np.uint8) * 255
_POINTS: Final = np.array(
    [(x, y) for y in range(26, 136, _STEP) for x in range(33, 120, _STEP) if _FACE[y, x]], np.float32
)


def parallax(one: Pixels, other: Pixels) -> float:
    """Return the parallax between two aligned faces in pixels of a chip of 150, 0 to `APART`.

    Mirrored copies are recognised. Two faces that cannot be brought over each other are `APART`.
    """
    first, second = _evened(one), _evened(other)
    mirrored = np.ascontiguousarray(second[:, ::-1])
    if _correlation(first, mirrored) > _correlation(first, second):
        second = mirrored
    try:
        _, matrix = cv2.findTransformECC(
            first, second, np.eye(2, 3, dtype=np.float32), cv2.MOTION_AFFINE, _TERMS, _MASK, 1
        )
    except cv2.error:  # it does not converge
        return APART
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    laid_over = cv2.warpAffine(second, matrix, (SIDE, SIDE), flags=flags)
    tracked, found, _ = cv2.calcOpticalFlowPyrLK(
        _as_grey(first),
        _as_grey(laid_over),
        _POINTS[:, None],
        np.empty_like(_POINTS[:, None]),
        winSize=(_WINDOW, _WINDOW),
        maxLevel=1,
        criteria=_TRACKING,
        minEigThreshold=1e-5,
    )
    return _residual(_POINTS.astype(np.float64), tracked[:, 0].astype(np.float64), found[:, 0] > 0)


def _evened(chip: Pixels) -> Plane:
    """Return the chip's details without light and contrast."""
    if chip.shape[:2] != (SIDE, SIDE):
        chip = np.asarray(cv2.resize(chip, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    grey = cv2.cvtColor(chip, cv2.COLOR_RGB2GRAY).astype(np.float32)
    detail = cv2.GaussianBlur(grey, (0, 0), _DETAIL_PX) - cv2.GaussianBlur(grey, (0, 0), _LIGHT_PX)
    contrast = np.sqrt(cv2.GaussianBlur(detail * detail, (0, 0), _EVEN_PX)) + _CONTRAST_MIN
    return np.asarray(detail / contrast, np.float32)


def _correlation(one: Plane, other: Plane) -> float:
    first, second = one[_FACE] - one[_FACE].mean(), other[_FACE] - other[_FACE].mean()
    length = float(np.sqrt(first @ first * (second @ second)))
    return float(first @ second) / length if length else 0.0


def _as_grey(plane: Any) -> Pixels:
    return np.asarray(np.clip(_GREY + plane * _GAIN, 0, 255), np.uint8)


def _residual(points: NDArray[np.float64], tracked: NDArray[np.float64], found: NDArray[np.bool_]) -> float:
    """Return the distances of the tracked points from a robust affine fit of the grid."""
    if found.sum() < len(points) * _TRIMMED / 2:
        return APART
    rows = np.column_stack([points, np.ones(len(points))])
    weights, far = found.astype(np.float64), np.full(len(points), APART)
    for _ in range(_ROUNDS):
        scaled = np.sqrt(weights)[:, None]
        solved = np.linalg.lstsq(rows * scaled, tracked * scaled, rcond=None)[0]
        far = np.where(found, np.linalg.norm(tracked - rows @ solved, axis=1), APART)
        typical = max(0.25, 1.5 * float(np.median(far)))
        weights = found / (1 + (far / typical) ** 2)
    counted = np.sort(np.minimum(far, APART))[: int(_TRIMMED * len(far))]
    return float(np.sqrt((counted**2).mean()))
