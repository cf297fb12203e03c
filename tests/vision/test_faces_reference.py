import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_engine import DlibEmbedder, load_detector, load_embedder, weights_folder
from streams.vision_ports import Picture
from tests.vision.portraits import astronaut, grace_hopper

REFERENCE = Path(__file__).parent / "reference"
DLIB: dict[str, Any] = json.loads((REFERENCE / "face_reference.json").read_text(encoding="utf-8"))
PHOTOS = {"astronaut": astronaut, "grace_hopper": grace_hopper}


@pytest.fixture(scope="module")
def embedder() -> DlibEmbedder:
    """Loaded where it is used: every process of a test run imports this file."""
    return load_embedder(weights_folder())


@pytest.fixture(scope="module")
def core(embedder: DlibEmbedder) -> FaceCore:
    """Both models."""
    return FaceCore(load_detector(weights_folder()), embedder)


@pytest.mark.parametrize("name", DLIB["embeddings"])
def test_a_chip_has_the_vector_dlib_gives_it(embedder: DlibEmbedder, name: str) -> None:
    chip = np.asarray(Image.open(REFERENCE / f"chip_{name}.png"))

    assert np.abs(embedder.embed_chip(chip) - DLIB["embeddings"][name]).max() < 1e-4


@pytest.mark.parametrize("name", PHOTOS)
def test_a_face_is_where_dlib_finds_it(core: FaceCore, name: str) -> None:
    seen = DLIB["photos"][name]
    (face,) = core.find(PHOTOS[name]())

    side = seen["box"][2] - seen["box"][0]
    assert np.abs(np.subtract(face.box, seen["box"])).max() < 0.15 * side  # a step of the pyramid is 0.2
    assert face.score == pytest.approx(seen["score"], abs=0.1)


@pytest.mark.parametrize("name", PHOTOS)
def test_landmarks_are_within_pixels_of_dlibs(core: FaceCore, name: str) -> None:
    (face,) = core.find(PHOTOS[name]())

    assert np.abs(np.subtract(face.points, DLIB["photos"][name]["points"])).max() < 4


@pytest.mark.parametrize("name", PHOTOS)
def test_a_face_found_and_cut_here_is_dlibs_face(core: FaceCore, name: str) -> None:
    picture: Picture = PHOTOS[name]()
    (face,) = core.find(picture)

    assert np.linalg.norm(core.embed(picture, face) - DLIB["embeddings"][name]) < 0.12
