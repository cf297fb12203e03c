"""A verification session: a subject's run; a direct verification gets a row of its own too (G35, G69)."""

import json
from typing import Annotated, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.enums import (
    DecisionOutcome,
    EvidenceKind,
    FlowType,
    ReviewStatus,
    RiskLevel,
    SessionStatus,
    TextEnum,
)
from schemas.flows import FlowConfiguration
from schemas.ids import (
    ChallengeId,
    EvidenceId,
    FlowId,
    KeyId,
    ReviewCaseId,
    SessionId,
    SubjectId,
    TenantId,
    VerificationId,
)
from schemas.movements import Movements
from schemas.people import SentActor
from schemas.reasons import ReasonCode

MetadataValue = str | int | float | bool | None
"""What a tenant may note at a session under each of its keys."""


class VerificationSession(Frozen):
    """One row of the reviewers' list of sessions."""

    session_id: SessionId
    subject_id: SubjectId
    flow_id: str | None = None
    flow_revision: int | None = None
    flow_type: FlowType
    status: SessionStatus
    decision: DecisionOutcome | None = None
    risk_level: RiskLevel | None = None
    review_status: ReviewStatus | None = None
    review_case_id: ReviewCaseId | None = None
    verification_id: VerificationId | None = None
    attempts: int
    created_at: Timestamp
    updated_at: Timestamp
    expires_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    livemode: bool


class SessionOpening(Frozen):
    """What the tenant gave beside flow and subject; sent and stored only sealed."""

    return_url: str | None = None
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)


class Consent(Frozen):
    """What the person chose, and under which notice (G66)."""

    accepted: bool
    notice_version: str
    locale: str | None = None
    decided_at: Timestamp


class CaptureSource(TextEnum):
    """Where the page says that an image comes from; it proves nothing."""

    CAMERA = "CAMERA"
    UPLOAD = "UPLOAD"


class Captured(Frozen):
    """A captured image, and the reasons found on it at once."""

    evidence_id: EvidenceId
    reasons: tuple[ReasonCode, ...] = ()
    kept_at: Timestamp
    source: CaptureSource = CaptureSource.UPLOAD


class Submitted(Frozen):
    """The submission of the images, and its request."""

    request_id: str
    sealed_submission: str
    """`schemas.verifications.Submission`, sealed under the subject's key, base64."""
    submitted_at: Timestamp


class StoredSession(Frozen):
    """A stored session; its personal parts are sealed."""

    session: VerificationSession
    configuration: FlowConfiguration
    """Frozen from the flow's latest revision when the session was opened."""
    locale: str | None = None
    key_id: KeyId
    """The key that opened it; for a preview of a draft, the reviewer."""
    sealed_opening: str
    """`SessionOpening`, sealed under the subject's key, base64."""
    reference: EvidenceId | None = None
    """BIOMETRIC: the portrait of the subject's last approved verification (G7)."""
    consent: Consent | None = None
    document: Captured | None = None
    selfie: Captured | None = None
    movements: Movements | None = None
    """Of the present attempt; None before the first is drawn."""
    submitted: Submitted | None = None
    """Of the attempt under way, or the last one."""
    retry_reasons: tuple[ReasonCode, ...] = ()
    """Why the last attempt must be made again."""
    watch_version: int = 1
    """Version of the record by which the scheduler finds the session."""
    requests: tuple[str, ...] = ()
    """The requests that changed it last, so that a command delivered again changes nothing."""


class SessionSlot(Frozen):
    """The record that names the session a subject opened last under a flow."""

    session_id: SessionId


class SessionWatch(Frozen):
    """When the scheduler must handle a session."""

    tenant_id: TenantId
    session_id: SessionId
    due: Timestamp | None = None


class SessionCommandBase(Command):
    """The fields of every command about a session; keyed by session id."""

    tenant_id: TenantId
    session_id: SessionId
    actor: SentActor
    requested_at: Timestamp


class OpenSession(SessionCommandBase):
    """Open a session for a subject under a flow's latest revision."""

    kind: Literal["open"] = "open"
    subject_id: SubjectId
    flow_id: FlowId
    livemode: bool
    key_id: KeyId
    locale: str | None = None
    sealed_opening: str
    """`SessionOpening`, sealed by the vault under the subject's key, base64."""
    fingerprint: str
    draft: FlowConfiguration | None = None
    """For a preview: what publishing the flow's draft would freeze (P22)."""


class StartSession(SessionCommandBase):
    """Record the person's consent decision; accepting the notice starts the session."""

    kind: Literal["start"] = "start"
    accepted: bool
    notice_version: str
    locale: str | None = None
    """The language the notice was shown in."""


