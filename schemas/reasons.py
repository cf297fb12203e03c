"""Why a decision is what it is: the closed catalogue of reasons (G12)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from schemas.base import Frozen
from schemas.enums import CheckVerdict, TextEnum


class ReasonCode(TextEnum):
    """The reason, for programs; the list grows only by review."""

    IMAGE_BLURRED = "IMAGE_BLURRED"
    IMAGE_TOO_DARK = "IMAGE_TOO_DARK"
    IMAGE_GLARE = "IMAGE_GLARE"
    IMAGE_CROPPED = "IMAGE_CROPPED"
    IMAGE_TOO_SMALL = "IMAGE_TOO_SMALL"
    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND"
    WRONG_SIDE = "WRONG_SIDE"
    DOCUMENT_TYPE_NOT_ACCEPTED = "DOCUMENT_TYPE_NOT_ACCEPTED"
    COUNTRY_NOT_ACCEPTED = "COUNTRY_NOT_ACCEPTED"
    DOCUMENT_EXPIRED = "DOCUMENT_EXPIRED"
    DOCUMENT_EXPIRING = "DOCUMENT_EXPIRING"
    EXTRACTION_INCOMPLETE = "EXTRACTION_INCOMPLETE"
    NUMBER_MISMATCH = "NUMBER_MISMATCH"
    MRZ_CHECK_DIGIT_FAILED = "MRZ_CHECK_DIGIT_FAILED"
    MRZ_VISUAL_MISMATCH = "MRZ_VISUAL_MISMATCH"
    DECLARED_FIELD_MISMATCH = "DECLARED_FIELD_MISMATCH"
    QR_MISMATCH = "QR_MISMATCH"
    NIN_FORMAT_INVALID = "NIN_FORMAT_INVALID"
    DOCUMENT_TAMPERING_SUSPECTED = "DOCUMENT_TAMPERING_SUSPECTED"
    SCREEN_CAPTURE_SUSPECTED = "SCREEN_CAPTURE_SUSPECTED"
    PRINTED_COPY_SUSPECTED = "PRINTED_COPY_SUSPECTED"
    PORTRAIT_TAMPERING_SUSPECTED = "PORTRAIT_TAMPERING_SUSPECTED"
    FACE_NOT_FOUND_DOCUMENT = "FACE_NOT_FOUND_DOCUMENT"
    FACE_NOT_FOUND_SELFIE = "FACE_NOT_FOUND_SELFIE"
    MULTIPLE_FACES = "MULTIPLE_FACES"
    FACE_MISMATCH = "FACE_MISMATCH"
    FACE_MATCH_UNCERTAIN = "FACE_MATCH_UNCERTAIN"
    LIVENESS_FAILED = "LIVENESS_FAILED"
    LIVENESS_UNCERTAIN = "LIVENESS_UNCERTAIN"
    SELFIE_REUSED = "SELFIE_REUSED"
    SANCTIONS_MATCH = "SANCTIONS_MATCH"
    SANCTIONS_POSSIBLE_MATCH = "SANCTIONS_POSSIBLE_MATCH"
    PEP_MATCH = "PEP_MATCH"
    ADVERSE_MEDIA_MATCH = "ADVERSE_MEDIA_MATCH"
    AUTHORITY_MISMATCH = "AUTHORITY_MISMATCH"
    AUTHORITY_UNAVAILABLE = "AUTHORITY_UNAVAILABLE"
    DUPLICATE_SUBJECT = "DUPLICATE_SUBJECT"
    ATTEMPTS_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
    UNDER_AGE = "UNDER_AGE"
    CONSENT_DECLINED = "CONSENT_DECLINED"
    REVIEWER_APPROVED = "REVIEWER_APPROVED"
    REVIEWER_REJECTED = "REVIEWER_REJECTED"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    POLICY_UNAVAILABLE = "POLICY_UNAVAILABLE"
    SUBJECT_SUSPENDED = "SUBJECT_SUSPENDED"
    STREAM_ENDED = "STREAM_ENDED"
    HOLD_EXPIRED = "HOLD_EXPIRED"
    SCORE_THRESHOLD = "SCORE_THRESHOLD"
    CHECK_UNAVAILABLE = "CHECK_UNAVAILABLE"
    LIST_MISSING = "LIST_MISSING"
    LIST_STALE = "LIST_STALE"
    WALLET_LISTED = "WALLET_LISTED"
    WALLET_EXPOSED = "WALLET_EXPOSED"
    WALLET_UNVERIFIED = "WALLET_UNVERIFIED"
    PHONE_INVALID = "PHONE_INVALID"
    PHONE_VOIP = "PHONE_VOIP"
    PHONE_PREMIUM = "PHONE_PREMIUM"
    PHONE_COUNTRY_MISMATCH = "PHONE_COUNTRY_MISMATCH"
    PHONE_SHARED = "PHONE_SHARED"
    EMAIL_INVALID = "EMAIL_INVALID"
    EMAIL_DISPOSABLE = "EMAIL_DISPOSABLE"
    EMAIL_ROLE = "EMAIL_ROLE"
    EMAIL_SHARED = "EMAIL_SHARED"
    ADDRESS_INCOMPLETE = "ADDRESS_INCOMPLETE"
    ADDRESS_COUNTRY_MISMATCH = "ADDRESS_COUNTRY_MISMATCH"
    ADDRESS_SANCTIONED_TERRITORY = "ADDRESS_SANCTIONED_TERRITORY"


class ReasonCategory(TextEnum):
    """What a reason is about."""

    IMAGE = "IMAGE"
    DOCUMENT = "DOCUMENT"
    AUTHENTICITY = "AUTHENTICITY"
    FACE = "FACE"
    SCREENING = "SCREENING"
    SUBJECT = "SUBJECT"
    SYSTEM = "SYSTEM"
    TRANSACTION = "TRANSACTION"
    WALLET = "WALLET"
    CONTACT = "CONTACT"


class Severity(TextEnum):
    """The severity of a reason; the policy publishes the points of each."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class ReasonEntry(Frozen):
    """One line of the catalogue as `GET /v1/reason-codes` serves it."""

    code: ReasonCode
    category: ReasonCategory
    severity: Severity
    retryable: bool
    """Whether the subject may succeed by trying again, with another image or at another time."""
    subject_message: str
    """Safe to show to the subject; an authenticity reason says no more than that it was not accepted."""
    reviewer_message: str
    simulate: str
    """The sandbox subject that produces this reason (G64)."""


