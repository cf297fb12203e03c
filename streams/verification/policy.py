"""A tenant's verification policy: the required checks and the thresholds."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from schemas.base import Frozen
from schemas.enums import CheckKind
from schemas.reasons import Severity
from schemas.tenant_settings import USUAL_CHECKS, DuplicateFaces, MinimumAge, Retention

PROVIDED: Final = frozenset(
    {
        CheckKind.AUTHENTICITY,
        CheckKind.DOCUMENT_EXTRACTION,
        CheckKind.DOCUMENT_CONSISTENCY,
        CheckKind.FACE_MATCH,
        CheckKind.LIVENESS,
        CheckKind.SANCTIONS,
        CheckKind.PEP,
        CheckKind.ADVERSE_MEDIA,
    }
)
"""The implemented checks. LIVENESS without an engine answers NOT_EVALUATED (G70)."""

_NO_THRESHOLDS: Final = frozenset(
    {
        "revision",
        "required_checks",
        "points",
        "reading_deadline_s",
        "engine_deadline_s",
        "review_due_h",
        "review_due_critical_h",
        "duplicate_faces",
        "faces_kept_days",
    }
)
"""Fields of a policy that are no thresholds, or are published elsewhere."""

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=300)]


SAME_AMONG_MANY: Final = 0.84
"""Share of `accept_at` up to which one face among many counts as the same.

A selfie is compared with one portrait, but with up to 100,000 other faces. In the sets measured for the
default engine different people lie at 0.84 on average and the nearest of 700 pairs at 0.615; a normal
distribution with a deviation of 0.08 is a little wider. It has 1.1e-5 of the pairs within 0.50, which beside
100,000 faces is a false duplicate at every verification, and 7.6e-8 within 0.42: one in 130. For unit vectors
of 128 numbers that have nothing to do with each other the same share of SFace's 0.637 says as much. Real
tails are heavier, of relatives above all, and of the pairs of one person half to three quarters lie within
0.42: many duplicates are found, not all, and a person decides.
"""

FACE_PASS_AT: Final = 0.50

FACE_FAIL_AT: Final = 0.65
"""Euclidean distances of the policy: in the sets measured, all of them small, no two people are closer than
0.615 and a genuine pair lies at 0.613, so between the two a person looks."""

FACE_PASS_MOST: Final = FACE_PASS_AT
"""A deployment may accept less than the default does, never more."""

FACE_FAIL_MOST: Final = 2.0
"""No two faces lie as far apart; from there on nothing is rejected by its distance."""


class FaceBands(Frozen):
    """The two thresholds of one face engine, in its own metric (G14)."""

    accept_at: Annotated[float, Field(ge=0)]
    """Distances up to this one are the same person."""
    reject_above: Annotated[float, Field(ge=0)]
    """Distances above this one are another person; between the two a review is needed."""
    copy_at: Annotated[float, Field(ge=0)] | None = None
    """Parallaxes up to this one are copies of one photograph (R2); None: the engine's own threshold."""
    duplicate_at: Annotated[float, Field(ge=0)] | None = None
    """Distances up to this one to another subject's face are a duplicate; None: `SAME_AMONG_MANY`."""

    @property
    def same_among_many(self) -> float:
        """The distance up to which the nearest of many faces counts as the same."""
        return SAME_AMONG_MANY * self.accept_at if self.duplicate_at is None else self.duplicate_at

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.accept_at > self.reject_above:
            raise ValueError("accept_at must not exceed reject_above")
        if self.same_among_many > self.accept_at:
            raise ValueError("duplicate_at must not exceed accept_at")
        return self


class LivenessBands(Frozen):
    """The two thresholds of one liveness engine; higher scores are livelier."""

    pass_at: Share
    fail_below: Share

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.fail_below > self.pass_at:
            raise ValueError("fail_below must not exceed pass_at")
        return self


class MovementBands(Frozen):
    """Thresholds of the movements of a head, for the landmarks of one face engine (P14).

    A turn is measured in distances of the eyes, against the selfie; a drop is a share of the selfie's.
    """

    straight_up_to: Annotated[float, Field(gt=0)] = 0.12
    """A face that is turned by no more looks straight."""
    turn_from: Annotated[float, Field(gt=0)] = 0.20
    turn_up_to: Annotated[float, Field(gt=0)] = 0.42
    turned_drop_up_to: Annotated[float, Field(gt=0)] = 1.25
    """A flat print that is turned has its eyes closer to each other, and so its nose further below them."""
    up_from: Annotated[float, Field(gt=0)] = 0.86
    """Where a head looks up far enough; less is further."""
    up_down_to: Annotated[float, Field(gt=0)] = 0.62
    score_from: Annotated[float, Field(ge=0)] = 0.9
    """The detector's least score."""
    face_share_from: Share = 0.2
    """The face's width, as a share of the frame's shorter side."""


