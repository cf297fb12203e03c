"""What a reviewer may do with a case now, and what each conclusion would do (G42, G43, G48, G90); pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from schemas.enums import CaseKind, CaseStatus, ReviewStatus, TextEnum, VerificationStatus
from schemas.ids import UserId
from schemas.people import Permission
from schemas.reviews import CaseOutcome, Conclusion, ReviewCase
from schemas.tenant_settings import FourEyes
from schemas.verifications import Verification
from streams.reviews import rules


class Blocked(TextEnum):
    """Why a reviewer cannot conclude a case."""

    CONCLUDED = "CONCLUDED"
    ROLE = "ROLE"
    CLAIMED = "CLAIMED"
    LEAD = "LEAD"
    """Only a holder of CASES_OVERTURN concludes it."""
    FIRST = "FIRST"
    """The reviewer made the first conclusion; a colleague makes the second."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The reviewer who looks at a case."""

    reviewer_id: UserId
    permissions: Collection[Permission]

    def may(self, permission: Permission) -> bool:
        """Return whether the role has a permission."""
        return permission in self.permissions


@dataclass(frozen=True, slots=True)
class Choice:
    """A conclusion a reviewer may choose, and what it would do."""

    outcome: CaseOutcome
    overturns: bool
    """It is against the recommendation."""
    waits: bool
    """A second reviewer must agree before it counts."""


@dataclass(frozen=True, slots=True)
class CaseActions:
    """What is offered; the routes refuse the rest."""

    blocked: Blocked | None
    """Why no conclusion is offered; None: one is."""
    choices: tuple[Choice, ...]
    claim: bool
    release: bool
    assign: bool
    note: bool
    escalate: bool
    reopen: bool
    appeal: bool
    mine: bool
    """The viewer holds the lease."""
    taken: bool
    """A colleague holds the lease."""


def actions_of(
    case: ReviewCase,
    verification: Verification | None,
    viewer: Viewer,
    four_eyes: FourEyes,
    now: datetime,
) -> CaseActions:
    """Return what the viewer may do with the case at a moment."""
    leased = case.lease_expires_at is not None and now < case.lease_expires_at
    assigned = case.assignee == viewer.reviewer_id
    taken, is_open = leased and not assigned, case.status is not CaseStatus.CONCLUDED
    works = viewer.may(Permission.CASES_WORK)
    moves = works and is_open and not taken
    blocked = _blocked(case, viewer, taken=taken)
    return CaseActions(
        blocked=blocked,
        choices=() if blocked else tuple(_choice(case, one, four_eyes) for one in CaseOutcome),
        claim=moves and not (leased and assigned),
        release=moves and assigned,
        assign=moves,
        note=works,
        escalate=moves and case.status is not CaseStatus.ESCALATED,
        reopen=viewer.may(Permission.CASES_OVERTURN) and not is_open,
        appeal=works and not is_open and may_be_appealed(verification),
        mine=leased and assigned,
        taken=taken and is_open,
    )


def _blocked(case: ReviewCase, viewer: Viewer, *, taken: bool) -> Blocked | None:
    first = case.first_conclusion
    if case.status is CaseStatus.CONCLUDED:
        return Blocked.CONCLUDED
    if not viewer.may(Permission.CASES_CONCLUDE):
        return Blocked.ROLE
    if taken:
        return Blocked.CLAIMED
    if case.kind is CaseKind.APPEAL or case.status is CaseStatus.ESCALATED:
        return None if viewer.may(Permission.CASES_OVERTURN) else Blocked.LEAD
    second = case.status is CaseStatus.AWAITING_SECOND and first is not None
    return Blocked.FIRST if second and first and first.reviewer_id == viewer.reviewer_id else None


def _choice(case: ReviewCase, outcome: CaseOutcome, four_eyes: FourEyes) -> Choice:
    conclusion = Conclusion(reviewer_id=UserId(""), outcome=outcome, concluded_at=case.updated_at)
    begins = case.status not in {CaseStatus.AWAITING_SECOND, CaseStatus.ESCALATED}
    return Choice(
        outcome=outcome,
        overturns=rules.review_status(case, outcome) is ReviewStatus.OVERTURNED,
        waits=begins and rules.needs_second(case, conclusion, four_eyes),
    )


def may_be_appealed(verification: Verification | None) -> bool:
    """Return whether a decision is final and nobody reviews it."""
    return (
        verification is not None
        and verification.status in {VerificationStatus.APPROVED, VerificationStatus.REJECTED}
        and verification.review_status is not ReviewStatus.PENDING
    )
