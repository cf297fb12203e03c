from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from app.vision.faces.core import FACES_MAX, Detection, Effort, FaceCore
from app.vision.faces.dlib_engine import DlibEmbedder, load_embedder, weights_folder
from streams.vision_ports import Face, Picture, Pixels, Turn

PICTURE = Picture(np.zeros((100, 200, 3), np.uint8))
EFFORTS = (Effort(480, 0), Effort(960, 0), Effort(480, 90), Effort(960, 90), Effort(1600, 0))


@pytest.fixture(scope="module")
def embedder() -> DlibEmbedder:
    """The real one; a search asks it for nothing."""
    return load_embedder(weights_folder())


class ScriptedDetector:
    """Answers what is written for a side and a turn of the picture, and remembers the sides asked for."""

    efforts: Sequence[Effort] = EFFORTS
    strong = 0.5
    weakest = 0.2

    def __init__(self, script: Mapping[Effort, Sequence[Detection]]) -> None:
        self._script = script
        self.asked: list[Effort] = []
        self.left_out: list[int] = []

    def detect(self, pixels: Pixels, side: int, above: int = 0) -> list[Detection]:
        """Tell the turn by the shape of the picture."""
        effort = Effort(side, 0 if pixels.shape[1] > pixels.shape[0] else 90)
        self.asked.append(effort)
        self.left_out.append(above)
        return list(self._script.get(effort, ()))


def sighting(score: float, *, upright: bool = True, side: float = 10.0) -> Detection:
    """A face of some size at the corner."""
    return Detection(Face((0.0, 0.0, side, side), score, ()), upright)


@pytest.mark.parametrize(
    ("script", "turn", "score"),
    [
        pytest.param({EFFORTS[0]: [sighting(0.6)]}, 0, 0.6, id="a strong upright face ends the search"),
        pytest.param(
            {EFFORTS[0]: [sighting(0.4)], EFFORTS[2]: [sighting(0.9)]},
            90,
            0.9,
            id="a weak one goes on to turns",
        ),
        pytest.param(
            {EFFORTS[0]: [sighting(0.4)], EFFORTS[2]: [sighting(0.3)]},
            0,
            0.4,
            id="of weak ones the better counts",
        ),
        pytest.param(
            {EFFORTS[0]: [sighting(0.9, upright=False)], EFFORTS[2]: [sighting(0.7)]},
            *(90, 0.7),
            id="an upright face beats one that lies",
        ),
        pytest.param(
            {EFFORTS[0]: [sighting(0.7, upright=False)], EFFORTS[2]: [sighting(1.1, upright=False)]},
            *(0, 0.7),
            id="of faces that may lie the first counts",
        ),
        pytest.param({EFFORTS[4]: [sighting(0.8)]}, 0, 0.8, id="the largest copy is the last resort"),
    ],
)
def test_the_search_ends_at_the_right_face(
    embedder: DlibEmbedder, script: Mapping[Effort, Sequence[Detection]], turn: int, score: float
) -> None:
    (face,) = FaceCore(ScriptedDetector(script), embedder).find(PICTURE)

    assert (face.turn, face.score) == (turn, score)


def test_a_larger_copy_is_not_tried_once_something_was_found(embedder: DlibEmbedder) -> None:
    detector = ScriptedDetector({EFFORTS[0]: [sighting(0.4)]})
    FaceCore(detector, embedder).find(PICTURE)

    assert detector.asked == [Effort(480, 0), Effort(480, 90)]


def test_copies_on_which_nothing_was_found_are_not_searched_again_at_their_turn(
    embedder: DlibEmbedder,
) -> None:
    detector = ScriptedDetector({EFFORTS[3]: [sighting(0.3)]})
    FaceCore(detector, embedder).find(PICTURE)

    assert detector.asked == [*EFFORTS[:4]]
    assert detector.left_out == [0, 480, 0, 480]


def test_a_copy_is_searched_whole_where_a_smaller_one_showed_a_face(embedder: DlibEmbedder) -> None:
    script = {EFFORTS[1]: [sighting(0.4)], EFFORTS[2]: [sighting(0.3)]}
    detector = ScriptedDetector(script)
    FaceCore(detector, embedder).find(PICTURE)

    assert dict(zip(detector.asked, detector.left_out, strict=True))[EFFORTS[3]] == 0


@pytest.mark.parametrize(
    ("turn", "side", "asked"),
    [
        (0, 853, [EFFORTS[0], EFFORTS[1]]),
        (0, 1440, [EFFORTS[0], EFFORTS[1], EFFORTS[4]]),
        (90, 853, [*EFFORTS[2:4]]),
    ],
    ids=["upright", "a large picture", "lying"],
)
def test_a_face_is_searched_at_one_turn_on_copies_up_to_the_pictures_own_size(
    embedder: DlibEmbedder, turn: Turn, side: int, asked: list[Effort]
) -> None:
    detector = ScriptedDetector({})

    assert FaceCore(detector, embedder).find(Picture(np.zeros((480, side, 3), np.uint8)), turn) == ()
    assert detector.asked == asked


def test_what_scores_too_little_is_no_face(embedder: DlibEmbedder) -> None:
    assert FaceCore(ScriptedDetector({EFFORTS[0]: [sighting(0.1)]}), embedder).find(PICTURE) == ()


def test_a_small_face_that_scores_hardly_better_comes_second(embedder: DlibEmbedder) -> None:
    seen = [sighting(1.02, side=10.0), sighting(1.0, side=50.0)]
    found = FaceCore(ScriptedDetector({EFFORTS[0]: seen}), embedder).find(PICTURE)

    assert [face.score for face in found] == [1.0, 1.02]


def test_a_large_face_that_scores_much_less_comes_second(embedder: DlibEmbedder) -> None:
    seen = [sighting(1.1, side=10.0), sighting(0.3, side=50.0)]
    found = FaceCore(ScriptedDetector({EFFORTS[0]: seen}), embedder).find(PICTURE)

    assert [face.score for face in found] == [1.1, 0.3]


def test_many_faces_are_cut_to_the_best(embedder: DlibEmbedder) -> None:
    load = [sighting(1.0)] * (FACES_MAX + 5)

    assert len(FaceCore(ScriptedDetector({EFFORTS[0]: load}), embedder).find(PICTURE)) == FACES_MAX
