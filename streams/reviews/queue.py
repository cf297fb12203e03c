"""The queue of review cases: which wait, in what order, how many, and who may take one (P19); pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from schemas.base import Frozen
from schemas.enums import CaseKind, CaseStatus
from schemas.people import PERMISSIONS_OF, Permission, Reviewer
from streams.reviews.rules import is_about

WAITING: Final = tuple(status for status in CaseStatus if status is not CaseStatus.CONCLUDED)
"""The statuses of cases that wait for a person."""

DUE_SOON: Final = timedelta(hours=4)
COUNTED: Final = 1_000
"""Above it a count is not exact, and null."""


class FirstConclusion(msgspec.Struct, frozen=True):
    """Who concluded first."""

    reviewer_id: str


class QueuedCase(msgspec.Struct, frozen=True):
    """What the queue needs of a stored case; the rest of its text is not decoded."""

    review_case_id: str
    kind: CaseKind
    subject_id: str
    status: CaseStatus
    due_at: datetime
    assignee: str | None = None
    lease_expires_at: datetime | None = None
    first_conclusion: FirstConclusion | None = None

    @property
    def urgency(self) -> tuple[datetime, str]:
        """The place in the queue; the smallest is the most urgent."""
        return self.due_at, self.review_case_id


class QueuedRecord(msgspec.Struct, frozen=True):
    """What the queue needs of a case's record."""

    case: QueuedCase
    reopened: bool = False


class QueueSummary(Frozen):
    """How many cases wait; a number above 1,000 is null."""

    open: int | None
    mine: int | None
    overdue: int | None
    due_soon: int | None
    """Within four hours, or overdue."""
    awaiting_second: int | None
    escalated: int | None


@dataclass(frozen=True, slots=True)
class Taker:
    """The member who asks for the next case."""

    member: Reviewer
    now: datetime

    def may_take(self, queued: QueuedRecord) -> bool:
        """Return whether the member may conclude the case now, and nobody else holds or was given it."""
        case, own = queued.case, self.member.reviewer_id
        given = case.assignee is not None and (
            case.lease_expires_at is None or self.now < case.lease_expires_at
        )
        if given and case.assignee != own:
            return False
        if case.first_conclusion is not None and case.first_conclusion.reviewer_id == own:
            return False
        for_leads = queued.reopened or case.kind is CaseKind.APPEAL or case.status is CaseStatus.ESCALATED
        if for_leads and Permission.CASES_OVERTURN not in PERMISSIONS_OF[self.member.role]:
            return False
        return not is_about(case.subject_id, self.member)


def queued_of(body: bytes) -> QueuedRecord:
    """Return what the queue needs of a case's record."""
    return msgspec.json.decode(body, type=QueuedRecord)


def summary_of(cases: Iterable[QueuedCase], reviewer_id: str, now: datetime) -> QueueSummary:
    """Count the cases that wait."""
    waiting = tuple(cases)

    def count(number: int) -> int | None:
        return number if number <= COUNTED else None

    return QueueSummary(
        open=count(len(waiting)),
        mine=count(sum(case.assignee == reviewer_id for case in waiting)),
        overdue=count(sum(case.due_at < now for case in waiting)),
        due_soon=count(sum(case.due_at < now + DUE_SOON for case in waiting)),
        awaiting_second=count(sum(case.status is CaseStatus.AWAITING_SECOND for case in waiting)),
        escalated=count(sum(case.status is CaseStatus.ESCALATED for case in waiting)),
    )
