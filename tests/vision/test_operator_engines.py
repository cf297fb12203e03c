from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.vision import models
from app.vision.faces.engine import CoreFaceEngine, build_face_engine
from app.vision.faces.operator import DetectorFile, EmbedderFile, OperatorFaces
from app.vision.models import ModelFile, ModelUnusable
from schemas.problems import EngineFailed
from streams.vision_ports import Face, Picture
from tests.vision import onnx_models
from tests.vision.onnx_models import (
    detector,
    embedder,
    in_half_precision,
    with_weights_elsewhere,
    write_model,
)

POINTS = ((30.0, 30.0), (60.0, 30.0), (45.0, 45.0), (35.0, 65.0), (55.0, 65.0))
FACE = Face((10.0, 10.0, 80.0, 90.0), 0.9, POINTS)


def files(folder: Path, finder: Any = None, encoder: Any = None, kind: str = "sface") -> OperatorFaces:
    """Both models written and pinned; sound ones where none is given."""
    found = write_model(folder, "detector.onnx", detector() if finder is None else finder)
    encoded = write_model(folder, "embedder.onnx", embedder() if encoder is None else encoder)
    return OperatorFaces.model_validate(
        {
            "detector": found.model_dump(),
            "embedder": encoded.model_dump() | {"kind": kind, "pass_at": 0.5, "fail_at": 0.6},
        }
    )


def built(folder: Path, **made: Any) -> CoreFaceEngine:
    """An engine over the models."""
    return build_face_engine(files(folder, **made))


