from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast, get_args

import numpy as np
import pytest
import pytest_asyncio

from app.vision.engines import EngineChoice, open_engines
from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_engine import load_core, load_detector, weights_folder
from schemas.problems import EngineFailed
from streams.verification.engines import Engines, measure_faces
from streams.vision_ports import Embedding, Face, FaceEngine, MeasuredFaces, Picture, Turn
from tests.vision import portraits
from tests.vision.portraits import astronaut, grace_hopper

TURNS: tuple[Turn, ...] = get_args(Turn)


@pytest.fixture(scope="module")
def core() -> FaceCore:
    """The default engine without a pool."""
    return load_core()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engines() -> AsyncIterator[Engines]:
    """The default engines as the service runs them."""
    async with open_engines(EngineChoice(workers=1, waiting=4)) as opened:
        yield opened


@pytest.fixture
def engine(engines: Engines) -> FaceEngine:
    """The default face engine as the service runs it."""
    return engines.faces


def vector(core: FaceCore, picture: Picture) -> Embedding:
    """The vector of the best face."""
    return core.embed(picture, core.find(picture)[0])


SPOILED = {
    "blurred": lambda: portraits.blur(astronaut(), 2.5),
    "compressed": lambda: portraits.compress(astronaut(), 15),
    "tilted": lambda: portraits.tilt(astronaut(), 12),
    "small": lambda: portraits.scale(astronaut(), 0.5),
    "large": lambda: portraits.scale(astronaut(), 3.0),
    "on a page": lambda: portraits.on_page(astronaut(), 420, (90, 240), (1250, 880)),
}


@pytest.mark.parametrize("way", SPOILED)
def test_a_person_stays_the_same_person_on_a_spoiled_picture(core: FaceCore, way: str) -> None:
    assert core.distance(vector(core, astronaut()), vector(core, SPOILED[way]())) < 0.5


def test_another_person_is_far(core: FaceCore) -> None:
    assert core.distance(vector(core, astronaut()), vector(core, grace_hopper())) > 0.6


def test_a_face_is_at_no_distance_from_itself(core: FaceCore) -> None:
    one = vector(core, astronaut())

    assert core.distance(one, one) == 0.0


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("portrait", [astronaut, grace_hopper])
def test_a_lying_picture_is_turned_upright(core: FaceCore, portrait: type, turn: Turn) -> None:
    best = core.find(portraits.turn(portrait(), turn))[0]

    assert best.turn == (360 - turn) % 360


def test_a_lying_picture_has_the_vector_of_the_upright_one(core: FaceCore) -> None:
    lying = vector(core, portraits.turn(astronaut(), 90))

    assert core.distance(vector(core, astronaut()), lying) < 1e-6


@pytest.mark.parametrize(
    "picture",
    [
        pytest.param(Picture(np.full((300, 400, 3), 128, np.uint8)), id="grey"),
        pytest.param(Picture(np.random.default_rng(7).integers(0, 256, (300, 300, 3), np.uint8)), id="noise"),
        pytest.param(Picture(np.zeros((200, 8000, 3), np.uint8)), id="a strip"),
    ],
)
def test_where_there_is_no_face_none_is_found(core: FaceCore, picture: Picture) -> None:
    assert core.find(picture) == ()


def test_two_people_are_two_faces(core: FaceCore) -> None:
    near = portraits.scale(Picture(astronaut().pixels[40:260, 100:320]), 2.0)
    found = core.find(portraits.beside(near, grace_hopper()))

    assert len(found) == 2


