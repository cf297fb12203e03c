"""A verification: its command, its result, and its stored form (interface section 2.8)."""

from collections.abc import Iterable
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field

from schemas.base import Command, Event, Frozen, TextForm, Timestamp
from schemas.enums import (
    CheckKind,
    CheckVerdict,
    DecisionOutcome,
    DocumentType,
    EvidenceKind,
    ExtractionStatus,
    FlowType,
    Recommendation,
    RetentionPolicy,
    ReviewStatus,
    RiskLevel,
    ShownVerdict,
    VerificationStatus,
)
from schemas.ids import (
    DecisionId,
    EvidenceId,
    KeyId,
    ReviewCaseId,
    SessionId,
    SubjectId,
    TenantId,
    VerificationId,
)
from schemas.movements import MovementsResult
from schemas.reasons import ReasonCode

SUBJECT_PATTERN = r"[A-Za-z0-9._:@-]{1,128}"
"""The form of a tenant's name for its customer (G30)."""

SubjectName = Annotated[
    SubjectId,
    TextForm(
        pattern=f"^{SUBJECT_PATTERN}$",
        words="Use 1 to 128 letters from A to Z, digits, and the characters . _ : @ - for a subject.",
    ),
]
"""A subject as a request names it."""


class Evidence(Frozen):
    """A reference to stored evidence; `location` is opaque."""

    id: EvidenceId
    kind: EvidenceKind
    location: str
    retention_policy: RetentionPolicy


class Reason(Frozen):
    """Why a decision is what it is; the message is safe to show to the subject."""

    code: ReasonCode
    message: str
    pointer: str | None = Field(default=None, exclude_if=lambda pointer: pointer is None)
    """Where in the request the field stands that the reason is about (RFC 6901, R7)."""


Code_co = TypeVar("Code_co", bound=str, covariant=True)


class Coded(Protocol[Code_co]):
    """What has a reason's code."""

    @property
    def code(self) -> Code_co:
        """Of the catalogue, or a policy's own."""
        ...


def codes_of(reasons: Iterable[Coded[Code_co]]) -> tuple[Code_co, ...]:
    """Return each reason's code once, in the order of the reasons."""
    return tuple(dict.fromkeys(reason.code for reason in reasons))


class CheckSummary(Frozen):
    """What one required check found, without the numbers behind it."""

    kind: CheckKind
    verdict: ShownVerdict


class DocumentResult(Frozen):
    """The result of reading the document, without the image and the full number."""

    document_type: DocumentType
    evidence: tuple[Evidence, ...] = ()
    extracted_fields: dict[str, Any] = Field(default_factory=dict)
    extraction_status: ExtractionStatus
    expires_at: str | None = None
    issuing_country: str | None = None
    number_last4: str | None = None


class Verification(Frozen):
    """The result as tenants see it."""

    verification_id: VerificationId
    subject_id: SubjectId
    created_at: Timestamp
    status: VerificationStatus
    decision: DecisionOutcome
    decision_id: DecisionId
    distance: float | None = None
    model_version: str | None = None
    review_case_id: ReviewCaseId | None = None
    review_status: ReviewStatus
    risk_level: RiskLevel
    evidence: tuple[Evidence, ...] = ()
    reasons: tuple[Reason, ...] = ()
    document: DocumentResult | None = None
    livemode: bool
    checks: tuple[CheckSummary, ...] = ()


class DeclaredDocument(Frozen):
    """The values the tenant declared about the document: compared with what was read, never copied."""

    issuing_country: str | None = None
    number_last4: str | None = None
    expires_at: str | None = None
    extracted_fields: dict[str, Any] = Field(default_factory=dict)


class Submission(Frozen):
    """The personal part of a command; sent only sealed under the subject's key."""

    declared: DeclaredDocument
    ip: str | None = None


class AcceptedDocument(Frozen):
    """A kind of document of a country that a flow accepts."""

    document_type: DocumentType
    country: str


