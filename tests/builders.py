"""Valid values for tests: each function returns one that may stand anywhere, `changes` replace its fields."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from schemas.access import ApiKey, Tenant
from schemas.audit import AuditAction, AuditEvent
from schemas.enums import (
    ActorType,
    CheckKind,
    CheckVerdict,
    DecisionOutcome,
    DocumentType,
    EvidenceKind,
    ExtractionStatus,
    ReaderClass,
    ReviewStatus,
    RiskLevel,
    Scope,
    VerificationStatus,
)
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import (
    AuditEventId,
    DecisionId,
    EndpointId,
    EventId,
    EvidenceId,
    KeyId,
    SessionId,
    SubjectId,
    TenantId,
    VerificationId,
    derive_id,
)
from schemas.verifications import (
    CheckResult,
    DeclaredDocument,
    DocumentResult,
    StoredVerification,
    Submission,
    SubmitVerification,
    Verification,
)
from schemas.webhooks import ANY_TYPE, SealedSecret, StoredEndpoint, WebhookEndpoint
from streams.ports.evidence import EvidenceDraft, EvidenceRow
from streams.ports.records import Record, RecordKind
from streams.verification import records
from streams.verification.observations import Agreement, DocumentFindings, DocumentPicture, FacesSeen
from streams.vision_ports import Sharpness

ACME: Final = TenantId(derive_id("ten", "acme"))
GLOBEX: Final = TenantId(derive_id("ten", "globex"))
SUBJECT: Final = SubjectId("customer-17")
KEY: Final = KeyId(derive_id("key", "acme", "first"))
NOW: Final = datetime(2026, 11, 21, 10, 30, 15, 123_000, tzinfo=UTC)
TODAY: Final = NOW.date()
VERIFICATION: Final = VerificationId(derive_id("ver", "acme", "first"))


def build_tenant(**changes: Any) -> Tenant:
    """A tenant."""
    return Tenant(**{"tenant_id": ACME, "name": "Acme", "created_at": NOW} | changes)


def build_api_key(**changes: Any) -> ApiKey:
    """A live key with every scope; its secret hash opens nothing."""
    values: dict[str, Any] = {
        "key_id": KEY,
        "tenant_id": ACME,
        "prefix": "abcdefghij",
        "secret_hash": "0" * 64,
        "name": "first",
        "livemode": True,
        "scopes": tuple(Scope),
        "created_at": NOW,
    }
    return ApiKey(**values | changes)


def build_declared(**changes: Any) -> DeclaredDocument:
    """What a tenant may declare; by default nothing."""
    return DeclaredDocument(**changes)


def build_submission(**changes: Any) -> Submission:
    """The personal part of a command."""
    return Submission(**{"declared": build_declared(), "ip": "203.0.113.7"} | changes)


def build_command(**changes: Any) -> SubmitVerification:
    """A live command; its sealed submission opens nothing unless it is replaced."""
    values: dict[str, Any] = {
        "tenant_id": ACME,
        "verification_id": VERIFICATION,
        "subject_id": SUBJECT,
        "livemode": True,
        "fingerprint": "f" * 64,
        "document_evidence_id": EvidenceId(derive_id("evd", "document")),
        "selfie_evidence_id": EvidenceId(derive_id("evd", "selfie")),
        "sealed_submission": "c2VhbGVk",
        "key_id": KEY,
        "request_id": "req-1",
        "requested_at": NOW,
    }
    return SubmitVerification(**values | changes)


def build_result(kind: CheckKind = CheckKind.FACE_MATCH, **changes: Any) -> CheckResult:
    """A passed check."""
    return CheckResult(**{"kind": kind, "verdict": CheckVerdict.PASSED} | changes)


def build_findings(**changes: Any) -> DocumentFindings:
    """A passport read whole: valid for years, every check digit holds, the print agrees."""
    values: dict[str, Any] = {
        "status": ExtractionStatus.EXTRACTED,
        "reader": ReaderClass.TD3_MRZ,
        "fields": build_fields(),
        "confidence": {"surname": 0.98},
        "number": "L898902C3",
        "check_digits": dict.fromkeys(("document_number", "date_of_birth", "expiry_date", "composite"), True),
        "printed": {"surname": Agreement.MATCH, "document_number": Agreement.MATCH},
    }
    return DocumentFindings(**values | changes)


def build_fields(**changes: Any) -> dict[str, Any]:
    """The fields of the specimen of ICAO Doc 9303 part 4, of a real issuer and with a later expiry."""
    fields: dict[str, Any] = {
        "surname": "ERIKSSON",
        "given_names": "ANNA MARIA",
        "full_name": "ANNA MARIA ERIKSSON",
        "date_of_birth": "1974-08-12",
        "sex": "F",
        "nationality": "NG",
        "issuing_state": "NG",
        "expiry_date": (TODAY + timedelta(days=1_000)).isoformat(),
    }
    return fields | changes


def expiring(last_day: date) -> DocumentFindings:
    """A passport read whole that ends on this day."""
    return build_findings(fields=build_fields(expiry_date=last_day.isoformat()))


def build_sharpness(**changes: Any) -> Sharpness:
    """A fair image."""
    return Sharpness(**{"blur": 300.0, "brightness": 130.0, "glare": 0.0} | changes)


def build_page_picture(**changes: Any) -> DocumentPicture:
    """A fair image of a document with its portrait."""
    values = {"whole": build_sharpness(), "portrait": build_sharpness(), "shorter_side_px": 880}
    return DocumentPicture(**values | changes)  # type: ignore[arg-type]  # changes name its fields


def build_faces(**changes: Any) -> FacesSeen:
    """One face, large and fair."""
    values = {"count": 1, "several_alike": False, "width_px": 300.0, "quality": build_sharpness()}
    return FacesSeen(**values | changes)  # type: ignore[arg-type]  # changes name its fields


def build_verification(**changes: Any) -> Verification:
    """An approved verification as it is kept: without personal fields."""
    values: dict[str, Any] = {
        "verification_id": VERIFICATION,
        "subject_id": SUBJECT,
        "created_at": NOW,
        "status": VerificationStatus.APPROVED,
        "decision": DecisionOutcome.ALLOW,
        "decision_id": DecisionId(derive_id("dec", ACME, VERIFICATION)),
        "distance": 0.31,
        "model_version": "dlib-resnet-v1@55533b28+thr.1",
        "review_status": ReviewStatus.NOT_REQUIRED,
        "risk_level": RiskLevel.LOW,
        "evidence": (records.refer(EvidenceId(derive_id("evd", "selfie")), EvidenceKind.SELFIE),),
        "document": DocumentResult(
            document_type=DocumentType.PASSPORT, extraction_status=ExtractionStatus.EXTRACTED
        ),
        "livemode": True,
    }
    return Verification(**values | changes)


def build_stored(**changes: Any) -> StoredVerification:
    """An approved verification with what is stored beside it."""
    values: dict[str, Any] = {
        "verification": build_verification(),
        "session_id": SessionId(derive_id("vs", ACME, VERIFICATION)),
        "livemode": True,
        "checks": (build_result(),),
        "risk_points": 0,
        "policy_revision": 1,
        "request_id": "req-1",
    }
    return StoredVerification(**values | changes)


def build_record(**changes: Any) -> Record:
    """The new record of an approved verification."""
    values: dict[str, Any] = {
        "tenant_id": ACME,
        "kind": RecordKind.VERIFICATION,
        "id": VERIFICATION,
        "body": build_stored().to_bytes(),
        "created_at": NOW,
        "fingerprint": "f" * 64,
        "indexes": records.indexes(livemode=True, subject_id=SUBJECT, status="APPROVED"),
    }
    return Record(**values | changes)


def build_audit_event(**changes: Any) -> AuditEvent:
    """The audit row of an evaluation."""
    values: dict[str, Any] = {
        "event_id": AuditEventId(derive_id("aud", "first")),
        "action": AuditAction.VERIFICATION_EVALUATED,
        "actor_type": ActorType.API_KEY,
        "actor_id": KEY,
        "subject_id": SUBJECT,
        "correlation_id": "req-1",
        "context": {"request_id": "req-1"},
        "detail": "A verification was evaluated.",
        "created_at": NOW,
    }
    return AuditEvent(**values | changes)


def build_decision_event(**changes: Any) -> DecisionEvent:
    """The event of an approved verification."""
    values: dict[str, Any] = {
        "id": EventId(derive_id("evt", "first")),
        "type": EventType.VERIFICATION_COMPLETED,
        "timestamp": NOW,
        "tenant_id": ACME,
        "livemode": True,
        "sequence": 1,
        "data": EventData(subject_id=SUBJECT, verification_id=VERIFICATION, status="APPROVED"),
    }
    return DecisionEvent(**values | changes)


def build_evidence_draft(content: bytes = b"image", **changes: Any) -> EvidenceDraft:
    """A document image to be kept."""
    values: dict[str, Any] = {
        "tenant_id": ACME,
        "subject_id": SUBJECT,
        "verification_id": VERIFICATION,
        "evidence_id": EvidenceId(derive_id("evd", "document")),
        "kind": EvidenceKind.IMAGE,
        "retention_policy": records.RETENTION_OF[EvidenceKind.IMAGE],
        "media_type": "image/png",
        "created_at": NOW,
    }
    return EvidenceDraft(row=EvidenceRow(**values | changes), content=content)


def build_endpoint(
    secrets: tuple[SealedSecret, ...] = (SealedSecret(sealed="sealed"),),
    *,
    tenant_id: TenantId = ACME,
    **changes: Any,
) -> StoredEndpoint:
    """An endpoint of ACME in force that asks for every live event."""
    shown = {
        "endpoint_id": EndpointId(derive_id("whe", "acme", "first")),
        "url": "https://receiver.example/hooks",
        "event_types": (ANY_TYPE,),
        "created_at": NOW,
        "livemode": True,
    }
    endpoint = WebhookEndpoint.model_validate(shown | changes)
    return StoredEndpoint(tenant_id=tenant_id, endpoint=endpoint, secrets=secrets)
