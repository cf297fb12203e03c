"""Review cases and decision records (G25, G42, G87, G89)."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.enums import (
    ActorType,
    CaseKind,
    CaseStatus,
    DecisionOutcome,
    Recommendation,
    ReviewStatus,
    RiskLevel,
    TextEnum,
    VerificationStatus,
)
from schemas.ids import DecisionId, ReviewCaseId, SubjectId, TenantId, UserId, VerificationId
from schemas.lists import Word
from schemas.name_screenings import ListName
from schemas.people import SentActor
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import TransactionReason
from schemas.verifications import Reason, Risk

CaseReason = Annotated[Reason | TransactionReason, Field(union_mode="left_to_right")]
"""A reason of the catalogue, or one of a tenant's transaction policy."""


class CaseOutcome(TextEnum):
    """What a reviewer decides."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"
    REQUEST_INPUT = "REQUEST_INPUT"


class CaseNote(Frozen):
    """A reviewer's note; notes are never changed or removed."""

    note_id: str
    author_id: str
    text: str
    """Stored sealed under the subject's key, because it may name a person; opened when it is shown."""
    created_at: Timestamp


class CaseDisposition(Frozen):
    """That a listed entity is not whom the case is about, judged with its conclusion."""

    list: ListName
    entity_id: Word
    expires_at: Timestamp
    """At most 400 days ahead."""


class Conclusion(Frozen):
    """What one reviewer decided, and why."""

    reviewer_id: UserId
    outcome: CaseOutcome
    reason_codes: tuple[ReasonCode, ...] = ()
    note: str = ""
    """Stored sealed, as notes are."""
    concluded_at: Timestamp
    flow_id: str | None = None
    """The flow of the new session (REQUEST_INPUT)."""
    session_id: str | None = None
    """The new session; the old one is never reopened (G26)."""
    dispositions: tuple[CaseDisposition, ...] = ()
    """What counts from the conclusion on; of two people's what both asked for."""

    def agreed_with(self, first: "Conclusion") -> "Conclusion":
        """Return the second conclusion of two, with the dispositions of both, until the earlier end."""
        until = {(one.list, one.entity_id): one.expires_at for one in first.dispositions}
        both = tuple(
            one.model_copy(update={"expires_at": min(one.expires_at, until[one.list, one.entity_id])})
            for one in self.dispositions
            if (one.list, one.entity_id) in until
        )
        return self.model_copy(update={"dispositions": both})


class ReviewCase(Frozen):
    """A review case with its assignee, notes and conclusion."""

    review_case_id: ReviewCaseId
    kind: CaseKind
    subject_id: SubjectId
    verification_id: VerificationId | None = None
    transaction_id: str | None = None
    screening_id: str | None = None
    status: CaseStatus
    risk_level: RiskLevel
    recommendation: Recommendation
    review_status: ReviewStatus
    reasons: tuple[CaseReason, ...]
    risk: Risk | None = None
    """Of the evaluation the case is about (G16)."""
    assignee: str | None = None
    lease_expires_at: Timestamp | None = None
    due_at: Timestamp
    notes: tuple[CaseNote, ...] = ()
    first_conclusion: Conclusion | None = None
    conclusion: Conclusion | None = None
    livemode: bool
    created_at: Timestamp
    updated_at: Timestamp


class StoredCase(Frozen):
    """A stored case."""

    case: ReviewCase
    reopened: bool = False
    """It was concluded before; from then on only who may overturn concludes it (G90)."""
    requests: tuple[str, ...] = ()
    """The requests that changed it last, so that a command delivered again changes nothing."""


class CaseCommandBase(Command):
    """The fields of every command about a case; keyed by case id."""

    tenant_id: TenantId
    review_case_id: ReviewCaseId
    actor: SentActor
    requested_at: Timestamp


class ClaimCase(CaseCommandBase):
    """Claim the case for half an hour."""

    kind: Literal["claim"] = "claim"
    reviewer_id: UserId


class AssignCase(CaseCommandBase):
    """Assign the case to a colleague."""

    kind: Literal["assign"] = "assign"
    reviewer_id: UserId


class ReleaseCase(CaseCommandBase):
    """Release the case."""

    kind: Literal["release"] = "release"
    reviewer_id: UserId


class NoteCase(CaseCommandBase):
    """Add a note."""

    kind: Literal["note"] = "note"
    reviewer_id: UserId
    note_id: str
    sealed_text: str


class EscalateCase(CaseCommandBase):
    """Escalate the case to a lead."""

    kind: Literal["escalate"] = "escalate"
    reviewer_id: UserId
    note_id: str
    sealed_text: str


class ConcludeCase(CaseCommandBase):
    """Conclude the case."""

    kind: Literal["conclude"] = "conclude"
    reviewer_id: UserId
    may_overturn: bool
    """The role holds CASES_OVERTURN."""
    outcome: CaseOutcome
    reason_codes: tuple[ReasonCode, ...] = ()
    sealed_note: str
    flow_id: str | None = None
    session_id: str | None = None
    seen: int | None = None
    """The version of the case it is meant for (`If-Match`); None: any."""
    dispositions: tuple[CaseDisposition, ...] = ()


class ReopenCase(CaseCommandBase):
    """Reopen a concluded case."""

    kind: Literal["reopen"] = "reopen"
    reviewer_id: UserId
    note_id: str
    sealed_text: str


class OpenAppeal(CaseCommandBase):
    """Open a review of a final decision."""

    kind: Literal["appeal"] = "appeal"
    reviewer_id: UserId
    verification_id: VerificationId
    note_id: str
    sealed_text: str
    key: str | None = None
    """Derived from the request's Idempotency-Key; None without one."""
    fingerprint: str = ""
    """SHA-256 of the canonical body, hexadecimal (G2)."""


class AppealKey(Frozen):
    """The case that a request with an Idempotency-Key was answered with.

    A case has its id from the decision that is appealed, which another one may have superseded when the
    request is sent again; so the key is looked up.
    """

    review_case_id: ReviewCaseId
    request_id: str
    """The first request with the key; the same one delivered again is not a replay."""


AnyCaseCommand = Annotated[
    ClaimCase | AssignCase | ReleaseCase | NoteCase | EscalateCase | ConcludeCase | ReopenCase | OpenAppeal,
    Field(discriminator="kind"),
]


class CaseCommand(RootModel[AnyCaseCommand]):
    """Any command about a case."""


class CaseChanged(Event):
    """The answer to every command about a case: the change is stored."""

    review_case_id: ReviewCaseId
    replayed: bool = False
    """Another request with the same Idempotency-Key had been answered with the case."""


class Decision(Frozen):
    """One decision; it never changes, but a later one may supersede it."""

    decision_id: DecisionId
    verification_id: VerificationId
    subject_id: SubjectId
    status: VerificationStatus
    decision: DecisionOutcome
    review_status: ReviewStatus
    risk_level: RiskLevel
    reasons: tuple[Reason, ...]
    recommendation: Recommendation | None = None
    review_case_id: ReviewCaseId | None = None
    decided_at: Timestamp
    decided_by: ActorType
    """SYSTEM for the machine, REVIEWER for a person."""
    reviewer_id: str | None = None
    superseded_by: DecisionId | None = None
    """Absent while it stands."""
    livemode: bool