@pytest.mark.parametrize("picture", [astronaut, grace_hopper])
def test_a_copy_searched_in_part_shows_what_one_searched_whole_shows(
    picture: Callable[[], Picture],
) -> None:
    """With one more copy on top, those searched whole are the others."""
    detector, pixels = load_detector(weights_folder()), picture().pixels
    (one,), (other,) = detector.detect(pixels, 480), detector.detect(pixels, 480 * 6 // 5)

    side = one.face.box[2] - one.face.box[0]
    assert other.face.box == pytest.approx(one.face.box, abs=0.03 * side)
    assert other.face.score == pytest.approx(one.face.score, abs=0.02)


@pytest.mark.parametrize("share", [0.75, 0.82, 0.9])
def test_two_faces_of_like_size_are_both_found(core: FaceCore, share: float) -> None:
    found = core.find(portraits.beside(grace_hopper(), portraits.scale(grace_hopper(), share)))

    assert len(found) == 2


def test_of_faces_that_score_alike_the_larger_comes_first(core: FaceCore) -> None:
    small, large = portraits.scale(grace_hopper(), 0.6), grace_hopper()

    first, second = core.find(portraits.beside(small, large))
    assert second.box[2] < small.width < first.box[0]


def test_a_portrait_too_small_for_the_first_look_is_found_on_a_larger_copy(core: FaceCore) -> None:
    page = portraits.on_page(grace_hopper(), 300, (900, 500), (1800, 1200))

    (face,) = core.find(page)
    assert 900 < face.box[0] < face.box[2] < 1200


def test_threads_find_what_one_thread_finds(core: FaceCore) -> None:
    pictures = [
        astronaut(),
        grace_hopper(),
        portraits.blur(astronaut(), 1.5),
        portraits.tilt(grace_hopper(), 8),
    ]

    def answer(picture: Picture) -> tuple[tuple[Face, ...], bytes]:
        return core.find(picture), vector(core, picture).tobytes()

    alone = [answer(picture) for picture in pictures * 2]
    with ThreadPoolExecutor(4) as threads:
        parallel = list(threads.map(answer, pictures * 2))

    assert parallel == alone


def test_a_face_at_the_edge_can_be_embedded(core: FaceCore) -> None:
    cut = Picture(np.ascontiguousarray(astronaut().pixels[60:200, 150:280]))

    assert np.isfinite(vector(core, cut)).all()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_engine_finds_and_compares_in_the_pool(engine: FaceEngine) -> None:
    one, other = astronaut(), portraits.blur(astronaut(), 1.0)
    vectors = [await engine.embed(picture, (await engine.find(picture))[0]) for picture in (one, other)]

    assert engine.distance(*vectors) < engine.pass_at


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("turn", [None, 90, 270])
async def test_one_exchange_measures_what_its_steps_measure(engines: Engines, turn: Turn | None) -> None:
    lying = Picture(np.rot90(astronaut().pixels))
    at_once = await engines.measure_faces(engines.faces, engines.decoder, lying, turn)
    step_by_step = await measure_faces(engines.faces, engines.decoder, lying, turn)

    assert (at_once.faces, at_once.sharpness) == (step_by_step.faces, step_by_step.sharpness)
    assert bool(at_once.faces) == (turn != 270)
    assert np.array_equal(at_once.embedding, step_by_step.embedding)  # type: ignore[arg-type]  # or both None


@pytest.mark.asyncio(loop_scope="module")
async def test_a_picture_without_a_face_has_nothing_measured(engines: Engines) -> None:
    grey = Picture(np.full((300, 300, 3), 128, np.uint8))

    assert await engines.measure_faces(engines.faces, engines.decoder, grey, None) == MeasuredFaces(())


@pytest.mark.asyncio(loop_scope="module")
async def test_the_engine_tells_a_copy_in_the_pool(engine: FaceEngine) -> None:
    one, other = astronaut(), portraits.scale(portraits.blur(astronaut(), 1.0), 1.4)
    faces = [(await engine.find(picture))[0] for picture in (one, other)]

    assert await engine.parallax(one, faces[0], other, faces[1]) < engine.copy_at
    with pytest.raises(EngineFailed):
        await engine.parallax(one, faces[0], other, Face((0.0, 0.0, 10.0, 10.0), 1.0, ()))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_engine_says_which_weights_its_thresholds_belong_to(engine: FaceEngine) -> None:
    result = (engine.model_version, engine.pass_at, engine.fail_at, engine.copy_at)

    assert result == ("dlib-resnet-v1+mmod@55533b28", 0.50, 0.65, 0.45)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_face_without_landmarks_is_a_failure_of_the_engine(engine: FaceEngine) -> None:
    pointless = Face((0.0, 0.0, 10.0, 10.0), 1.0, cast("tuple[tuple[float, float], ...]", ()))

    with pytest.raises(EngineFailed):
        await engine.embed(astronaut(), pointless)
