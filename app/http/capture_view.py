"""Present a session to the subject's page: steps, texts in its language, result (G76, P5, P6); pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from app.intake.images import MAX_IMAGE_BYTES
from app.web.site import CODES, languages
from schemas.captures import (
    CaptureLimits,
    CaptureResult,
    CaptureSeen,
    CaptureStep,
    CaptureStepName,
    CaptureView,
    NoticeShown,
    StoredUntil,
    TenantShown,
)
from schemas.enums import EvidenceKind, SessionStatus
from schemas.reasons import ReasonCode
from schemas.sessions import Captured, StoredSession
from schemas.tenant_settings import Retention
from schemas.verifications import Reason
from streams.retention.rules import is_on_hold, period
from streams.sessions import movements, rules
from streams.sessions.notices import LOCALE as NOTICE_LOCALE
from streams.sessions.notices import Notice
from streams.verification.records import RETENTION_OF
from streams.verification.rules import to_reasons

LIMITS: Final = CaptureLimits(max_bytes=MAX_IMAGE_BYTES, longest_side_px=2200, jpeg_quality=0.86)

_Outcome = Literal["VERIFIED", "IN_REVIEW", "NOT_VERIFIED"]

_RESULTS: Final[Mapping[SessionStatus, tuple[_Outcome, str]]] = MappingProxyType(
    {
        SessionStatus.APPROVED: ("VERIFIED", "api.verified"),
        SessionStatus.REVIEW_REQUIRED: ("IN_REVIEW", "api.in_review"),
        SessionStatus.FAILED: ("IN_REVIEW", "api.failed"),
        SessionStatus.REJECTED: ("NOT_VERIFIED", "api.not_verified"),
    }
)
"""The three outcomes and the key of their words; the tenant alone explains its reasons."""


def view_of(
    stored: StoredSession, notice: Notice, tenant: TenantShown, retention: Retention, code: str
) -> CaptureView:
    """Return the session as its page sees it, in a language."""
    row, consent = stored.session, stored.consent
    if row.expires_at is None:
        raise ValueError("a hosted session has an end")
    accepted_at = consent.decided_at if consent is not None and consent.accepted else None
    return CaptureView(
        session_id=row.session_id,
        status=row.status,
        flow_type=row.flow_type,
        required_checks=stored.configuration.required_checks,
        documents=stored.configuration.documents,
        consent=NoticeShown(
            notice_version=notice.version, text=notice.text, locale=NOTICE_LOCALE, accepted_at=accepted_at
        ),
        document=_captured(stored.document, code),
        selfie=_captured(stored.selfie, code),
        retry_reasons=_reasons(stored.retry_reasons, code),
        attempts_left=rules.attempts_left(stored),
        expires_at=row.expires_at,
        locale=code,
        locales=CODES,
        return_url=stored.configuration.return_url,
        result=_result(row.status, code),
        tenant=tenant,
        session_locale=stored.locale,
        steps=_steps(stored),
        limits=LIMITS,
        kept=_stored_until(stored, retention),
    )


def seen(reasons: Sequence[ReasonCode], code: str) -> CaptureSeen:
    """Return what was found on an image at once, in a language."""
    return CaptureSeen(accepted=not reasons, reasons=_reasons(reasons, code))


def _captured(image: Captured | None, code: str) -> CaptureSeen | None:
    return seen(image.reasons, code) if image is not None else None


def _reasons(reasons: Sequence[ReasonCode], code: str) -> tuple[Reason, ...]:
    """Return the reasons in the words of the pages, which have some for what is about images."""
    texts = languages()[code].texts
    return tuple(
        one.model_copy(update={"message": texts.get(f"reason.{one.code}", one.message)})
        for one in to_reasons(reasons)
    )


def _result(status: SessionStatus, code: str) -> CaptureResult | None:
    if status not in _RESULTS:
        return None
    outcome, key = _RESULTS[status]
    return CaptureResult(outcome=outcome, message=languages()[code].texts[key])


def _steps(stored: StoredSession) -> tuple[CaptureStep, ...]:
    """Return the steps of the session's flow in order, each with its state."""
    needed = rules.NEEDS[stored.session.flow_type]
    ended = stored.session.status not in rules.OPEN
    number = any(
        one.capture is not None and one.capture.document_number_required
        for one in stored.configuration.documents
    )
    named = (
        (CaptureStepName.CONSENT, True, stored.consent is not None and stored.consent.accepted),
        (CaptureStepName.DOCUMENT, EvidenceKind.IMAGE in needed, _is_good(stored.document)),
        (CaptureStepName.NUMBER, number, False),
        (CaptureStepName.SELFIE, EvidenceKind.SELFIE in needed, _is_good(stored.selfie)),
        (CaptureStepName.MOVEMENTS, movements.are_asked_for(stored), movements.are_settled(stored)),
        (CaptureStepName.RESULT, True, stored.session.status in _RESULTS),
    )
    return tuple(
        CaptureStep(step=name, state="DONE" if done or (ended and name != CaptureStepName.RESULT) else "TODO")
        for name, applies, done in named
        if applies
    )


def _is_good(image: Captured | None) -> bool:
    return image is not None and not image.reasons


def _stored_until(stored: StoredSession, retention: Retention) -> tuple[StoredUntil, ...]:
    """Return until when the pictures of an ended session are stored; nothing under legal hold."""
    if stored.session.status not in _RESULTS or is_on_hold(stored.session.subject_id, retention):
        return ()
    images: tuple[tuple[Literal["DOCUMENT", "FACE"], EvidenceKind, Captured | None], ...] = (
        ("DOCUMENT", EvidenceKind.IMAGE, stored.document),
        ("FACE", EvidenceKind.SELFIE, stored.selfie),
    )
    shown = []
    for what, kind, image in images:
        stored_for = period(RETENTION_OF[kind], retention)
        if image is not None and stored_for is not None:
            shown.append(StoredUntil(what=what, until=image.kept_at + stored_for))
    return tuple(shown)