class SubmitVerification(Command):
    """Evaluate a document and a selfie that are already stored as evidence. Keyed by verification id."""

    tenant_id: TenantId
    verification_id: VerificationId
    subject_id: SubjectId
    livemode: bool
    fingerprint: str
    """SHA-256 of the canonical request body, hexadecimal (G2)."""
    document_evidence_id: EvidenceId
    selfie_evidence_id: EvidenceId
    sealed_submission: str
    """`Submission`, sealed by the vault under the subject's key, base64."""
    key_id: KeyId
    request_id: str
    requested_at: Timestamp
    session_id: SessionId | None = None
    """The session whose images these are; None: submitted by the tenant itself."""
    attempt: int = 1
    """Which attempt of the session it is."""
    may_retry: bool = False
    """Images that cannot be evaluated go back to the session instead of being decided."""
    flow_type: FlowType = FlowType.FULL_IDENTITY
    """DOCUMENT: there is no selfie, and both ids name the document. BIOMETRIC: there is no document, and
    its id names the portrait of an earlier verification."""
    required_checks: tuple[CheckKind, ...] = ()
    """The checks of this run; none named: those of the tenant's policy."""
    accepted_documents: tuple[AcceptedDocument, ...] = ()
    """None named: any."""
    movements: MovementsResult | None = None
    """The movements of the session's attempt; None where the flow asks for none."""
    face_search_agreed: bool = True
    """Whether the face may be searched among others', if the tenant's policy enables it: the person of a
    session agreed to it; for those the tenant itself submits, the tenant answers."""
    image_bytes: int | None = None
    """Size of both images as stored; None: not known."""


class VerificationDecided(Event):
    """The one answer to `SubmitVerification`; a replay repeats the first answer."""

    verification_id: VerificationId
    replayed: bool = False


class CheckResult(Frozen):
    """What one required check found and the number behind it."""

    kind: CheckKind
    verdict: CheckVerdict
    reasons: tuple[ReasonCode, ...] = ()
    score: float | None = None
    detail: str = ""
    """One sentence for a reviewer, without personal data."""
    pointers: tuple[str, ...] = ()
    """Which declared fields of the request differ from what was read (RFC 6901)."""


class RiskTerm(Frozen):
    """One term of the risk sum."""

    code: ReasonCode
    points: int


class Risk(Frozen):
    """The risk sum and its terms, for reviewers."""

    points: int
    level: RiskLevel
    terms: tuple[RiskTerm, ...] = ()


class PersonalFields(Frozen):
    """The personal fields read from a document; stored only sealed under the subject's key."""

    extracted_fields: dict[str, Any] = Field(default_factory=dict)
    expires_at: str | None = None
    issuing_country: str | None = None
    number_last4: str | None = None


class StoredVerification(Frozen):
    """A stored verification; the personal fields of its document are in `sealed_fields`.

    A field that is added here is shown to reviewers as a part of the explanation
    (`streams.verification.explanation`), unless it is named there as one that is not or is sealed.
    """

    verification: Verification
    sealed_fields: str | None = None
    """`PersonalFields`, sealed by the vault under the subject's key, base64."""
    session_id: SessionId
    livemode: bool
    checks: tuple[CheckResult, ...]
    risk_points: int
    risk_terms: tuple[RiskTerm, ...] = ()
    recommendation: Recommendation | None = None
    policy_revision: int
    thresholds: dict[str, Any] = Field(default_factory=dict)
    """The thresholds of the policy at that time."""
    sealed_submission: str | None = None
    """`Submission`, as the command brought it."""
    sealed_face: str | None = None
    """The vector of the subject's face, sealed by the vault; only where the tenant's policy has
    `duplicate_faces`."""
    request_id: str = ""
    """The request that created it; the same request delivered again is not a replay."""

    @property
    def risk(self) -> Risk:
        """The risk sum of the evaluation."""
        return Risk(points=self.risk_points, level=self.verification.risk_level, terms=self.risk_terms)
