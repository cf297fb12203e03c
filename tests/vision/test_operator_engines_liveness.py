from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.vision.liveness import (
    MMOD_BOX,
    YUNET_BOX,
    BoxShape,
    CoreLivenessEngine,
    LivenessFiles,
    build_liveness_engine,
)
from app.vision.models import ModelFile, ModelUnusable
from streams.vision_ports import Face, Picture
from tests.vision.onnx_models import embedder, in_half_precision, liveness, write_model

FACE = Face((40.0, 40.0, 80.0, 80.0), 1.0, ())


def files(folder: Path, narrow: Any = None, wide: Any = None) -> LivenessFiles:
    """Both nets written and pinned; sound ones where none is given."""
    return LivenessFiles(
        narrow=write_model(folder, "narrow.onnx", liveness() if narrow is None else narrow),
        wide=write_model(folder, "wide.onnx", liveness() if wide is None else wide),
    )


def built(folder: Path, shape: BoxShape = YUNET_BOX, **nets: Any) -> CoreLivenessEngine:
    """An engine over the nets."""
    engine = build_liveness_engine(files(folder, **nets), shape)
    assert engine is not None
    return engine


def grey(level: int) -> Picture:
    """A picture of one shade."""
    return Picture(np.full((120, 120, 3), level, np.uint8))


def test_without_files_there_is_no_engine() -> None:
    assert build_liveness_engine(None, MMOD_BOX) is None


async def test_a_dark_picture_lives_and_a_bright_one_does_not(tmp_path: Path) -> None:
    engine = built(tmp_path)
    engine.warm()

    assert await engine.score(grey(0), FACE) > engine.pass_at
    assert await engine.score(grey(255), FACE) < engine.fail_at


async def test_the_score_is_the_mean_of_both_nets(tmp_path: Path) -> None:
    engine = built(tmp_path, wide=liveness(weight=0.0))
    live, bright = np.exp(8) / (np.exp(8) + 2), np.exp(8 - 255 / 16) / (np.exp(8 - 255 / 16) + 2)

    assert await engine.score(grey(255), FACE) == pytest.approx((live + bright) / 2, abs=1e-4)


async def test_each_net_sees_its_own_crop(tmp_path: Path) -> None:
    """The narrow net's crop, 108 pixels around the face, is dark; the wide one's has a bright rim."""
    pixels = np.full((400, 400, 3), 255, np.uint8)
    pixels[145:255, 145:255] = 0
    face = replace(FACE, box=(180.0, 180.0, 220.0, 220.0))
    narrow_only = built(tmp_path, wide=liveness(weight=0.0))
    wide_only = built(tmp_path, narrow=liveness(weight=0.0))

    pixels_of = Picture(pixels[100:300, 100:300])
    face = replace(face, box=(75.0, 75.0, 125.0, 125.0))
    assert await narrow_only.score(pixels_of, face) > 0.9
    assert await wide_only.score(pixels_of, face) < 0.7


async def test_a_crop_is_shifted_into_the_picture(tmp_path: Path) -> None:
    corner = replace(FACE, box=(0.0, 0.0, 50.0, 50.0))

    assert await built(tmp_path).score(grey(0), corner) > 0.9


async def test_a_lying_face_is_looked_at_upright(tmp_path: Path) -> None:
    pixels = np.full((100, 300, 3), 255, np.uint8)
    pixels[:, :150] = 0
    dark_at_top = replace(FACE, box=(30.0, 20.0, 70.0, 60.0), turn=90)

    assert await built(tmp_path).score(Picture(pixels), dark_at_top) > 0.9


async def test_a_face_too_small_is_never_living(tmp_path: Path) -> None:
    engine = built(tmp_path)
    small = replace(FACE, box=(50.0, 50.0, 70.0, 70.0))

    assert engine.fail_at <= await engine.score(grey(0), small) < engine.pass_at


async def test_the_box_of_the_default_detector_is_made_taller(tmp_path: Path) -> None:
    """Bright stripes above and below lie in the taller crop only."""
    pixels = np.zeros((500, 500, 3), np.uint8)
    pixels[:175], pixels[325:] = 255, 255
    picture, face = Picture(pixels), replace(FACE, box=(185.0, 185.0, 315.0, 315.0))
    as_found, taller = built(tmp_path), built(tmp_path, shape=MMOD_BOX)

    assert await taller.score(picture, face) < await as_found.score(picture, face)


async def test_the_version_changes_with_either_net(tmp_path: Path) -> None:
    versions = {
        built(tmp_path, **nets).model_version
        for nets in ({}, {"narrow": liveness(weight=2.0)}, {"wide": liveness(weight=2.0)})
    }

    assert len(versions) == 3
    assert all(version.startswith("minifasnet@") and len(version) == 19 for version in versions)


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "half precision": (lambda: in_half_precision(liveness()), "float16"),
    "four classes": (lambda: liveness(classes=4), "4"),
    "weights that are no numbers": (lambda: liveness(weight=float("nan")), "not a number"),
    "an embedder": (embedder, "112"),
    "a file cut short": (lambda: liveness().SerializeToString()[:-30], "onnx"),
}


@pytest.mark.parametrize("net", ["narrow", "wide"])
@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_net_refuses_the_start(tmp_path: Path, net: str, way: str) -> None:
    made, answer = BROKEN[way]

    with pytest.raises(ModelUnusable, match=answer):
        build_liveness_engine(files(tmp_path, **{net: made()}), YUNET_BOX)


def test_thresholds_must_be_in_order() -> None:
    file = ModelFile(path=Path("net.onnx"), sha256="0" * 64)

    with pytest.raises(ValidationError, match="must not exceed"):
        LivenessFiles(narrow=file, wide=file, pass_at=0.3, fail_at=0.4)
