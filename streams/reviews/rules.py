"""State transitions of a case and of its verification (G25, G26, G42, G43, G89, G90); pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.enums import (
    CaseKind,
    CaseStatus,
    DecisionOutcome,
    Recommendation,
    ReviewStatus,
    RiskLevel,
    VerificationStatus,
)
from schemas.ids import DecisionId, ReviewCaseId, TenantId, UserId, VerificationId, derive_id
from schemas.people import Reviewer
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.reviews import CaseNote, CaseOutcome, Conclusion, ReviewCase, StoredCase
from schemas.tenant_settings import FourEyes
from schemas.verifications import StoredVerification, Verification
from streams.verification.rules import to_reasons
from streams.verification.sandbox import PREFIX as SIMULATED

LEASE: Final = timedelta(minutes=30)
"""How long the lease of a claimed case lasts (G42)."""

MOST_NOTES: Final = 500
"""Largest number of notes of one case."""

_STATUS_OF: Final = {
    CaseOutcome.APPROVE: VerificationStatus.APPROVED,
    CaseOutcome.REJECT: VerificationStatus.REJECTED,
}
_DECISION_OF: Final = {
    VerificationStatus.APPROVED: DecisionOutcome.ALLOW,
    VerificationStatus.REJECTED: DecisionOutcome.BLOCK,
}


@dataclass(frozen=True, slots=True)
class Deciding:
    """A conclusion and the facts that decide what it does."""

    conclusion: Conclusion
    may_overturn: bool
    four_eyes: FourEyes
    all_viewed: bool
    """Every image was viewed, or the tenant does not require it."""
    about_oneself: bool = False
    """The subject is the reviewer."""


def claimed(stored: StoredCase, reviewer: UserId, now: datetime) -> StoredCase:
    """Return the case claimed by the reviewer for the time of a lease.

    Raises:
        Refused: CASE_ALREADY_CONCLUDED, CASE_CLAIMED.
    """
    _require_open(stored)
    _require_free(stored.case, reviewer, now)
    return _with(stored, now, assignee=reviewer, lease_expires_at=now + LEASE, status=_in_work(stored.case))


def assigned(stored: StoredCase, to: UserId, by: str | None, now: datetime) -> StoredCase:
    """Return the case assigned to a colleague, who has no lease yet.

    Raises:
        Refused: CASE_ALREADY_CONCLUDED, CASE_CLAIMED.
    """
    _require_open(stored)
    _require_free(stored.case, by, now)
    return _with(stored, now, assignee=to, lease_expires_at=None, status=_in_work(stored.case))


def released(stored: StoredCase, reviewer: UserId, now: datetime) -> StoredCase:
    """Return the case without its assignee.

    Raises:
        Refused: CASE_ALREADY_CONCLUDED, CASE_CLAIMED.
    """
    _require_open(stored)
    _require_free(stored.case, reviewer, now)
    back = CaseStatus.OPEN if stored.case.status is CaseStatus.IN_REVIEW else stored.case.status
    return _with(stored, now, assignee=None, lease_expires_at=None, status=back)


def noted(stored: StoredCase, note: CaseNote) -> StoredCase:
    """Return the case with a further note; concluded cases take notes too.

    Raises:
        Refused: VALIDATION_FAILED when the case has too many notes.
    """
    if len(stored.case.notes) >= MOST_NOTES:
        message = f"A case has at most {MOST_NOTES} notes."
        raise Refused.at("/text", ProblemCode.VALIDATION_FAILED, message)
    return _with(stored, note.created_at, notes=(*stored.case.notes, note))


def escalated(stored: StoredCase, note: CaseNote, now: datetime) -> StoredCase:
    """Return the case escalated to a lead.

    Raises:
        Refused: CASE_ALREADY_CONCLUDED, CASE_CLAIMED.
    """
    _require_open(stored)
    _require_free(stored.case, note.author_id, now)
    handed = _with(stored, now, status=CaseStatus.ESCALATED, assignee=None, lease_expires_at=None)
    return noted(handed, note)


def reopened(stored: StoredCase, note: CaseNote, now: datetime) -> StoredCase:
    """Return a concluded case reopened; only a reviewer who may overturn concludes it again.

    Raises:
        Refused: VALIDATION_FAILED when it was not concluded.
    """
    if stored.case.status is not CaseStatus.CONCLUDED:
        message = "Only a concluded case can be reopened."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message)
    again = _with(
        stored,
        now,
        status=CaseStatus.OPEN,
        review_status=ReviewStatus.PENDING,
        assignee=None,
        lease_expires_at=None,
        first_conclusion=None,
        conclusion=None,
    )
    return noted(again.model_copy(update={"reopened": True}), note)


def concluded(stored: StoredCase, deciding: Deciding) -> StoredCase:
    """Return the case after a conclusion: concluded, waiting for a second reviewer, or escalated.

    Raises:
        Refused: CASE_ALREADY_CONCLUDED, CASE_CLAIMED, SECOND_REVIEWER_MUST_DIFFER, EVIDENCE_NOT_VIEWED,
            PERMISSION_DENIED.
    """
    case, conclusion = stored.case, deciding.conclusion
    _require_open(stored)
    _require_free(case, conclusion.reviewer_id, conclusion.concluded_at)
    if deciding.about_oneself:
        message = "Nobody concludes a case about themselves; a colleague must."
        raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
    lead_only = case.kind is CaseKind.APPEAL or stored.reopened or case.status is CaseStatus.ESCALATED
    if lead_only and not deciding.may_overturn:
        message = "Concluding this case needs the permission CASES_OVERTURN."
        raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
    if not deciding.all_viewed:
        message = "Look at all images before you conclude."
        raise Refused.because(ProblemCode.EVIDENCE_NOT_VIEWED, message)
    if case.status is CaseStatus.AWAITING_SECOND and case.first_conclusion is not None:
        return _second(stored, case.first_conclusion, conclusion)
    if case.status is not CaseStatus.ESCALATED and needs_second(case, conclusion, deciding.four_eyes):
        return _with(
            stored,
            conclusion.concluded_at,
            status=CaseStatus.AWAITING_SECOND,
            first_conclusion=conclusion,
            assignee=None,
            lease_expires_at=None,
        )
    return _final(stored, conclusion)


def is_about(subject_id: str, reviewer: Reviewer) -> bool:
    """Return whether the subject id is the reviewer's id or e-mail address, in the sandbox too (S74)."""
    named = subject_id.casefold()
    plain = named.partition("@")[2] if named.startswith(SIMULATED) else named
    return plain in {reviewer.reviewer_id, reviewer.email.casefold()}


