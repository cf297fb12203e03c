"""The session as the subject's capture page sees it (G36, G76)."""

from typing import Literal

from schemas.base import Frozen, Timestamp
from schemas.enums import (
    CheckKind,
    FlowType,
    SessionStatus,
)
from schemas.flows import FlowDocument
from schemas.ids import (
    SessionId,
)
from schemas.verifications import Reason


class NoticeShown(Frozen):
    """The notice, and since when the person has accepted it."""

    notice_version: str
    text: str
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
