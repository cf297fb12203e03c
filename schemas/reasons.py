"""Why a decision is what it is: the closed catalogue of reasons (G12)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from schemas.base import Frozen
from schemas.enums import CheckVerdict


class ReasonCode(StrEnum):
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


class ReasonCategory(StrEnum):
    """What a reason is about."""

    IMAGE = "IMAGE"
    DOCUMENT = "DOCUMENT"
    AUTHENTICITY = "AUTHENTICITY"
    FACE = "FACE"
    SCREENING = "SCREENING"
    SUBJECT = "SUBJECT"
    SYSTEM = "SYSTEM"


class Severity(StrEnum):
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
}
"""Severity, the verdict a check gives with this reason unless a rule knows better, and retryable."""

_SUBJECT: Final = {
    ReasonCode.IMAGE_BLURRED: "The image is blurred. Please take it again.",
    ReasonCode.IMAGE_TOO_DARK: "The image is too dark. Please take it again.",
    ReasonCode.IMAGE_GLARE: "There is glare on the image. Please take it again.",
    ReasonCode.IMAGE_CROPPED: "Part of the document is not on the image.",
    ReasonCode.IMAGE_TOO_SMALL: "The image is too small. Please take it closer.",
    ReasonCode.DOCUMENT_NOT_FOUND: "No document was found on the image.",
    ReasonCode.WRONG_SIDE: "Please show the other side of the document.",
    ReasonCode.DOCUMENT_TYPE_NOT_ACCEPTED: "This kind of document is not accepted.",
    ReasonCode.COUNTRY_NOT_ACCEPTED: "Documents of this country are not accepted.",
    ReasonCode.DOCUMENT_EXPIRED: "The document has expired.",
    ReasonCode.DOCUMENT_EXPIRING: "The document expires soon.",
    ReasonCode.EXTRACTION_INCOMPLETE: "The document could not be read completely.",
    ReasonCode.NUMBER_MISMATCH: "The document number differs from the one given.",
    ReasonCode.MRZ_CHECK_DIGIT_FAILED: "The document could not be read reliably.",
    ReasonCode.MRZ_VISUAL_MISMATCH: "The document could not be accepted.",
    ReasonCode.DECLARED_FIELD_MISMATCH: "The details given differ from the document.",
    ReasonCode.QR_MISMATCH: "The document could not be accepted.",
    ReasonCode.NIN_FORMAT_INVALID: "The identification number could not be read.",
    ReasonCode.DOCUMENT_TAMPERING_SUSPECTED: "The document could not be accepted.",
    ReasonCode.SCREEN_CAPTURE_SUSPECTED: "The document could not be accepted.",
    ReasonCode.PRINTED_COPY_SUSPECTED: "The document could not be accepted.",
    ReasonCode.PORTRAIT_TAMPERING_SUSPECTED: "The document could not be accepted.",
    ReasonCode.FACE_NOT_FOUND_DOCUMENT: "No portrait was found on the document.",
    ReasonCode.FACE_NOT_FOUND_SELFIE: "No face was found on the selfie.",
    ReasonCode.MULTIPLE_FACES: "More than one face is on the image.",
    ReasonCode.FACE_MISMATCH: "The selfie does not match the document.",
    ReasonCode.FACE_MATCH_UNCERTAIN: "The selfie could not be matched with certainty.",
    ReasonCode.LIVENESS_FAILED: "The selfie could not be accepted.",
    ReasonCode.LIVENESS_UNCERTAIN: "The selfie could not be accepted with certainty.",
    ReasonCode.SELFIE_REUSED: "The selfie could not be accepted.",
    ReasonCode.SANCTIONS_MATCH: "The verification could not be completed.",
    ReasonCode.SANCTIONS_POSSIBLE_MATCH: "The verification needs a closer look.",
    ReasonCode.PEP_MATCH: "The verification needs a closer look.",
    ReasonCode.ADVERSE_MEDIA_MATCH: "The verification needs a closer look.",
    ReasonCode.AUTHORITY_MISMATCH: "The details could not be confirmed.",
    ReasonCode.AUTHORITY_UNAVAILABLE: "The details could not be confirmed for now.",
    ReasonCode.DUPLICATE_SUBJECT: "The verification needs a closer look.",
    ReasonCode.ATTEMPTS_EXHAUSTED: "There are no attempts left.",
    ReasonCode.UNDER_AGE: "The minimum age is not met.",
    ReasonCode.CONSENT_DECLINED: "Consent was not given.",
    ReasonCode.REVIEWER_APPROVED: "The verification was approved after a review.",
    ReasonCode.REVIEWER_REJECTED: "The verification was declined after a review.",
    ReasonCode.PROVIDER_UNAVAILABLE: "The verification could not be completed. Please try again.",
    ReasonCode.MODEL_UNAVAILABLE: "The verification needs a closer look.",
    ReasonCode.POLICY_UNAVAILABLE: "The verification could not be completed. Please try again.",
}

_REVIEWER: Final = {
    ReasonCode.IMAGE_BLURRED: "The image is less sharp than the policy asks.",
    ReasonCode.IMAGE_TOO_DARK: "The image is darker than the policy asks.",
    ReasonCode.IMAGE_GLARE: "A part of the image that matters is burnt out.",
    ReasonCode.IMAGE_CROPPED: "The document reaches over the edge of the image.",
    ReasonCode.IMAGE_TOO_SMALL: "Too few pixels for a dependable reading.",
    ReasonCode.DOCUMENT_NOT_FOUND: "The image holds a face but no document text.",
    ReasonCode.WRONG_SIDE: "The side with the portrait and data is needed.",
    ReasonCode.DOCUMENT_TYPE_NOT_ACCEPTED: "The policy does not accept this kind of document.",
    ReasonCode.COUNTRY_NOT_ACCEPTED: "The policy does not accept the issuing country.",
    ReasonCode.DOCUMENT_EXPIRED: "The expiry date read from the document has passed.",
    ReasonCode.DOCUMENT_EXPIRING: "The expiry date lies within the warning period of the policy.",
    ReasonCode.EXTRACTION_INCOMPLETE: "A needed field was not read, or no reader knows the document.",
    ReasonCode.NUMBER_MISMATCH: "The declared last four differ from the number read.",
    ReasonCode.MRZ_CHECK_DIGIT_FAILED: "A check digit of the machine-readable zone does not hold.",
    ReasonCode.MRZ_VISUAL_MISMATCH: "The printed fields and the machine-readable zone disagree.",
    ReasonCode.DECLARED_FIELD_MISMATCH: "A declared value differs from what was read.",
    ReasonCode.QR_MISMATCH: "The QR code carries another number than the print.",
    ReasonCode.NIN_FORMAT_INVALID: "The number read is not eleven digits.",
    ReasonCode.DOCUMENT_TAMPERING_SUSPECTED: "The document contradicts itself, such as an impossible date.",
    ReasonCode.SCREEN_CAPTURE_SUSPECTED: "The image looks like a photograph of a screen.",
    ReasonCode.PRINTED_COPY_SUSPECTED: "The image looks like a photograph of a copy.",
    ReasonCode.PORTRAIT_TAMPERING_SUSPECTED: "The portrait contradicts the rest of the document.",
    ReasonCode.FACE_NOT_FOUND_DOCUMENT: "No face was found on the document image.",
    ReasonCode.FACE_NOT_FOUND_SELFIE: "No face was found on the selfie image.",
    ReasonCode.MULTIPLE_FACES: "Several faces of like size; which one counts is not clear.",
    ReasonCode.FACE_MISMATCH: "The face distance is above the reject threshold.",
    ReasonCode.FACE_MATCH_UNCERTAIN: "The face distance lies between the two thresholds.",
    ReasonCode.LIVENESS_FAILED: "The liveness score is below the reject threshold.",
    ReasonCode.LIVENESS_UNCERTAIN: "The liveness score lies between the two thresholds.",
    ReasonCode.SELFIE_REUSED: "The selfie shows the document, another document, or a copy of the portrait.",
    ReasonCode.SANCTIONS_MATCH: "The subject is on a sanctions list.",
    ReasonCode.SANCTIONS_POSSIBLE_MATCH: "The subject resembles an entry of a sanctions list.",
    ReasonCode.PEP_MATCH: "The subject may be a politically exposed person.",
    ReasonCode.ADVERSE_MEDIA_MATCH: "The subject may be named in adverse media.",
    ReasonCode.AUTHORITY_MISMATCH: "The issuing authority answers other details.",
    ReasonCode.AUTHORITY_UNAVAILABLE: "The issuing authority did not answer.",
    ReasonCode.DUPLICATE_SUBJECT: "The same picture, or the same face, is already kept for another subject.",
    ReasonCode.ATTEMPTS_EXHAUSTED: "Every attempt the flow allows was used.",
    ReasonCode.UNDER_AGE: "The birth date read is below the minimum age of the policy.",
    ReasonCode.CONSENT_DECLINED: "The subject declined the consent notice.",
    ReasonCode.REVIEWER_APPROVED: "A reviewer approved the verification.",
    ReasonCode.REVIEWER_REJECTED: "A reviewer rejected the verification.",
    ReasonCode.PROVIDER_UNAVAILABLE: "An engine or provider broke or ran out of time.",
    ReasonCode.MODEL_UNAVAILABLE: "No engine is configured for a required check.",
    ReasonCode.POLICY_UNAVAILABLE: "The policy could not be read.",
}

_SCENARIO_OF: Final = {
    CheckVerdict.WARNED: "warn",
    CheckVerdict.NOT_EVALUATED: "review",
    CheckVerdict.UNCLEAR: "review",
    CheckVerdict.FAILED: "reject",
    CheckVerdict.BROKEN: "fail",
}


def _category(code: ReasonCode) -> ReasonCategory:
    order = list(ReasonCode)
    return next(category for last, category in _LAST_OF if order.index(code) <= order.index(last))


def _entry(code: ReasonCode) -> ReasonEntry:
    severity, verdict, retryable = _WEIGHTS[code]
    return ReasonEntry(
        code=code,
        category=_category(code),
        severity=severity,
        retryable=retryable,
        subject_message=_SUBJECT[code],
        reviewer_message=_REVIEWER[code],
        simulate=f"sim:{_SCENARIO_OF[verdict]}:{code}",
    )


CATALOGUE: Final[Mapping[ReasonCode, ReasonEntry]] = MappingProxyType(
    {code: _entry(code) for code in ReasonCode}
)
"""The catalogue entry of every reason."""

VERDICT_OF: Final[Mapping[ReasonCode, CheckVerdict]] = MappingProxyType(
    {code: verdict for code, (_, verdict, _) in _WEIGHTS.items()}
)
"""The default verdict of a check with this reason; a rule may give a milder or more severe one."""
