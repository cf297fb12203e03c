"""Judge captured images: a still one by its pixels, a frame of a movement by what was measured (P13-P15)."""

import math
from dataclasses import dataclass, replace

from schemas.enums import EvidenceKind, ExtractionStatus
from schemas.movements import FrameHint, Movement
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCategory, ReasonCode
from streams.verification.observations import DocumentFindings, DocumentPicture, FacesSeen
from streams.verification.policy import FaceBands, ImageThresholds, MovementBands
from streams.verification.rules import Match, match
from streams.verification.sandbox import Scenario
from streams.verification.verdicts import document_image_findings, selfie_image_findings
from streams.vision_ports import Pose, Sharpness


def said_at_once(
    what: EvidenceKind, whole: Sharpness, shorter_side_px: int, limits: ImageThresholds
) -> tuple[ReasonCode, ...]:
    """Return the quality reasons of an image, by the thresholds of the evaluation.

    Faces are not searched here, so glare, which counts inside a face only, is left to the evaluation.
    """
    if what is EvidenceKind.SELFIE:
        face = FacesSeen(1, several_alike=False, width_px=math.inf, quality=replace(whole, glare=0.0))
        findings = selfie_image_findings(limits, face)
    else:
        unread = DocumentFindings(ExtractionStatus.EXTRACTED)
        findings = document_image_findings(limits, unread, DocumentPicture(whole, None, shorter_side_px))
    return tuple(dict.fromkeys(code for code, _ in findings))


def said_of_scenario(scenario: Scenario) -> tuple[ReasonCode, ...]:
    """Return the reason of a sandbox subject's scenario, if it is about images."""
    reason = scenario.reason
    about_image = reason is not None and CATALOGUE[reason].category is ReasonCategory.IMAGE
    return (reason,) if reason is not None and about_image else ()


@dataclass(frozen=True, slots=True)
class FrameSeen:
    """What the engines saw on a frame."""

    seen: FacesSeen
    shorter_side_px: int
    score: float = 0.0
    """The detector's, of the best face."""
    pose: Pose | None = None
    distance: float = float("nan")
    """Of the best face from the selfie's; NaN: not known."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What frames are judged by."""

    movement: MovementBands
    faces: FaceBands
    images: ImageThresholds


@dataclass(frozen=True, slots=True)
class FrameVerdict:
    """The verdict on a frame."""

    hint: FrameHint | None
    """None: the frame shows the movement."""
    someone_else: bool = False
    turn: float = 0.0
    """Against the selfie."""
    drop: float = 0.0
    """As a share of the selfie's."""


def judge_frame(frame: FrameSeen, selfie: Pose, asked: Movement, limits: Thresholds) -> FrameVerdict:
    """Return whether a frame shows the selfie's person making the movement, or what to do instead.

    Whether it is another person counts only where the face looks straight or as asked for: elsewhere one
    person's distances are larger.
    """
    hint = _of_picture(frame, limits)
    if hint is not None or frame.pose is None:
        return FrameVerdict(hint or FrameHint.NO_FACE)
    turn, drop = frame.pose.turn - selfie.turn, frame.pose.drop / selfie.drop
    hint = hint_of_pose(turn, drop, frame.pose, asked, limits.movement)
    found = match(frame.distance, limits.faces)
    straight = is_straight(turn, limits.movement) and looks_ahead(drop, limits.movement)
    someone_else = frame.distance > limits.faces.reject_above and (hint is None or straight)
    if hint is None and found is not Match.SAME:
        hint = FrameHint.TRY_AGAIN
    return FrameVerdict(hint, someone_else, turn, drop)


def is_straight(turn: float, bands: MovementBands) -> bool:
    """Return whether a face looks neither left nor right."""
    return abs(turn) <= bands.straight_up_to


def looks_ahead(drop: float, bands: MovementBands) -> bool:
    """Return whether a face looks neither up nor down."""
    return bands.up_from < drop <= 1 / bands.up_from


def _of_picture(frame: FrameSeen, limits: Thresholds) -> FrameHint | None:
    """Return what is wrong with the picture itself."""
    seen, images, quality = frame.seen, limits.images, frame.seen.quality
    if seen.count == 0 or quality is None:
        return FrameHint.NO_FACE
    if seen.several_alike:
        return FrameHint.SEVERAL_FACES
    if seen.width_px < limits.movement.face_share_from * frame.shorter_side_px:
        return FrameHint.COME_CLOSER
    if quality.brightness < images.selfie_dark_below:
        return FrameHint.MORE_LIGHT
    if quality.blur < images.selfie_blur.review_below:
        return FrameHint.HOLD_STILL
    return None if frame.score >= limits.movement.score_from else FrameHint.TRY_AGAIN


def hint_of_pose(
    turn: float, drop: float, pose: Pose, asked: Movement, bands: MovementBands
) -> FrameHint | None:
    """Return what to do to make the movement; None when the pose shows it."""
    if asked is Movement.UP:
        return _hint_of_up(turn, drop, bands)
    towards = turn if asked is Movement.LEFT else -turn
    if towards < -bands.straight_up_to:
        return FrameHint.OTHER_WAY
    if towards < bands.turn_from:
        return FrameHint.TURN_MORE
    if towards > bands.turn_up_to:
        return FrameHint.TOO_FAR
    if not drop <= bands.turned_drop_up_to:
        return FrameHint.LOOK_STRAIGHT
    near, far = pose.right_eye, pose.left_eye
    if asked is Movement.RIGHT:
        near, far = far, near
    return None if near > far or near == far == 0 else FrameHint.TRY_AGAIN


def _hint_of_up(turn: float, drop: float, bands: MovementBands) -> FrameHint | None:
    if not is_straight(turn, bands):
        return FrameHint.LOOK_STRAIGHT
    if drop < bands.up_down_to:
        return FrameHint.TOO_FAR
    if drop > 1 / bands.up_from:
        return FrameHint.OTHER_WAY
    return None if drop <= bands.up_from else FrameHint.TURN_MORE
