import random
from typing import Final

import numpy as np
import pytest

from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_engine import COPY_AT, load_core
from app.vision.faces.parallax import APART, parallax
from app.vision.images import decode
from streams.vision_ports import Picture, Pixels
from tests.specimens.photographs import DAMAGES, Shot, a_shot, another_photograph, to_jpeg
from tests.vision.portraits import astronaut, grace_hopper

SOME: Final = (
    *("none", "JPEG 15", "scaled by 0.5", "cropped to 60 %", "brighter by 60", "mirrored and blurred"),
    *("printed", "on a screen", "askew by 8 %", "noise 20"),
)
"""Of each kind of damage one; the bench makes them all."""


@pytest.fixture(scope="module")
def core() -> FaceCore:
    """The default engine without a pool."""
    return load_core()


@pytest.fixture(scope="module")
def portrait(core: FaceCore) -> Pixels:
    """The aligned face of a portrait."""
    return chip_of(core, grace_hopper())


def chip_of(core: FaceCore, picture: Picture) -> Pixels:
    """The best face, aligned."""
    return core.chip(picture, core.find(picture)[0])


@pytest.mark.parametrize("damage", SOME)
def test_a_damaged_copy_has_no_parallax(core: FaceCore, portrait: Pixels, damage: str) -> None:
    copy = decode(to_jpeg(DAMAGES[damage](grace_hopper().pixels)))

    assert parallax(portrait, chip_of(core, copy)) < COPY_AT


@pytest.mark.parametrize("seed", range(6))
def test_another_photograph_of_the_same_person_has(core: FaceCore, portrait: Pixels, seed: int) -> None:
    chance, picture = random.Random(seed), grace_hopper()
    taken = another_photograph(picture.pixels, core.find(picture)[0], a_shot(chance), chance)

    assert parallax(portrait, chip_of(core, decode(taken))) > COPY_AT


def test_another_person_has(core: FaceCore, portrait: Pixels) -> None:
    assert parallax(portrait, chip_of(core, astronaut())) > COPY_AT


def test_light_lens_and_noise_alone_make_no_other_photograph(core: FaceCore, portrait: Pixels) -> None:
    """Only the head before the camera does: that is what the measure looks for, and its limit."""
    shot = Shot(0, 0, 2, 12, (0.5, -0.5, 1.0), 0.4, 0.02, 0.9, 0.02, 1.2, 0.05, 1.1, 4, 85)
    chance, picture = random.Random(1), grace_hopper()
    taken = another_photograph(picture.pixels, core.find(picture)[0], shot, chance)

    assert parallax(portrait, chip_of(core, decode(taken))) < COPY_AT


@pytest.mark.parametrize("side", [112, 150, 300])
def test_chips_of_any_size_are_compared(side: int) -> None:
    noise = np.random.default_rng(side).integers(0, 256, (side, side, 3), np.uint8)

    assert parallax(noise, noise) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_what_shows_nothing_is_no_copy(portrait: Pixels, level: int) -> None:
    assert parallax(np.full((150, 150, 3), level, np.uint8), portrait) == APART
