"""State transitions of a session and their preconditions (G34, G36, G66, G76); pure."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from schemas.enums import EvidenceKind, FlowType, SessionStatus
from schemas.flows import FlowConfiguration, FlowRevision
from schemas.ids import EvidenceId, TenantId, VerificationId, derive_id
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.sessions import (
    AddCapture,
    Captured,
    Consent,
    OpenSession,
    StartSession,
    StoredSession,
    SubmitSession,
    Submitted,
    VerificationSession,
)
from schemas.verifications import AcceptedDocument, StoredVerification, SubmitVerification
from streams.sessions.notices import agreed_to_search, require_consent

LIFETIME: Final = timedelta(hours=24)
PREVIEW_LIFETIME: Final = timedelta(minutes=30)
"""Of a session that walks through a draft (P22)."""

"""G34, G36: a session not submitted by then expires, with its token."""

MOST_ATTEMPTS: Final = 3
"""G34."""

STUCK_AFTER: Final = timedelta(seconds=60)
"""A verification takes seconds; without an outcome by then its command is sent again."""

OPEN: Final = frozenset({SessionStatus.CREATED, SessionStatus.STARTED})
UNDER_WAY: Final = frozenset({SessionStatus.SUBMITTED, SessionStatus.PROCESSING})

NEEDS: Final[Mapping[FlowType, tuple[EvidenceKind, ...]]] = MappingProxyType(
    {
        FlowType.BIOMETRIC: (EvidenceKind.SELFIE,),
        FlowType.DOCUMENT: (EvidenceKind.IMAGE,),
        FlowType.FULL_IDENTITY: (EvidenceKind.IMAGE, EvidenceKind.SELFIE),
    }
)
"""The images each flow type takes."""

_NAMED: Final = {EvidenceKind.IMAGE: "document", EvidenceKind.SELFIE: "selfie"}


def slot_id(command: OpenSession) -> str:
    """Return the id of the record that names the subject's open session under the flow."""
    mode = "live" if command.livemode else "test"
    return derive_id("slot", command.tenant_id, mode, command.flow_id, command.subject_id)


def verification_id(tenant_id: TenantId, session_id: str, attempt: int) -> VerificationId:
    """Derive the id of an attempt's verification; its images are stored under it from the start."""
    return VerificationId(derive_id("ver", tenant_id, session_id, str(attempt)))


def attempt_of(stored: StoredSession) -> int:
    """Return the number of the attempt that images are captured for."""
    return stored.session.attempts + 1


def attempts_left(stored: StoredSession) -> int:
    """Return how many attempts are left."""
    return max(0, MOST_ATTEMPTS - stored.session.attempts) if stored.session.status in OPEN else 0


def is_overdue(stored: StoredSession, now: datetime) -> bool:
    """Return whether the session expired without a submission."""
    expires_at = stored.session.expires_at
    return stored.session.status in OPEN and expires_at is not None and now >= expires_at


def is_running(stored: StoredSession, now: datetime) -> bool:
    """Return whether the session may still get an outcome."""
    return stored.session.status in OPEN | UNDER_WAY and not is_overdue(stored, now)


def opened(
    command: OpenSession,
    revision: FlowRevision,
    return_url: str | None,
    reference: EvidenceId | None,
    now: datetime,
) -> StoredSession:
    """Return a new session with the flow's configuration frozen."""
    frozen = revision.configuration
    if return_url is not None:
        frozen = frozen.model_copy(update={"return_url": return_url})
    row = VerificationSession(
        session_id=command.session_id,
        subject_id=command.subject_id,
        flow_id=command.flow_id,
        flow_revision=revision.revision,
        flow_type=frozen.flow_type,
        status=SessionStatus.CREATED,
        attempts=0,
        created_at=now,
        updated_at=now,
        expires_at=now + (LIFETIME if command.draft is None else PREVIEW_LIFETIME),
        livemode=command.livemode,
    )
    return StoredSession(
        session=row,
        configuration=frozen,
        locale=command.locale,
        key_id=command.key_id,
        sealed_opening=command.sealed_opening,
        reference=reference,
        requests=(command.actor.request_id,),
    )