class AddCapture(SessionCommandBase):
    """Add an image, already stored as evidence, to the session."""

    kind: Literal["capture"] = "capture"
    attempt: int
    """The attempt the image was stored for; its id derives from it."""
    what: Literal[EvidenceKind.IMAGE, EvidenceKind.SELFIE]
    evidence_id: EvidenceId
    reasons: tuple[ReasonCode, ...] = ()
    source: CaptureSource = CaptureSource.UPLOAD


class DrawChallenge(SessionCommandBase):
    """Draw the movements that the person is asked to make; a challenge drawn before is void."""

    kind: Literal["challenge"] = "challenge"
    attempt: int
    double_time: bool = False
    challenge_id: ChallengeId | None = None
    """Derived from the request's key, so that a repeated request draws once; None: it has no key."""


class AddFrame(SessionCommandBase):
    """Judge a frame, already stored as evidence, by the movement that is asked for."""

    kind: Literal["frame"] = "frame"
    attempt: int
    challenge_id: ChallengeId
    step: int
    evidence_id: EvidenceId


class SkipMovements(SessionCommandBase):
    """Go on without the movements; a person then looks at the images."""

    kind: Literal["skip"] = "skip"
    attempt: int


class SubmitSession(SessionCommandBase):
    """Submit the images."""

    kind: Literal["submit"] = "submit"
    attempt: int
    sealed_submission: str


class CancelSession(SessionCommandBase):
    """End a session without a submission."""

    kind: Literal["cancel"] = "cancel"


class ExpireSession(SessionCommandBase):
    """End a session that has expired."""

    kind: Literal["expire"] = "expire"


class RecordOutcome(SessionCommandBase):
    """Record the outcome of the verification; one that was never started is started."""

    kind: Literal["outcome"] = "outcome"
    attempt: int
    retry: bool = False
    """The images must be taken again; there is no verification."""
    retry_reasons: tuple[ReasonCode, ...] = ()


class SessionCommand(
    RootModel[
        Annotated[
            OpenSession
            | StartSession
            | AddCapture
            | DrawChallenge
            | AddFrame
            | SkipMovements
            | SubmitSession
            | CancelSession
            | ExpireSession
            | RecordOutcome,
            Field(discriminator="kind"),
        ]
    ]
):
    """Any command about a session."""


class SessionChanged(Event):
    """The answer to every command about a session: the change is stored."""

    session_id: SessionId
    """For `OpenSession`: the session that is open, which may be one opened before."""
    created: bool = False
    """This very request opened it."""
    replayed: bool = False
    """An earlier request with the same key had opened it."""


class OpenedSession(Frozen):
    """The answer to an opening."""

    session_id: SessionId
    url: str
    client_token: str
    expires_at: Timestamp
    flow_revision: int
    configuration: FlowConfiguration


class CaptureSources(Frozen):
    """Where the images of the last attempt come from, as the page said; None without such an image."""

    document: CaptureSource | None
    selfie: CaptureSource | None


class SessionDetail(VerificationSession):
    """One session: its row, and the configuration it runs under; a direct verification has none."""

    configuration: FlowConfiguration | None = None
    locale: str | None = None
    """The language the tenant requested."""
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)
    """What the tenant gave when it opened the session; empty once the subject was erased."""
    capture_sources: CaptureSources | None = None
    """None for a direct verification."""


def row_of(raw: bytes) -> VerificationSession:
    """Return the row of a session's record, whether it was hosted here or stands for a direct verification.

    Raises:
        pydantic.ValidationError: The bytes are neither.
    """
    hosted = stored_of(raw)
    return hosted.session if hosted is not None else VerificationSession.from_bytes(raw)


def stored_of(raw: bytes) -> StoredSession | None:
    """Return the whole of a hosted session; None for the row of a direct verification."""
    return StoredSession.from_bytes(raw) if "session" in json.loads(raw) else None


def with_row(raw: bytes, row: VerificationSession) -> bytes:
    """Return the record's body with another row, as when a reviewer concludes."""
    hosted = stored_of(raw)
    return (hosted.model_copy(update={"session": row}) if hosted is not None else row).to_bytes()


def sources_of(stored: StoredSession) -> CaptureSources:
    """Return where the images of a hosted session come from, as the page said."""
    document, selfie = stored.document, stored.selfie
    return CaptureSources(
        document=document.source if document is not None else None,
        selfie=selfie.source if selfie is not None else None,
    )