def _second(stored: StoredCase, first: Conclusion, second: Conclusion) -> StoredCase:
    if first.reviewer_id == second.reviewer_id:
        message = "Another person must conclude the case a second time."
        raise Refused.because(ProblemCode.SECOND_REVIEWER_MUST_DIFFER, message)
    if first.outcome is second.outcome:
        return _final(stored, second.agreed_with(first))
    return _with(
        stored, second.concluded_at, status=CaseStatus.ESCALATED, assignee=None, lease_expires_at=None
    )


def _final(stored: StoredCase, conclusion: Conclusion) -> StoredCase:
    return _with(
        stored,
        conclusion.concluded_at,
        status=CaseStatus.CONCLUDED,
        conclusion=conclusion,
        review_status=review_status(stored.case, conclusion.outcome),
        assignee=conclusion.reviewer_id,
        lease_expires_at=None,
    )


def needs_second(case: ReviewCase, conclusion: Conclusion, four_eyes: FourEyes) -> bool:
    """Return whether a second reviewer must agree (G43); a request for input decides nothing."""
    if conclusion.outcome is CaseOutcome.REQUEST_INPUT:
        return False
    critical = case.risk_level is RiskLevel.CRITICAL
    match four_eyes:
        case FourEyes.NEVER:
            return False
        case FourEyes.CRITICAL:
            return critical
        case FourEyes.OVERTURN:
            return critical or review_status(case, conclusion.outcome) is ReviewStatus.OVERTURNED
        case FourEyes.ALWAYS:
            return True


