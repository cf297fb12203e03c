"""The case, audit rows and events of matches that monitoring found (G118); pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType, CaseKind, CaseStatus, CheckKind, Recommendation, ReviewStatus, RiskLevel
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import EventId, ReviewCaseId, SubjectId, TenantId, derive_id
from schemas.name_screenings import NameScreening
from schemas.reasons import ReasonCode
from schemas.reviews import ReviewCase
from schemas.screenings import CheckAnswer, CheckResultKind
from streams.audit.rows import write_row
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import risk_level, risk_terms, to_reasons

_SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)


def _reasons(
    answers: Sequence[Sequence[CheckAnswer]], reported: frozenset[tuple[str, str]]
) -> Iterator[ReasonCode]:
    for answer in (answer for found in answers for answer in found):
        new = [
            match
            for match in answer.matches
            if match.suppressed_by is None and (match.list, match.entity_id) not in reported
        ]
        if new:
            yield _reason(answer)


def _reason(answer: CheckAnswer) -> ReasonCode:
    if answer.check is CheckKind.PEP:
        return ReasonCode.PEP_MATCH
    if answer.check is CheckKind.ADVERSE_MEDIA:
        return ReasonCode.ADVERSE_MEDIA_MATCH
    sure = answer.result is CheckResultKind.MATCH
    return ReasonCode.SANCTIONS_MATCH if sure else ReasonCode.SANCTIONS_POSSIBLE_MATCH


def open_case(
    tenant_id: TenantId, screening: NameScreening, reasons: Sequence[ReasonCode], version: int, now: datetime
) -> ReviewCase:
    """Return the case of the matches found with this version of the screening."""
    policy = VerificationPolicy()
    points = sum(term.points for term in risk_terms(policy, reasons))
    risk = risk_level(reasons, points)
    hours = policy.review_due_critical_h if risk is RiskLevel.CRITICAL else policy.review_due_h
    return ReviewCase(
        review_case_id=ReviewCaseId(derive_id("rc", tenant_id, screening.screening_id, str(version))),
        kind=CaseKind.SCREENING,
        subject_id=screening.subject_id or SubjectId(""),  # monitored names have a subject
        screening_id=screening.screening_id,
        status=CaseStatus.OPEN,
        risk_level=risk,
        recommendation=Recommendation.REJECTED,
        review_status=ReviewStatus.PENDING,
        reasons=to_reasons(reasons),
        due_at=now + timedelta(hours=hours),
        livemode=screening.livemode,
        created_at=now,
        updated_at=now,
    )


def audit_rows(tenant_id: TenantId, case: ReviewCase) -> tuple[AuditEvent, ...]:
    """Return the rows of the comparison that found something, and of the case it opened."""
    about = case.review_case_id
    changes = {
        "review_case_id": about,
        "screening_id": case.screening_id,
        "reason_codes": [reason.code for reason in case.reasons],
    }
    said = {
        AuditAction.NAME_SCREENED: "A monitored name matches an entry that is new or changed on a list.",
        AuditAction.CASE_OPENED: f"Review case {about} was opened because a monitored name matches.",
    }
    return tuple(
        write_row(
            derive_id("aud", tenant_id, about, action),
            action,
            _SYSTEM,
            case.subject_id,
            case.created_at,
            detail=detail,
            changes=changes,
            livemode=case.livemode,
        )
        for action, detail in said.items()
    )


def events(tenant_id: TenantId, case: ReviewCase, version: int) -> tuple[DecisionEvent, ...]:
    """Return `screening.match_found` and the opening of the case."""
    sequences = {EventType.SCREENING_MATCH_FOUND: version, EventType.CASE_OPENED: 1}
    return tuple(
        DecisionEvent(
            id=EventId(derive_id("evt", tenant_id, case.review_case_id, type_)),
            type=type_,
            timestamp=case.created_at,
            tenant_id=tenant_id,
            livemode=case.livemode,
            sequence=sequence,
            data=EventData(
                subject_id=case.subject_id,
                screening_id=case.screening_id,
                review_case_id=case.review_case_id,
                status=case.status,
                risk_level=case.risk_level,
                review_status=case.review_status,
                reason_codes=tuple(reason.code for reason in case.reasons),
            ),
        )
        for type_, sequence in sequences.items()
    )
