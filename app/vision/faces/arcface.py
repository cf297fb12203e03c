"""An operator's face embedder of the ArcFace family: 112 x 112 pixels in, out a vector."""

from typing import Final, Literal

import numpy as np

from app.vision.faces.geometry import as_points, cut_chip
from app.vision.jobs import Metric
from app.vision.models import CHANNELS, Floats, ModelUnusable, Network
from schemas.problems import EngineFailed
from streams.vision_ports import Embedding, Face, Pixels

EmbedderKind = Literal["sface", "arcface-127.5", "arcface-128"]
"""How pixels are fed: SFace takes 0-255; the others take (x - 127.5) over 127.5 or 128. All take RGB."""

_SCALING: Final[dict[EmbedderKind, tuple[float, float]]] = {
    "sface": (0.0, 1.0),
    "arcface-127.5": (127.5, 127.5),
    "arcface-128": (127.5, 128.0),
}

CHIP_SIDE: Final = 112
"""Side of the aligned face, pixels."""

_TEMPLATE: Final = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
"""Where eyes, nose and corners of the mouth lie on the chip, in YuNet's order."""

_SIZE_MAX: Final = 4096


class ArcfaceEmbedder:
    """A vector of unit length a face; the distance is one minus the cosine, 0-2."""

    def __init__(self, network: Network, kind: EmbedderKind) -> None:
        """Check the network against the contract.

        Raises:
            ModelUnusable: It is no embedder of this family.
        """
        self._network = network
        self._offset, self._range = _SCALING[kind]
        network.require({None: (None, CHANNELS, CHIP_SIDE, CHIP_SIDE)}, {None: (None, None)})
        blank = np.zeros((CHIP_SIDE, CHIP_SIDE, CHANNELS), np.uint8)
        network.probe(self._fed(blank), {None: (1, None)})
        size = network.run(self._fed(blank))[0].size
        if not 1 < size <= _SIZE_MAX:
            raise ModelUnusable(f"{network.name}: answers {size} numbers a face; use an embedder")

    def embed(self, pixels: Pixels, face: Face) -> Embedding:
        """Align the face by its landmarks and return its vector, of unit length."""
        vector = self._network.run(self._fed(self.chip(pixels, face)))[0][0].astype(np.float64)
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            raise EngineFailed(f"{self._network.name}: the answer is zero")
        unit: Embedding = (vector / length).astype(np.float32)
        return unit

    def chip(self, pixels: Pixels, face: Face) -> Pixels:
        """Return the face, aligned by its landmarks, 112 x 112 pixels."""
        return cut_chip(pixels, as_points(face.points), _TEMPLATE, CHIP_SIDE)

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return one minus the cosine of the angle between the vectors, never below 0."""
        return Metric.COSINE.distance(one, other)

    def _fed(self, chip: Pixels) -> Floats:
        scaled = (chip.astype(np.float32) - self._offset) / self._range
        return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)
