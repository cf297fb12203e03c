"""The pose of a face: geometry of its landmarks, and frames of moving heads and prints by the real engine."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.vision.faces.dlib_engine import load_core
from app.vision.faces.pose import MIDDLES_OF_EYES, measure_pose, pose_of
from app.vision.measures import measure_sharpness
from schemas.movements import FrameHint, Movement
from streams.sessions.image_rules import FrameSeen, FrameVerdict, Thresholds, judge_frame
from streams.verification.observations import FacesSeen
from streams.verification.policy import FACE_FAIL_AT, FACE_PASS_AT, FaceBands, ImageThresholds, MovementBands
from streams.vision_ports import Embedding, Face, Picture, Pose, Sharpness, Turn
from tests.specimens.moving_head import Head
from tests.vision.portraits import blur, compress

LIMITS = Thresholds(
    MovementBands(), FaceBands(accept_at=FACE_PASS_AT, reject_above=FACE_FAIL_AT), ImageThresholds()
)
FACE = np.array([(60.0, 0.0), (40.0, 2.0), (-62.0, 1.0), (-38.0, 0.0), (4.0, 70.0)])
"""Landmarks in the default engine's order: left eye outer, inner; right eye outer, inner; nose."""

PEOPLE = ("astronaut", "grace hopper")

angles = st.floats(-math.pi, math.pi)
shifts = st.tuples(st.floats(-500, 500), st.floats(-500, 500))
noses = st.tuples(st.floats(-40, 40), st.floats(30, 110))


def pose(points: np.ndarray) -> Pose:
    """The pose of landmarks."""
    return measure_pose([(float(x), float(y)) for x, y in points])


def with_nose(at: tuple[float, float]) -> np.ndarray:
    """The face with its nose elsewhere."""
    return np.vstack([FACE[:4], [at]])


def values(of: Pose) -> tuple[float, ...]:
    """The four numbers of a pose."""
    return of.turn, of.drop, of.right_eye, of.left_eye


@given(noses, angles, st.floats(0.05, 20), shifts)
def test_tilting_scaling_and_shifting_a_picture_changes_no_measure(
    nose: tuple[float, float], angle: float, scale: float, shift: tuple[float, float]
) -> None:
    points = with_nose(nose)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])

    assert values(pose(points @ turn * scale + shift)) == pytest.approx(values(pose(points)), abs=1e-6)


@given(noses)
def test_a_mirror_turns_the_face_the_other_way_and_swaps_the_eyes(nose: tuple[float, float]) -> None:
    points = with_nose(nose)
    mirrored = (points * (-1, 1))[[2, 3, 0, 1, 4]]
    seen, other = pose(points), pose(mirrored)

    assert values(other) == pytest.approx((-seen.turn, seen.drop, seen.left_eye, seen.right_eye))


@given(st.floats(-35, 35), st.floats(0.2, 0.6))
def test_turning_a_head_moves_the_nose_by_its_depth_and_narrows_the_eyes(degrees: float, out: float) -> None:
    angle = math.radians(degrees)
    across = FACE[:, 0] * math.cos(angle)
    across[4] += out * 100 * math.sin(angle)  # the eyes are some 100 apart
    unit = math.cos(angle) * 100

    turned = pose(np.column_stack([across, np.where(FACE[:, 1] > 10, FACE[:, 1], 0)]))

    assert turned.turn == pytest.approx((4 * math.cos(angle) + out * 100 * math.sin(angle)) / unit)
    assert turned.drop == pytest.approx(70 / unit)


def test_landmarks_that_begin_with_the_middles_of_the_eyes_say_the_same_but_for_their_widths() -> None:
    middles = np.array([FACE[2:4].mean(axis=0), FACE[:2].mean(axis=0), FACE[4], (0, 0), (1, 1)])
    seen = measure_pose([(float(x), float(y)) for x, y in middles], MIDDLES_OF_EYES)

    assert values(seen) == pytest.approx((pose(FACE).turn, pose(FACE).drop, 0, 0))


@pytest.mark.parametrize(
    "points",
    [(), ((1.0, 1.0),) * 5, ((math.nan, 0.0),) * 5, tuple((x, -y) for x, y in FACE.tolist())],
    ids=["none", "one place", "no numbers", "a nose above the eyes"],
)
def test_landmarks_of_no_face_have_no_pose(points: tuple[tuple[float, float], ...]) -> None:
    assert pose_of(Face((0.0, 0.0, 1.0, 1.0), 1.0, points), eye_corners=True) is None


STRAIGHT = Pose(0.0, 0.7, 0.4, 0.4)


SHARP = Sharpness(blur=100.0, brightness=120.0, glare=0.0)


def seen(turn: float = 0.0, drop: float = 0.7, score: float = 1.0, distance: float = 0.3) -> FrameSeen:
    """A good frame with a face of a pose; the nearer eye is the wider one."""
    return with_eyes(turn, 0.4 + turn / 4, 0.4 - turn / 4, drop, score, distance)


def with_eyes(
    turn: float, right: float, left: float, drop: float = 0.7, score: float = 1.0, distance: float = 0.3
) -> FrameSeen:
    """A good frame with eyes as wide as given."""
    faces = FacesSeen(1, several_alike=False, width_px=200, quality=SHARP)
    return FrameSeen(faces, 640, score, Pose(turn, drop, right, left), distance)


LEFT, RIGHT, UP = Movement


