"""An operator's YuNet face detector, by the layout of OpenCV Zoo's face_detection_yunet_2023mar."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from app.vision.faces.core import FACES_MAX, Detection, Effort
from app.vision.faces.geometry import Points, as_pairs, keep_apart
from app.vision.models import CHANNELS, Floats, ModelUnusable, Network, Shape
from streams.vision_ports import Face, Pixels

_STRIDES: Final = (8, 16, 32)
_PARTS: Final = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
"""Outputs for each stride and their sizes: face or not, object or not, box, five landmarks."""

_SIDE: Final = 640
"""What a net of any size is fed, pixels."""

_SIDE_MAX: Final = 2048

_IOU_MAX: Final = 0.3
"""How much two faces may overlap, as in OpenCV Zoo's demonstration."""

_LOG_SIZE_MAX: Final = 8.0
"""A box of e^8 cells is larger than any picture; more would overflow."""

_CANDIDATES_MAX: Final = 512


class YunetDetector:
    """Finds faces of about 10 to 300 pixels of the net's input, lying ones too.

    Landmarks: the subject's right eye, left eye, nose, right and left corner of the mouth.
    """

    def __init__(self, network: Network, min_score: float) -> None:
        """Check the network against the contract.

        Raises:
            ModelUnusable: It is no YuNet.
        """
        self.strong = self.weakest = min_score
        self._network = network
        declared = network.input_shape()
        network.require({None: (None, CHANNELS, None, None)}, _outputs(None, None))
        self._rows, self._columns = (_SIDE if axis is None else axis for axis in declared[2:])
        for axis in (self._rows, self._columns):
            if axis % _STRIDES[-1] or not 0 < axis <= _SIDE_MAX:
                raise ModelUnusable(f"{network.name}: input {axis} is no multiple of 32 up to {_SIDE_MAX}")
        blank = np.zeros((1, CHANNELS, self._rows, self._columns), np.float32)
        network.probe(blank, _outputs(self._rows, self._columns))
        side = max(self._rows, self._columns)
        self.efforts: Sequence[Effort] = (
            Effort(side, 0),
            Effort(side, 90),
            Effort(side, 270),
            Effort(side, 180),
        )

    def detect(self, pixels: Pixels, side: int, above: int = 0) -> list[Detection]:
        """Return the detected faces, best first; the net has one input size, so `side` is ignored."""
        del side, above
        height, width = pixels.shape[:2]
        scale = min(self._rows / height, self._columns / width, 1.0)
        names = [f"{part}_{stride}" for part in _PARTS for stride in _STRIDES]
        named = dict(zip(names, self._network.run(self._fed(pixels, scale), names), strict=True))
        strides = [*self._decoded(named)]
        scores, boxes, points = (np.concatenate(parts) for parts in zip(*strides, strict=True))
        likely = np.argsort(-scores, kind="stable")[:_CANDIDATES_MAX]
        likely = likely[scores[likely] >= self.weakest]
        chosen = likely[keep_apart(boxes[likely], scores[likely], _IOU_MAX, math.inf)][:FACES_MAX]
        return [_detection(boxes[i] / scale, points[i] / scale, float(scores[i])) for i in chosen]

    def _fed(self, pixels: Pixels, scale: float) -> Floats:
        """Return the picture in the net's size, at the top left of black, as BGR from 0 to 255."""
        height, width = pixels.shape[:2]
        size = min(round(width * scale), self._columns), min(round(height * scale), self._rows)
        small = cv2.resize(pixels, (max(size[0], 1), max(size[1], 1)), interpolation=cv2.INTER_AREA)
        fed = np.zeros((1, CHANNELS, self._rows, self._columns), np.float32)
        fed[0, :, : small.shape[0], : small.shape[1]] = small[..., ::-1].transpose(2, 0, 1)
        return fed

    def _decoded(self, named: dict[str, Floats]) -> Iterator[tuple[NDArray[np.float64], ...]]:
        """Yield scores, boxes and landmarks of one stride in pixels of the net's input."""
        for stride in _STRIDES:
            parts = {part: named[f"{part}_{stride}"][0].astype(np.float64) for part in _PARTS}
            rows, columns = np.mgrid[: self._rows // stride, : self._columns // stride]
            cells = np.stack([columns.ravel(), rows.ravel()], axis=1).astype(np.float64)
            score = np.sqrt(np.clip(parts["cls"], 0, 1) * np.clip(parts["obj"], 0, 1))[:, 0]
            centre = (cells + parts["bbox"][:, :2]) * stride
            half = np.exp(np.minimum(parts["bbox"][:, 2:], _LOG_SIZE_MAX)) * stride / 2
            points = (parts["kps"].reshape(-1, 5, 2) + cells[:, None]) * stride
            yield score, np.concatenate([centre - half, centre + half], axis=1), points


def _detection(box: NDArray[np.float64], points: Points, score: float) -> Detection:
    left, top, right, bottom = (float(edge) for edge in box)
    eyes, mouth = points[:2].mean(axis=0), points[3:].mean(axis=0)
    lean = math.degrees(math.atan2(mouth[0] - eyes[0], mouth[1] - eyes[1]))
    face = Face((left, top, right, bottom), score, as_pairs(points))
    return Detection(face, upright=abs(lean) <= 45)  # noqa: PLR2004 - nearer to this turn than to the next


def _outputs(rows: int | None, columns: int | None) -> dict[str | None, Shape]:
    """Return the outputs the contract names, with their shapes for an input of the given size."""
    shapes: dict[str | None, Shape] = {}
    for part, size in _PARTS.items():
        for stride in _STRIDES:
            cells = None if rows is None or columns is None else (rows // stride) * (columns // stride)
            shapes[f"{part}_{stride}"] = (1, cells, size)
    return shapes
