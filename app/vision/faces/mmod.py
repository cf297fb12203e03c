"""The default face detector: dlib's mmod network over a pyramid of the picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

_TRACE: Final = -0.9
"""Where nothing is, windows score about -1.1. A face scores 0.5 and more one level beside its own; of 400
faces blurred, turned, cut or hidden until most were lost, all that scored 0.2 had this beside their own."""

_AROUND: Final = 3
"""Cells around such a window within which a face's window on the next level lies."""

_REACH: Final = 10
"""Cells on each side that a score depends on: six of three layers, and half of the last one's nine."""

_SEEN: Final = 29
"""Pixels that the first three layers see of a picture for one cell, across and down; they pad nothing."""

_IOU_MAX, _COVER_MAX = 0.4, 0.8
"""How much two faces may overlap; written into the weights file."""

_RESTLESS_MIN: Final = 0.015
"""The landmarks of 115 upright portraits all moved less; those of 14 found on their side, 0.025 and more."""

_CANDIDATES_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class _Level:
    """One copy of the picture, with its border."""

    image: Pixels
    ratio: NDArray[np.float64]
    """Its size over the picture's, across and down."""

    @property
    def cells(self) -> NDArray[np.intp]:
        """How many scores the network gives it, across and down."""
        return (np.array(self.image.shape[1::-1]) - _SEEN) // _CELL + 1

    def centres(self, cells: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the places on the picture that cells speak of."""
        places: NDArray[np.float64] = (cells * float(_CELL) + (_FIRST_CENTRE - _BORDER + 0.5)) / self.ratio
        return places

    def around(self, places: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the first and the last cell near places on the picture, across and down."""
        cells = (places * self.ratio - (_FIRST_CENTRE - _BORDER + 0.5)) / _CELL
        first, last = np.floor(cells.min(axis=0)) - _AROUND, np.ceil(cells.max(axis=0)) + _AROUND
        low, high = (np.clip(end, 0, self.cells - 1).astype(np.intp) for end in (first, last))
        return low, high


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows of one level that score more than `_TRACE`, in pixels of the picture."""

    boxes: NDArray[np.float64]
    centres: NDArray[np.float64]
    scores: NDArray[np.float64]


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
        """Return the faces found with the picture's longer side scaled to `side` and less, best first.

        Every second level is searched whole, from the largest on: it alone may show faces that are too small.
        The others are searched where a level beside them shows traces of a face.
        """
        levels = [*_levels(pixels, side, above)]
        found = {place: self._search(levels[place]) for place in range(0, len(levels), 2)}
        for place in range(1, len(levels), 2):
            beside = [found[near].centres for near in (place - 1, place + 1) if near in found]
            if len(traces := np.concatenate(beside)):
                found[place] = self._search(levels[place], levels[place].around(traces))
        boxes = np.concatenate([windows.boxes for windows in found.values()])
        scores = np.concatenate([windows.scores for windows in found.values()])
        best = np.argsort(-scores, kind="stable")[:_CANDIDATES_MAX]
        best = best[scores[best] > self.weakest]
        chosen = best[keep_apart(boxes[best], scores[best], _IOU_MAX, _COVER_MAX)][:FACES_MAX]
        return [self._detection(pixels, boxes[index], float(scores[index])) for index in chosen]

    def _search(
        self, level: _Level, part: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
    ) -> _Windows:
        """Search a level, or only the cells from one to another; their scores are the same either way."""
        low, high = part or (np.zeros(2, np.intp), level.cells - 1)
        first, last = np.maximum(low - _REACH, 0), np.minimum(high + _REACH, level.cells - 1)
        (left, top), (right, bottom) = first * _CELL, last * _CELL + _SEEN
        image = np.ascontiguousarray(level.image[top:bottom, left:right])
        scores = self._network.run(image[None])[0][0, 0].astype(np.float64)
        (column, row), (columns, rows) = low - first, high - first + 1
        scores = scores[row:rows, column:columns]
        down, across = np.nonzero(scores > _TRACE)
        centres = level.centres(np.stack([across, down], axis=1) + low)
        half = WINDOW / 2 / level.ratio
        boxes = np.concatenate([centres - half, centres + half], axis=1)
        return _Windows(boxes, centres, scores[down, across])

    def _detection(self, pixels: Pixels, box: NDArray[np.float64], score: float) -> Detection:
        left, top, right, bottom = (float(edge) for edge in box)
        points, moved = self._landmarks.find(pixels, (left, top, right, bottom))
        return Detection(Face((left, top, right, bottom), score, as_pairs(points)), moved < _RESTLESS_MIN)


def _levels(pixels: Pixels, side: int, above: int) -> Iterator[_Level]:
    """Yield the levels, largest first.

    Levels whose longer side is at most `above` are left out.
    """
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    level = _resized(pixels, width * scale, height * scale, cv2.INTER_AREA)
    while True:
        ratio = np.array([level.shape[1] / width, level.shape[0] / height])
        yield _Level(_bordered(level), ratio)
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
