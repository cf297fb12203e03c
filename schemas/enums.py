"""The closed vocabularies of the interface (section 2.7) and of the decisions that complete it."""

from enum import StrEnum, nonmember
from operator import attrgetter


class TextEnum(StrEnum):
    """A `StrEnum` whose `value` takes no call into Python; they took 3 % of a verification's time."""

    value = nonmember(property(attrgetter("_value_")))


class FlowType(TextEnum):
    """The type of a flow."""

    BIOMETRIC = "BIOMETRIC"
    DOCUMENT = "DOCUMENT"
    FULL_IDENTITY = "FULL_IDENTITY"


class FlowStatus(TextEnum):
    """The status of a flow."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


class CheckKind(TextEnum):
    """What can be checked; a policy naming any other check fails to load."""

    FACE_MATCH = "FACE_MATCH"
    LIVENESS = "LIVENESS"
    AUTHENTICITY = "AUTHENTICITY"
    DOCUMENT_EXTRACTION = "DOCUMENT_EXTRACTION"
    DOCUMENT_CONSISTENCY = "DOCUMENT_CONSISTENCY"
    DOCUMENT_AUTHORITY = "DOCUMENT_AUTHORITY"
    SANCTIONS = "SANCTIONS"
    PEP = "PEP"
    ADVERSE_MEDIA = "ADVERSE_MEDIA"
    ADDRESS = "ADDRESS"
    PHONE = "PHONE"
    EMAIL = "EMAIL"


class CheckVerdict(TextEnum):
    """What one check found."""

    PASSED = "PASSED"
    WARNED = "WARNED"
    NOT_EVALUATED = "NOT_EVALUATED"
    UNCLEAR = "UNCLEAR"
    FAILED = "FAILED"
    BROKEN = "BROKEN"
    """The check itself failed or timed out, which says nothing about the subject (G70)."""


class ShownVerdict(TextEnum):
    """What one check found, as shown to tenants."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNCLEAR = "UNCLEAR"
    NOT_EVALUATED = "NOT_EVALUATED"


class FieldKey(TextEnum):
    """A field of a document, as it is read and as it may be declared."""

    SURNAME = "surname"
    GIVEN_NAMES = "given_names"
    FULL_NAME = "full_name"
    DATE_OF_BIRTH = "date_of_birth"
    SEX = "sex"
    NATIONALITY = "nationality"
    ISSUING_STATE = "issuing_state"
    EXPIRY_DATE = "expiry_date"
    DOCUMENT_CODE = "document_code"
    PERSONAL_NUMBER_PRESENT = "personal_number_present"
    MRZ_CHECKS = "mrz_checks"
    FIRST_NAME = "first_name"
    MIDDLE_NAME = "middle_name"
    GENDER = "gender"
    TRACKING_ID = "tracking_id"
    ADDRESS = "address"


class DocumentType(TextEnum):
    """The kind of identity document."""

    PASSPORT = "PASSPORT"
    DRIVING_LICENCE = "DRIVING_LICENCE"
    NATIONAL_ID = "NATIONAL_ID"
    RESIDENCE_PERMIT = "RESIDENCE_PERMIT"
    NIN_SLIP = "NIN_SLIP"
    OTHER = "OTHER"


class ReaderClass(TextEnum):
    """The machines that read documents; each class has a reader behind it."""

    NG_NIN_SLIP = "NG_NIN_SLIP"
    TD3_MRZ = "TD3_MRZ"


class ExtractionStatus(TextEnum):
    """How far a document was read."""

    EXTRACTED = "EXTRACTED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    UNSUPPORTED = "UNSUPPORTED"
    NOT_REQUESTED = "NOT_REQUESTED"


class VerificationStatus(TextEnum):
    """The status of a verification."""

    APPROVED = "APPROVED"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


class DecisionOutcome(TextEnum):
    """The outcome of a decision, in the interface's order."""

    ALLOW = "ALLOW"
    WARN = "WARN"
    BLOCK = "BLOCK"
    HOLD = "HOLD"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    FLAG = "FLAG"
    BLOCK_RECOMMENDED = "BLOCK_RECOMMENDED"
    SUSPEND = "SUSPEND"
    END_STREAM = "END_STREAM"


class ReviewStatus(TextEnum):
    """The status of the review of a decision; it is about the decision, not the person."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    OVERTURNED = "OVERTURNED"
    NOT_REQUIRED = "NOT_REQUIRED"


class Recommendation(TextEnum):
    """The recommended decision."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


class RiskLevel(TextEnum):
    """The level of the risk sum."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class EvidenceKind(TextEnum):
    """What a piece of evidence is."""

    IMAGE = "IMAGE"
    PORTRAIT = "PORTRAIT"
    SELFIE = "SELFIE"
    EXTRACTION = "EXTRACTION"
    LIVENESS_TRACE = "LIVENESS_TRACE"
    SCREENING_RESULT = "SCREENING_RESULT"
    AUTHORITY_RESPONSE = "AUTHORITY_RESPONSE"


class RetentionPolicy(TextEnum):
    """How long evidence is stored; the duration is in the name."""

    DOCUMENT_P90D = "DOCUMENT_P90D"
    BIOMETRIC_P30D = "BIOMETRIC_P30D"
    LEGAL_HOLD = "LEGAL_HOLD"
    REDACTED = "REDACTED"


class ActorType(TextEnum):
    """Who acted."""

    API_KEY = "API_KEY"
    REVIEWER = "REVIEWER"
    OPERATOR = "OPERATOR"
    SUBJECT = "SUBJECT"
    SYSTEM = "SYSTEM"


class SessionStatus(TextEnum):
    """The status of a verification session."""

    CREATED = "CREATED"
    STARTED = "STARTED"
    SUBMITTED = "SUBMITTED"
    PROCESSING = "PROCESSING"
    APPROVED = "APPROVED"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class CaseKind(TextEnum):
    """What a review case is about."""

    VERIFICATION = "VERIFICATION"
    TRANSACTION = "TRANSACTION"
    WALLET = "WALLET"
    SCREENING = "SCREENING"
    APPEAL = "APPEAL"


class CaseStatus(TextEnum):
    """The status of a review case."""

    OPEN = "OPEN"
    IN_REVIEW = "IN_REVIEW"
    AWAITING_SECOND = "AWAITING_SECOND"
    ESCALATED = "ESCALATED"
    CONCLUDED = "CONCLUDED"


class Scope(TextEnum):
    """What a tenant key may do."""

    VERIFICATIONS_WRITE = "verifications:write"
    VERIFICATIONS_READ = "verifications:read"
    SESSIONS_WRITE = "sessions:write"
    FLOWS_READ = "flows:read"
    TRANSACTIONS_WRITE = "transactions:write"
    TRANSACTIONS_READ = "transactions:read"
    WALLETS_WRITE = "wallets:write"
    WALLETS_READ = "wallets:read"
    POLICIES_READ = "policies:read"
    POLICIES_WRITE = "policies:write"
    LISTS_READ = "lists:read"
    LISTS_WRITE = "lists:write"
    SCREENINGS_READ = "screenings:read"
    SCREENINGS_WRITE = "screenings:write"
    WEBHOOKS_MANAGE = "webhooks:manage"
    EVENTS_READ = "events:read"
    AUDIT_READ = "audit:read"