_LAST_OF: Final = (
    (ReasonCode.WRONG_SIDE, ReasonCategory.IMAGE),
    (ReasonCode.NIN_FORMAT_INVALID, ReasonCategory.DOCUMENT),
    (ReasonCode.PORTRAIT_TAMPERING_SUSPECTED, ReasonCategory.AUTHENTICITY),
    (ReasonCode.SELFIE_REUSED, ReasonCategory.FACE),
    (ReasonCode.AUTHORITY_UNAVAILABLE, ReasonCategory.SCREENING),
    (ReasonCode.REVIEWER_REJECTED, ReasonCategory.SUBJECT),
    (ReasonCode.POLICY_UNAVAILABLE, ReasonCategory.SYSTEM),
    (ReasonCode.LIST_STALE, ReasonCategory.TRANSACTION),
    (ReasonCode.WALLET_UNVERIFIED, ReasonCategory.WALLET),
    (ReasonCode.ADDRESS_SANCTIONED_TERRITORY, ReasonCategory.CONTACT),
)
"""The last code of each category, in the order of `ReasonCode`."""

_LOW, _MEDIUM, _HIGH, _CRITICAL = Severity
_WARNED, _OPEN, _UNCLEAR = CheckVerdict.WARNED, CheckVerdict.NOT_EVALUATED, CheckVerdict.UNCLEAR
_FAILED, _BROKEN = CheckVerdict.FAILED, CheckVerdict.BROKEN
_AGAIN, _FINAL = True, False

