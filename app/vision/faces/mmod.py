"""The default face detector: dlib's mmod network over a pyramid of the picture."""

from collections.abc import Iterator, Sequence
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from app.vision.faces.core import FACES_MAX, Detection, Effort
from app.vision.faces.dlib_graphs import MEAN_RGB
from app.vision.faces.geometry import as_pairs, keep_apart
from app.vision.faces.landmarks import ShapePredictor
from app.vision.models import Network
from streams.vision_ports import Face, Pixels

WINDOW: Final = 80
"""Side of the face the network answers to, pixels; smaller ones need a larger picture."""

_CELL, _FIRST_CENTRE = 8, 14
"""The score at (row, column) speaks of the window centred at 8 * column + 14, 8 * row + 14."""

_BORDER: Final = 12
"""Mean colour around each level, so that faces at the edge still fill a window, pixels."""

_BORDER_RGB: Final = tuple(round(value) for value in MEAN_RGB)

_STEP: Final = 6 / 5
"""From one level of the pyramid to the next; what the network was trained with."""

_LEVEL_MIN: Final = 40
"""A level whose shorter side is less than half a window holds no whole face, pixels."""

_IOU_MAX, _COVER_MAX = 0.4, 0.8
"""How much two faces may overlap; written into the weights file."""

_RESTLESS_MIN: Final = 0.015
"""The landmarks of 115 upright portraits all moved less; those of 14 found on their side, 0.025 and more."""

_CANDIDATES_MAX: Final = 512


class MmodDetector:
    """Finds upright faces with five landmarks; any number of threads may call it at once."""

    efforts: Sequence[Effort] = (
        *(Effort(480, 0), Effort(960, 0)),
        *(Effort(480, 90), Effort(480, 270), Effort(480, 180)),
        *(Effort(960, 90), Effort(960, 270), Effort(960, 180)),
        Effort(1600, 0),
    )
    strong = 0.5
    """Most faces turned by a quarter score less; the others are recognised by their landmarks."""
    weakest = 0.2
    """Portraits score about 1; of the textures tried one QR code scored 0.01 and the others nothing."""

    def __init__(self, network: Network, landmarks: ShapePredictor) -> None:
        self._network = network
        self._landmarks = landmarks

    def detect(self, pixels: Pixels, side: int, above: int = 0) -> list[Detection]:
        """Return the faces found with the picture's longer side scaled to `side` and less, best first."""
        found = [*_levels(pixels, side, above)]
        boxes, scores = (np.concatenate(parts) for parts in zip(*map(self._read, found), strict=True))
        best = np.argsort(-scores, kind="stable")[:_CANDIDATES_MAX]
        chosen = best[keep_apart(boxes[best], scores[best], _IOU_MAX, _COVER_MAX)][:FACES_MAX]
        return [self._detection(pixels, boxes[index], float(scores[index])) for index in chosen]

    def _read(self, level: tuple[Pixels, NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
        """Return boxes in pixels of the picture, and their scores, of one level."""
        image, ratio = level
        scores = self._network.run(image[None])[0][0, 0].astype(np.float64)
        rows, columns = np.nonzero(scores > self.weakest)
        centres = np.stack([columns, rows], axis=1) * float(_CELL) + (_FIRST_CENTRE - _BORDER + 0.5)
        corners = [(centres - WINDOW / 2) / ratio, (centres + WINDOW / 2) / ratio]
        return np.concatenate(corners, axis=1), scores[rows, columns]

    def _detection(self, pixels: Pixels, box: NDArray[np.float64], score: float) -> Detection:
        left, top, right, bottom = (float(edge) for edge in box)
        points, moved = self._landmarks.find(pixels, (left, top, right, bottom))
        return Detection(Face((left, top, right, bottom), score, as_pairs(points)), moved < _RESTLESS_MIN)


def _levels(pixels: Pixels, side: int, above: int) -> Iterator[tuple[Pixels, NDArray[np.float64]]]:
    """Yield the bordered levels, largest first, each with its size over the picture's (across, down).

    Levels whose longer side is at most `above` are left out.
    """
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    level = _resized(pixels, width * scale, height * scale, cv2.INTER_AREA)
    while True:
        ratio = np.array([level.shape[1] / width, level.shape[0] / height])
        yield _bordered(level), ratio
        scale /= _STEP
        if min(height, width) * scale < _LEVEL_MIN or max(height, width) * scale <= above:
            return
        level = _resized(level, width * scale, height * scale, cv2.INTER_LINEAR)


def _bordered(level: Pixels) -> Pixels:
    border = cv2.copyMakeBorder(
        level, _BORDER, _BORDER, _BORDER, _BORDER, cv2.BORDER_CONSTANT, value=_BORDER_RGB
    )
    return np.asarray(border, np.uint8)


def _resized(pixels: Pixels, width: float, height: float, way: int) -> Pixels:
    """Return the picture in another size; area averaging falls back to bilinear where it would enlarge."""
    size = max(round(width), 1), max(round(height), 1)
    return np.asarray(cv2.resize(pixels, size, interpolation=way), np.uint8)