def decided_on_notice(stored: StoredSession, command: StartSession, now: datetime) -> StoredSession:
    """Return the session with the person's consent decision; accepting it starts the session (G66).

    Raises:
        Refused: SESSION_FINISHED.
    """
    require_open(stored)
    if command.accepted and stored.consent is not None and stored.consent.accepted:
        return stored
    consent = Consent(
        accepted=command.accepted,
        notice_version=command.notice_version,
        locale=command.locale,
        decided_at=now,
    )
    status = SessionStatus.STARTED if command.accepted else stored.session.status
    return moved(stored.model_copy(update={"consent": consent}), now, status=status)


def captured(stored: StoredSession, command: AddCapture, now: datetime) -> StoredSession:
    """Return the session with an image, replacing an earlier one.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, or VALIDATION_FAILED for an image the flow has no use of.
    """
    require_capturing(stored, command.what)
    if command.attempt != attempt_of(stored):
        raise finished()
    image = Captured(
        evidence_id=command.evidence_id, reasons=command.reasons, kept_at=now, source=command.source
    )
    changes: dict[str, object] = {_NAMED[command.what]: image}
    if command.what is EvidenceKind.SELFIE and stored.movements is not None:
        changes["movements"] = stored.movements.voided()
    return moved(stored.model_copy(update=changes), now)


def require_capturing(stored: StoredSession, what: EvidenceKind) -> None:
    """Refuse an image before consent, after the end, or of a kind the flow does not take.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED.
    """
    require_open(stored)
    require_consent(stored)
    if what not in NEEDS[stored.session.flow_type]:
        message = f"A {stored.session.flow_type} flow takes no {_NAMED[what]}."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message)


def submitted(stored: StoredSession, command: SubmitSession, now: datetime) -> StoredSession:
    """Return the session submitted; one submitted before is unchanged.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, or VALIDATION_FAILED while an image is missing.
    """
    if stored.session.status in UNDER_WAY:
        return stored
    require_submitting(stored)
    if command.attempt != attempt_of(stored):
        raise finished()
    handed_in = Submitted(
        request_id=command.actor.request_id, sealed_submission=command.sealed_submission, submitted_at=now
    )
    changes: dict[str, object] = {"submitted": handed_in, "retry_reasons": ()}
    if stored.movements is not None:
        changes["movements"] = stored.movements.model_copy(update={"seen": ()})
    after = stored.model_copy(update=changes)
    return moved(after, now, status=SessionStatus.SUBMITTED, attempts=command.attempt)


def require_submitting(stored: StoredSession) -> None:
    """Raise unless the session can be submitted.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED.
    """
    require_open(stored)
    require_consent(stored)
    missing = [
        _NAMED[what] for what in NEEDS[stored.session.flow_type] if getattr(stored, _NAMED[what]) is None
    ]
    if missing:
        message = f"There is no {' and no '.join(missing)} yet."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message)


def cancelled(stored: StoredSession, now: datetime) -> StoredSession:
    """Return the session cancelled and without images; one cancelled before is unchanged.

    Raises:
        Refused: SESSION_FINISHED once it was submitted.
    """
    if stored.session.status is SessionStatus.CANCELLED:
        return stored
    if stored.session.status not in OPEN:
        raise finished()
    return moved(_without_images(stored), now, status=SessionStatus.CANCELLED, completed_at=now)


def expired(stored: StoredSession, now: datetime) -> StoredSession:
    """Return the session expired and without images, or unchanged if it cannot expire."""
    if not is_overdue(stored, now):
        return stored
    return moved(_without_images(stored), now, status=SessionStatus.EXPIRED, completed_at=now)


def awaits(stored: StoredSession, attempt: int) -> bool:
    """Return whether the session still waits for the outcome of the attempt.

    A reviewer may have concluded before the outcome was recorded; then the rest of its row is still missing.
    """
    row = stored.session
    ended = row.status not in OPEN | UNDER_WAY | {SessionStatus.EXPIRED, SessionStatus.CANCELLED}
    reported = row.status not in UNDER_WAY and not (ended and row.verification_id is None)
    return row.attempts == attempt and not reported


