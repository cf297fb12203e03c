"""The session as the subject's capture page sees it (G36, G76)."""

from typing import Literal

from schemas.base import Frozen, Timestamp
from schemas.enums import CheckKind, FlowType, SessionStatus, TextEnum
from schemas.flows import FlowDocument
from schemas.ids import ChallengeId, SessionId
from schemas.movements import FrameHint, Movement
from schemas.verifications import Reason


class NoticeShown(Frozen):
    """The notice, and since when the person has accepted it."""

    notice_version: str
    text: str
    locale: str
    """The language of the notice, perhaps another one than the page's: it is never machine-translated."""
    accepted_at: Timestamp | None


class CaptureSeen(Frozen):
    """The quality reasons of a captured image."""

    accepted: bool
    """False: better take it again."""
    reasons: tuple[Reason, ...]


class CaptureResult(Frozen):
    """How it ended, in plain words; never why."""

    outcome: Literal["VERIFIED", "IN_REVIEW", "NOT_VERIFIED"]
    message: str


class TenantShown(Frozen):
    """Who sent the person here."""

    name: str


class CaptureStepName(TextEnum):
    """A step of the page, in its order."""

    CONSENT = "CONSENT"
    DOCUMENT = "DOCUMENT"
    NUMBER = "NUMBER"
    """The last four characters of the document's number; sent with the submission."""
    SELFIE = "SELFIE"
    MOVEMENTS = "MOVEMENTS"
    """Movements of the head before the camera, where the flow has LIVENESS."""
    RESULT = "RESULT"


class CaptureStep(Frozen):
    """A step that the session's flow asks for, and whether the server has what it needs of it."""

    step: CaptureStepName
    state: Literal["TODO", "DONE"]


class CaptureLimits(Frozen):
    """How large an image may be, and how the page shrinks it before it is sent."""

    max_bytes: int
    longest_side_px: int
    jpeg_quality: float


class StoredUntil(Frozen):
    """Until when pictures of a kind are stored."""

    what: Literal["DOCUMENT", "FACE"]
    until: Timestamp


class ChallengeDrawn(Frozen):
    """The first of the movements that were drawn; the others follow one by one."""

    challenge_id: ChallengeId
    step: int
    steps: int
    movement: Movement
    expires_at: Timestamp


class FrameJudged(Frozen):
    """What to do after a frame; never whether it shows the same person."""

    accepted: bool
    """The frame shows the movement that was asked for."""
    hint: FrameHint | None
    """What to do instead; null when it was accepted."""
    step: int
    """The step that is asked for now; the last one when all are done."""
    movement: Movement | None
    """The movement of that step; null when all are done."""
    done: bool
    expires_at: Timestamp


class CaptureLink(Frozen):
    """The page's own address, for another device."""

    url: str
    qr_svg: str
    """The address as a QR code."""
    expires_at: Timestamp


class CaptureView(Frozen):
    """The session as the subject's page sees it."""

    session_id: SessionId
    status: SessionStatus
    flow_type: FlowType
    required_checks: tuple[CheckKind, ...]
    documents: tuple[FlowDocument, ...]
    consent: NoticeShown
    document: CaptureSeen | None
    selfie: CaptureSeen | None
    retry_reasons: tuple[Reason, ...]
    """Why the images must be taken again; empty at the first attempt."""
    attempts_left: int
    expires_at: Timestamp
    locale: str
    """The language of the texts in this answer."""
    locales: tuple[str, ...]
    """The languages there are texts in."""
    return_url: str | None
    result: CaptureResult | None
    tenant: TenantShown
    session_locale: str | None
    """The language the tenant asked for."""
    steps: tuple[CaptureStep, ...]
    limits: CaptureLimits
    kept: tuple[StoredUntil, ...]
    """At the end: until when the pictures are stored; empty where no end is set."""