class SharpnessFloor(Frozen):
    """Sharpness thresholds, in the unit of `streams.vision_ports.Sharpness.blur`."""

    warn_below: Annotated[float, Field(ge=0)]
    review_below: Annotated[float, Field(ge=0)]


class ImageThresholds(Frozen):
    """Thresholds of image quality, measured as each field says."""

    document_blur: SharpnessFloor = SharpnessFloor(warn_below=40, review_below=12)
    """A sharp page measures about 1,200; text still reads at 15 and fails at 1."""
    selfie_blur: SharpnessFloor = SharpnessFloor(warn_below=12, review_below=5)
    """Inside the face box; sharp photographs of people measure 27 to 150."""
    document_dark_below: Annotated[float, Field(ge=0, le=255)] = 40
    selfie_dark_below: Annotated[float, Field(ge=0, le=255)] = 20
    """Low on purpose: the mean inside a face box is lower for dark skin, which is not a dark image."""
    glare_above: Share = 0.3
    """Share of the portrait or the face that is burnt out; white paper counts as glare elsewhere."""
    document_small_below_px: int = 480
    """Shorter side; named only when the document could not be read."""
    selfie_face_small_below_px: int = 60
    """Width of the face box."""
    like_size_from: Share = 0.5
    """A second face counts when its area is at least this share of the best one's."""


class VerificationPolicy(Frozen):
    """The policy of a verification. A policy with an unimplemented check does not load (G6)."""

    revision: Annotated[int, Field(ge=1)] = 1
    required_checks: tuple[CheckKind, ...] = USUAL_CHECKS
    face_bands: Mapping[str, FaceBands] = Field(default_factory=dict)
    """By engine name, the part of its version before `@`; an engine not named brings its own."""
    liveness_bands: Mapping[str, LivenessBands] = Field(default_factory=dict)
    """The same for liveness engines."""
    movement_bands: Mapping[str, MovementBands] = Field(
        default_factory=lambda: {"dlib-resnet-v1+mmod": MovementBands()}
    )
    """By engine name; the landmarks of an engine not named cannot tell movements."""
    images: ImageThresholds = ImageThresholds()
    minimum_age: MinimumAge | None = None
    """A document whose birth date says less is UNDER_AGE (R10). None: any age."""
    duplicate_faces: DuplicateFaces = DuplicateFaces.OFF
    """Whether each face is searched among the tenant's other approved subjects."""
    faces_kept_days: Annotated[int, Field(ge=1)] = Retention().biometric_days
    """Faces of verifications decided longer ago are not searched (R14)."""
    expiring_within_days: Annotated[int, Field(ge=0)] = 30
    """A document that ends within so many days is DOCUMENT_EXPIRING."""
    visual_matches_required: Annotated[int, Field(ge=0)] = 0
    """How many printed fields must confirm a machine-readable zone whose digits hold. By default none:
    a valid zone outranks what text reading finds elsewhere (G68), and only a contradiction counts."""
    points: Mapping[Severity, Annotated[int, Field(ge=0)]] = Field(
        default_factory=lambda: {
            Severity.LOW: 5,
            Severity.MEDIUM: 20,
            Severity.HIGH: 50,
            Severity.CRITICAL: 80,
        }
    )
    """Points of each severity in the risk sum (G16); CRITICAL alone makes the level CRITICAL."""
    reading_deadline_s: Seconds = 45
    """For reading one whole document; vision children are bounded by processor time instead."""
    engine_deadline_s: Seconds = 20
    """For every other engine call, measured in the same way."""
    review_due_h: Annotated[int, Field(ge=1)] = 24
    review_due_critical_h: Annotated[int, Field(ge=1)] = 4
    """When a case is due, by its risk level (G42)."""

    def thresholds(self) -> dict[str, Any]:
        """Return the thresholds as JSON, without those that are not set."""
        return self.model_dump(mode="json", exclude=set(_NO_THRESHOLDS), exclude_none=True)

    @model_validator(mode="after")
    def _loads(self) -> Self:
        if not self.required_checks or len(set(self.required_checks)) != len(self.required_checks):
            raise ValueError("required_checks must name at least one check, each once")
        unprovided = sorted(set(self.required_checks) - PROVIDED)
        if unprovided:
            raise ValueError("no provider is configured for " + ", ".join(unprovided))
        if self.minimum_age is not None and CheckKind.DOCUMENT_CONSISTENCY not in self.required_checks:
            raise ValueError("minimum_age needs the check DOCUMENT_CONSISTENCY, which judges the birth date")
        if set(self.points) != set(Severity):
            raise ValueError("points must be given for every severity")
        return self