def sent_back(stored: StoredSession, reasons: Sequence[ReasonCode], now: datetime) -> StoredSession:
    """Return the session ready for its next attempt, without the images of this one (G34)."""
    after = _without_images(stored).model_copy(update={"retry_reasons": tuple(reasons)})
    return moved(after, now, status=SessionStatus.STARTED)


def _without_images(stored: StoredSession) -> StoredSession:
    return stored.model_copy(update={"document": None, "selfie": None, "movements": None})


def concluded(stored: StoredSession, ended: StoredVerification, now: datetime) -> StoredSession:
    """Return the session with its verification's outcome."""
    verification = ended.verification
    return moved(
        stored,
        now,
        status=SessionStatus(verification.status),
        decision=verification.decision,
        risk_level=verification.risk_level,
        review_status=verification.review_status,
        review_case_id=verification.review_case_id,
        verification_id=verification.verification_id,
        completed_at=now,
    )


def moved(stored: StoredSession, now: datetime, **changes: object) -> StoredSession:
    """Return the session with changed fields of its row."""
    row = stored.session.model_copy(update={"updated_at": now, **changes})
    return stored.model_copy(update={"session": row})


def require_open(stored: StoredSession) -> None:
    """Raise unless the session is open and has an attempt left.

    Raises:
        Refused: SESSION_FINISHED.
    """
    if attempts_left(stored) == 0:
        raise finished()


def finished() -> Refused:
    """Return the refusal for a session that has ended."""
    return Refused.because(ProblemCode.SESSION_FINISHED, "The session takes nothing any more.")


def due(stored: StoredSession) -> datetime | None:
    """Return when the scheduler must handle the session; None: never again."""
    if stored.session.status in OPEN:
        return stored.session.expires_at
    if stored.session.status in UNDER_WAY and stored.submitted is not None:
        return stored.submitted.submitted_at + STUCK_AFTER
    return None


def ended_index(tenant_id: TenantId) -> tuple[str, str]:
    """Return the index, on the platform's records, of the watches of a tenant's sessions that have ended."""
    return "ended", tenant_id


def command_of(tenant_id: TenantId, stored: StoredSession) -> SubmitVerification:
    """Return the command that evaluates the current attempt; always the same for one attempt."""
    row, handed_in = stored.session, stored.submitted
    if handed_in is None:
        raise ValueError("nothing was handed in")
    shown = stored.document.evidence_id if stored.document else stored.reference
    own = stored.selfie.evidence_id if stored.selfie else None
    document, selfie = shown or own, own or shown
    if document is None or selfie is None:
        raise ValueError("there is no image")
    named = f"{row.session_id}|{row.attempts}|{document}|{selfie}"
    return SubmitVerification(
        tenant_id=tenant_id,
        verification_id=verification_id(tenant_id, row.session_id, row.attempts),
        subject_id=row.subject_id,
        livemode=row.livemode,
        fingerprint=hashlib.sha256(named.encode()).hexdigest(),
        document_evidence_id=document,
        selfie_evidence_id=selfie,
        sealed_submission=handed_in.sealed_submission,
        key_id=stored.key_id,
        request_id=handed_in.request_id,
        requested_at=handed_in.submitted_at,
        session_id=row.session_id,
        attempt=row.attempts,
        may_retry=row.attempts < MOST_ATTEMPTS,
        flow_type=row.flow_type,
        required_checks=stored.configuration.required_checks,
        accepted_documents=_accepted(stored.configuration),
        face_search_agreed=agreed_to_search(stored.consent),
    )


def _accepted(configuration: FlowConfiguration) -> tuple[AcceptedDocument, ...]:
    named = [
        AcceptedDocument(document_type=one.document_type, country=one.country)
        for one in configuration.documents
    ]
    return tuple(dict.fromkeys(named))