_WEIGHTS: Final = {
    ReasonCode.IMAGE_BLURRED: (_LOW, _WARNED, _AGAIN),
    ReasonCode.IMAGE_TOO_DARK: (_LOW, _WARNED, _AGAIN),
    ReasonCode.IMAGE_GLARE: (_LOW, _WARNED, _AGAIN),
    ReasonCode.IMAGE_CROPPED: (_LOW, _UNCLEAR, _AGAIN),
    ReasonCode.IMAGE_TOO_SMALL: (_LOW, _WARNED, _AGAIN),
    ReasonCode.DOCUMENT_NOT_FOUND: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.WRONG_SIDE: (_LOW, _UNCLEAR, _AGAIN),
    ReasonCode.DOCUMENT_TYPE_NOT_ACCEPTED: (_MEDIUM, _FAILED, _AGAIN),
    ReasonCode.COUNTRY_NOT_ACCEPTED: (_MEDIUM, _FAILED, _AGAIN),
    ReasonCode.DOCUMENT_EXPIRED: (_HIGH, _FAILED, _FINAL),
    ReasonCode.DOCUMENT_EXPIRING: (_LOW, _WARNED, _FINAL),
    ReasonCode.EXTRACTION_INCOMPLETE: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.NUMBER_MISMATCH: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.MRZ_CHECK_DIGIT_FAILED: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.MRZ_VISUAL_MISMATCH: (_MEDIUM, _UNCLEAR, _FINAL),
    ReasonCode.DECLARED_FIELD_MISMATCH: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.QR_MISMATCH: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.NIN_FORMAT_INVALID: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.DOCUMENT_TAMPERING_SUSPECTED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.SCREEN_CAPTURE_SUSPECTED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.PRINTED_COPY_SUSPECTED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.PORTRAIT_TAMPERING_SUSPECTED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.FACE_NOT_FOUND_DOCUMENT: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.FACE_NOT_FOUND_SELFIE: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.MULTIPLE_FACES: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.FACE_MISMATCH: (_HIGH, _FAILED, _FINAL),
    ReasonCode.FACE_MATCH_UNCERTAIN: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.LIVENESS_FAILED: (_HIGH, _FAILED, _AGAIN),
    ReasonCode.LIVENESS_UNCERTAIN: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.SELFIE_REUSED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.SANCTIONS_MATCH: (_CRITICAL, _FAILED, _FINAL),
    ReasonCode.SANCTIONS_POSSIBLE_MATCH: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.PEP_MATCH: (_MEDIUM, _UNCLEAR, _FINAL),
    ReasonCode.ADVERSE_MEDIA_MATCH: (_MEDIUM, _UNCLEAR, _FINAL),
    ReasonCode.AUTHORITY_MISMATCH: (_HIGH, _FAILED, _FINAL),
    ReasonCode.AUTHORITY_UNAVAILABLE: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.DUPLICATE_SUBJECT: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.ATTEMPTS_EXHAUSTED: (_MEDIUM, _FAILED, _FINAL),
    ReasonCode.UNDER_AGE: (_HIGH, _FAILED, _FINAL),
    ReasonCode.CONSENT_DECLINED: (_LOW, _FAILED, _AGAIN),
    ReasonCode.REVIEWER_APPROVED: (_LOW, _UNCLEAR, _FINAL),
    ReasonCode.REVIEWER_REJECTED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.PROVIDER_UNAVAILABLE: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.MODEL_UNAVAILABLE: (_MEDIUM, _OPEN, _AGAIN),
    ReasonCode.POLICY_UNAVAILABLE: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.SUBJECT_SUSPENDED: (_HIGH, _FAILED, _FINAL),
    ReasonCode.STREAM_ENDED: (_HIGH, _FAILED, _FINAL),
    ReasonCode.HOLD_EXPIRED: (_MEDIUM, _UNCLEAR, _AGAIN),
    ReasonCode.SCORE_THRESHOLD: (_MEDIUM, _UNCLEAR, _FINAL),
    ReasonCode.CHECK_UNAVAILABLE: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.LIST_MISSING: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.LIST_STALE: (_MEDIUM, _BROKEN, _AGAIN),
    ReasonCode.WALLET_LISTED: (_CRITICAL, _FAILED, _FINAL),
    ReasonCode.WALLET_EXPOSED: (_HIGH, _UNCLEAR, _FINAL),
    ReasonCode.WALLET_UNVERIFIED: (_LOW, _WARNED, _AGAIN),
    ReasonCode.PHONE_INVALID: (_LOW, _WARNED, _AGAIN),
    ReasonCode.PHONE_VOIP: (_LOW, _WARNED, _FINAL),
    ReasonCode.PHONE_PREMIUM: (_MEDIUM, _WARNED, _FINAL),
    ReasonCode.PHONE_COUNTRY_MISMATCH: (_LOW, _WARNED, _FINAL),
    ReasonCode.PHONE_SHARED: (_MEDIUM, _WARNED, _FINAL),
    ReasonCode.EMAIL_INVALID: (_LOW, _WARNED, _AGAIN),
    ReasonCode.EMAIL_DISPOSABLE: (_MEDIUM, _WARNED, _FINAL),
    ReasonCode.EMAIL_ROLE: (_LOW, _WARNED, _FINAL),
    ReasonCode.EMAIL_SHARED: (_MEDIUM, _WARNED, _FINAL),
    ReasonCode.ADDRESS_INCOMPLETE: (_LOW, _WARNED, _AGAIN),
    ReasonCode.ADDRESS_COUNTRY_MISMATCH: (_LOW, _WARNED, _FINAL),
    ReasonCode.ADDRESS_SANCTIONED_TERRITORY: (_HIGH, _FAILED, _FINAL),
}
"""Severity, the verdict a check gives with this reason unless a rule knows better, and retryable."""


def category_of(code: ReasonCode) -> ReasonCategory:
    """Return what a reason is about."""
    order = list(ReasonCode)
    return next(category for last, category in _LAST_OF if order.index(code) <= order.index(last))


def weight_of(code: ReasonCode) -> tuple[Severity, CheckVerdict, bool]:
    """Return the severity of a reason, the usual verdict of a check with it, and whether it is retryable."""
    return _WEIGHTS[code]


VERDICT_OF: Final[Mapping[ReasonCode, CheckVerdict]] = MappingProxyType(
    {code: verdict for code, (_, verdict, _) in _WEIGHTS.items()}
)
"""The default verdict of a check with this reason; a rule may give a milder or more severe one."""