@pytest.mark.parametrize(
    ("asked", "frame", "hint"),
    [
        (LEFT, seen(0.2), None),
        (LEFT, seen(0.42, 0.87), None),
        (RIGHT, seen(-0.3), None),
        (UP, seen(0.1, 0.6), None),
        (LEFT, seen(0.19), FrameHint.TURN_MORE),
        (LEFT, seen(0.43), FrameHint.TOO_FAR),
        (LEFT, seen(-0.3), FrameHint.OTHER_WAY),
        (RIGHT, seen(0.3), FrameHint.OTHER_WAY),
        (LEFT, seen(0.3, 0.9), FrameHint.LOOK_STRAIGHT),
        (LEFT, with_eyes(0.3, 0.4, 0.4), FrameHint.TRY_AGAIN),
        (RIGHT, with_eyes(-0.3, 0.45, 0.4), FrameHint.TRY_AGAIN),
        (UP, seen(0.3, 0.6), FrameHint.LOOK_STRAIGHT),
        (UP, seen(0.0, 0.7), FrameHint.TURN_MORE),
        (UP, seen(0.0, 0.4), FrameHint.TOO_FAR),
        (UP, seen(0.0, 0.9), FrameHint.OTHER_WAY),
        (LEFT, seen(0.3, score=0.8), FrameHint.TRY_AGAIN),
        (LEFT, seen(0.3, distance=0.51), FrameHint.TRY_AGAIN),
        (LEFT, seen(0.3, distance=math.nan), FrameHint.TRY_AGAIN),
        (LEFT, seen(math.nan), FrameHint.TRY_AGAIN),
    ],
)
def test_a_frame_is_accepted_as_asked_or_says_what_to_do(
    asked: Movement, frame: FrameSeen, hint: FrameHint | None
) -> None:
    assert judge_frame(frame, STRAIGHT, asked, LIMITS).hint == hint


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        (seen(0.3, distance=0.7), True),
        (seen(0.0, distance=0.7), True),
        (seen(-0.3, distance=0.7), False),
        (seen(0.3, distance=0.6), False),
    ],
    ids=["as asked", "straight", "another way", "perhaps the same"],
)
def test_another_person_counts_where_the_face_looks_straight_or_as_asked(
    frame: FrameSeen,
    found: bool,  # noqa: FBT001 - a case of the table
) -> None:
    assert judge_frame(frame, STRAIGHT, LEFT, LIMITS).someone_else is found


@dataclass(frozen=True)
class Seen:
    """What the engine found on a picture."""

    picture: Picture
    face: Face
    vector: Embedding


CORE = cache(load_core)


def look(picture: Picture, turn: Turn | None = None) -> Seen | None:
    """Find the face and its vector; of a frame, at the selfie's turn."""
    found = CORE().find(picture, turn)
    return Seen(picture, found[0], CORE().embed(picture, found[0])) if found else None


@cache
def head(name: str) -> tuple[Head, Seen]:
    """A head, and how its straight face is seen."""
    one = Head(name)
    found = look(one.picture)
    assert found is not None
    return one, found


def hints(picture: Picture, selfie: Seen) -> dict[Movement, FrameHint | None]:
    """What is said of a picture when each movement is asked for."""
    return {asked: verdict.hint for asked, verdict in verdicts(picture, selfie).items()}


def verdicts(picture: Picture, selfie: Seen) -> dict[Movement, FrameVerdict]:
    """Judge a picture with the real engine, seen once."""
    straight = pose_of(selfie.face, eye_corners=True)
    assert straight is not None
    found, faces, frame = look(picture, selfie.face.turn), FacesSeen(0, several_alike=False), None
    if found is not None:
        box = found.face.box
        quality = measure_sharpness(picture, box)
        faces = FacesSeen(1, several_alike=False, width_px=box[2] - box[0], quality=quality)
        distance = CORE().distance(found.vector, selfie.vector)
        frame = FrameSeen(faces, 640, found.face.score, pose_of(found.face, eye_corners=True), distance)
    return {asked: judge_frame(frame or FrameSeen(faces, 640), straight, asked, LIMITS) for asked in Movement}


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize(("asked", "left", "up"), [(LEFT, 27, 0), (RIGHT, -28, 0), (UP, 0, 12)])
def test_a_head_that_moves_as_asked_is_accepted_and_in_no_other_way(
    name: str, asked: Movement, left: float, up: float
) -> None:
    person, selfie = head(name)

    said = hints(person.turned(left, up), selfie)

    assert [movement for movement, hint in said.items() if hint is None] == [asked]


@pytest.mark.parametrize("name", PEOPLE)
def test_a_head_that_looks_straight_or_turns_by_45_degrees_is_not_accepted(name: str) -> None:
    person, selfie = head(name)

    for picture in (person.picture, person.turned(45), person.turned(-45)):
        assert None not in hints(picture, selfie).values()


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("away_cm", [18, 28])
def test_a_flat_print_is_never_accepted_as_turned(name: str, away_cm: float) -> None:
    person, selfie = head(name)

    for degrees in (20, 35, 50, -20, -35, -50):
        said = hints(person.print(degrees, away_cm), selfie)
        assert None not in (said[LEFT], said[RIGHT])


def test_a_print_that_bends_in_the_hand_is_not_accepted_as_turned() -> None:
    person, selfie = head("grace hopper")

    for degrees in (20, 35):
        said = hints(person.print(degrees, 28, radius_cm=30), selfie)
        assert None not in (said[LEFT], said[RIGHT])


def test_another_person_who_moves_as_asked_is_someone_else() -> None:
    other, selfie = head("astronaut")[0], head("grace hopper")[1]

    verdict = verdicts(other.turned(27), selfie)[LEFT]

    assert (verdict.hint, verdict.someone_else) == (FrameHint.TRY_AGAIN, True)


def test_a_frame_of_a_cheap_camera_is_accepted_too() -> None:
    person, selfie = head("astronaut")

    assert hints(compress(blur(person.turned(27), 1.2), 60), selfie)[LEFT] is None