def review_status(case: ReviewCase, outcome: CaseOutcome) -> ReviewStatus:
    """Return the review status: whether the conclusion confirms the recommendation (G26)."""
    if outcome is CaseOutcome.REQUEST_INPUT:
        return ReviewStatus.PENDING
    upheld = _STATUS_OF[outcome].value == case.recommendation.value
    return ReviewStatus.APPROVED if upheld else ReviewStatus.OVERTURNED


def appeal_of(stored: StoredVerification, case_id: ReviewCaseId, now: datetime, due: timedelta) -> ReviewCase:
    """Return the case of an appeal against a final decision (G25, G87).

    Raises:
        Refused: VALIDATION_FAILED when there is no final decision, or a case is open already.
    """
    verification = stored.verification
    if verification.status not in _DECISION_OF or verification.review_status is ReviewStatus.PENDING:
        message = "Only a final decision that nobody is reviewing can be appealed."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message)
    return ReviewCase(
        review_case_id=case_id,
        kind=CaseKind.APPEAL,
        subject_id=verification.subject_id,
        verification_id=verification.verification_id,
        status=CaseStatus.OPEN,
        risk_level=verification.risk_level,
        recommendation=Recommendation(verification.status.value),
        review_status=ReviewStatus.PENDING,
        reasons=verification.reasons,
        risk=stored.risk,
        due_at=now + due,
        livemode=stored.livemode,
        created_at=now,
        updated_at=now,
    )


def reviewed(stored: StoredVerification, case: ReviewCase, tenant_id: TenantId) -> StoredVerification:
    """Return the verification with the case's review status and, if changed, its decision."""
    verification = stored.verification
    update: dict[str, object] = {
        "review_status": case.review_status,
        "review_case_id": case.review_case_id,
    }
    conclusion = case.conclusion
    if conclusion is not None and conclusion.outcome in _STATUS_OF:
        status = _STATUS_OF[conclusion.outcome]
        if status is not verification.status:
            update |= _new_decision(verification, status, conclusion, case, tenant_id)
    return stored.model_copy(update={"verification": verification.model_copy(update=update)})


def _new_decision(
    verification: Verification,
    status: VerificationStatus,
    conclusion: Conclusion,
    case: ReviewCase,
    tenant_id: TenantId,
) -> dict[str, object]:
    approved = status is VerificationStatus.APPROVED
    own = ReasonCode.REVIEWER_APPROVED if approved else ReasonCode.REVIEWER_REJECTED
    codes = (own,) if approved else tuple(dict.fromkeys((own, *conclusion.reason_codes)))
    superseding = derive_id(
        "dec", tenant_id, verification.verification_id, case.review_case_id, verification.decision_id
    )
    return {
        "status": status,
        "decision": _DECISION_OF[status],
        "decision_id": DecisionId(superseding),
        "reasons": to_reasons(codes),
    }


def appeal_id(tenant_id: TenantId, verification_id: VerificationId, decision_id: DecisionId) -> ReviewCaseId:
    """Derive the id of the appeal against a decision: a decision has one appeal at a time."""
    return ReviewCaseId(derive_id("rc", tenant_id, verification_id, "appeal", decision_id))


def _require_open(stored: StoredCase) -> None:
    if stored.case.status is CaseStatus.CONCLUDED:
        raise Refused.because(ProblemCode.CASE_ALREADY_CONCLUDED, "The case was concluded already.")


def _require_free(case: ReviewCase, reviewer: str | None, now: datetime) -> None:
    leased = case.lease_expires_at is not None and now < case.lease_expires_at
    if leased and case.assignee != reviewer:
        raise Refused.because(ProblemCode.CASE_CLAIMED, "A colleague is working on the case.")


def _in_work(case: ReviewCase) -> CaseStatus:
    return CaseStatus.IN_REVIEW if case.status is CaseStatus.OPEN else case.status


def _with(stored: StoredCase, now: datetime, **changes: object) -> StoredCase:
    case = stored.case.model_copy(update={**changes, "updated_at": now})
    return stored.model_copy(update={"case": case})