def painted(colour: tuple[int, int, int], width: int = 128, height: int = 128) -> Picture:
    """A green picture with a 32-pixel square of a colour at (32, 32)."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 1] = 255
    pixels[32:64, 32:64] = colour
    return Picture(pixels)


def mosaic(seed: int) -> Picture:
    """Large tiles of seeded colours."""
    tiles = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), np.uint8)
    return Picture(np.kron(tiles, np.ones((20, 20, 1), np.uint8)))


async def test_a_red_square_is_the_face_this_detector_knows(tmp_path: Path) -> None:
    engine = built(tmp_path)
    engine.warm()
    (face,) = await engine.find(painted((255, 0, 0)))

    assert face.box == pytest.approx((0, 0, 64, 64), abs=0.01)
    assert face.points[2] == pytest.approx((32, 32), abs=0.01)
    assert face.score == pytest.approx(1.0)


async def test_a_large_picture_is_shrunk_and_its_faces_reported_in_its_own_pixels(tmp_path: Path) -> None:
    pixels = np.kron(painted((255, 0, 0)).pixels, np.ones((4, 4, 1), np.uint8))
    (face,) = await built(tmp_path).find(Picture(pixels))

    assert face.box == pytest.approx((0, 0, 256, 256), abs=0.1)


async def test_what_is_not_red_is_no_face(tmp_path: Path) -> None:
    assert await built(tmp_path).find(painted((0, 0, 255))) == ()


@pytest.mark.parametrize("kind", ["sface", "arcface-127.5", "arcface-128"])
async def test_the_same_picture_is_at_no_distance_and_another_one_far(tmp_path: Path, kind: str) -> None:
    engine = built(tmp_path, kind=kind)
    textures = [mosaic(seed) for seed in (1, 1, 2)]
    one, same, other = [await engine.embed(texture, FACE) for texture in textures]

    assert engine.distance(one, same) < 1e-6
    assert engine.distance(one, other) > 0.3


async def test_a_vector_is_of_unit_length(tmp_path: Path) -> None:
    vector = await built(tmp_path).embed(painted((255, 0, 0)), FACE)

    assert np.linalg.norm(vector) == pytest.approx(1.0)


async def test_a_vector_of_nothing_is_a_failure_of_the_engine(tmp_path: Path) -> None:
    engine = built(tmp_path, encoder=embedder(weight=0.0))

    with pytest.raises(EngineFailed, match="zero"):
        await engine.embed(painted((255, 0, 0)), FACE)


async def test_the_version_names_the_embedders_digest(tmp_path: Path) -> None:
    engine = built(tmp_path)

    assert engine.model_version == f"yunet+sface@{files(tmp_path).embedder.sha256[:8]}"
    assert (engine.pass_at, engine.fail_at) == (0.5, 0.6)


BROKEN_EMBEDDERS: dict[str, tuple[Callable[[], Any], str]] = {
    "half precision": (lambda: in_half_precision(embedder()), "float16"),
    "weights that are no numbers": (lambda: embedder(weight=float("nan")), "not a number"),
    "another input size": (lambda: embedder(side=224), "224"),
    "a fixed batch of two": (lambda: embedder(batch=2), "embedder.onnx"),
    "another kind of model": (detector, "128"),
    "weights in another file": (lambda: with_weights_elsewhere(embedder()), "single file"),
    "a file cut short": (lambda: embedder().SerializeToString()[:-500], "embedder.onnx"),
    "a file of something else": (lambda: b"\x89PNG\r\n\x1a\n" * 9, "embedder.onnx"),
    "an empty file": (lambda: b"", "embedder.onnx"),
}


@pytest.mark.parametrize("way", BROKEN_EMBEDDERS)
def test_a_broken_embedder_refuses_the_start(tmp_path: Path, way: str) -> None:
    made, answer = BROKEN_EMBEDDERS[way]

    with pytest.raises(ModelUnusable, match=answer):
        files(tmp_path, encoder=made()).load()


def test_a_batch_of_any_size_is_welcome(tmp_path: Path) -> None:
    files(tmp_path, encoder=embedder(batch="n")).load()


BROKEN_DETECTORS: dict[str, tuple[Callable[[], Any], str]] = {
    "a missing output": (lambda: detector(leave_out="kps_16"), "11 outputs"),
    "half precision": (lambda: in_half_precision(detector()), "half|float16|cls_8"),
    "an embedder": (embedder, "1 outputs"),
}


@pytest.mark.parametrize("way", BROKEN_DETECTORS)
def test_a_broken_detector_refuses_the_start(tmp_path: Path, way: str) -> None:
    made, answer = BROKEN_DETECTORS[way]

    with pytest.raises(ModelUnusable, match=answer):
        files(tmp_path, finder=made()).load()


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    pinned = files(tmp_path)
    pinned.embedder.path.write_bytes(embedder(weight=2.0).SerializeToString())

    with pytest.raises(ModelUnusable, match=f"{pinned.embedder.sha256} is pinned"):
        pinned.load()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    pinned = files(tmp_path)
    pinned.detector.path.unlink()

    with pytest.raises(ModelUnusable, match="No such file"):
        pinned.load()


def test_a_file_too_large_for_a_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(models.MODEL_BYTES_MAX + 1)

    with pytest.raises(ModelUnusable, match="200 MB"):
        ModelFile(path=path, sha256="0" * 64).open()


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, "0" * 63])
def test_a_digest_must_be_whole(sha256: str) -> None:
    with pytest.raises(ValidationError):
        DetectorFile(path=Path("model.onnx"), sha256=sha256)


def test_a_digest_is_mandatory() -> None:
    with pytest.raises(ValidationError, match="sha256"):
        DetectorFile.model_validate({"path": "model.onnx"})


def test_thresholds_must_be_in_order() -> None:
    with pytest.raises(ValidationError, match="must not exceed"):
        EmbedderFile(path=Path("model.onnx"), sha256="0" * 64, kind="sface", pass_at=0.7, fail_at=0.6)


@pytest.mark.parametrize("made", [embedder, detector, onnx_models.liveness])
def test_weights_inside_the_file_are_not_taken_for_weights_elsewhere(
    tmp_path: Path, made: Callable[[], Any]
) -> None:
    write_model(tmp_path, "sound.onnx", made()).open()
