"""The verdict of each check on the observations; pure.

AUTHENTICITY claims only what can be shown on paper: check digits, dates a calendar has, one portrait.
A passed check says that no inconsistency was found, never that the document is genuine.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

from schemas.enums import CheckKind, CheckVerdict, ExtractionStatus, ReaderClass
from schemas.reasons import ReasonCode
from schemas.verifications import CheckResult, DeclaredDocument
from streams.verification.declared_values import code_at, disagreements
from streams.verification.observations import Agreement, DocumentFindings, DocumentPicture, FacesSeen, unread
from streams.verification.policy import FaceBands, ImageThresholds, SharpnessFloor, VerificationPolicy
from streams.verification.readers import nin_slip, td3_mrz
from streams.verification.rules import Finding, Match, found, match, usual
from streams.vision_ports import Sharpness

_AGREEMENT_TEXT: Final = {
    Agreement.MATCH: "the same",
    Agreement.MISMATCH: "different",
    Agreement.NOT_FOUND: "not found",
}

REQUIRED: Final[Mapping[ReaderClass, Sequence[str]]] = {
    ReaderClass.TD3_MRZ: td3_mrz.REQUIRED,
    ReaderClass.NG_NIN_SLIP: nin_slip.REQUIRED,
}
"""The fields each reader must read for a document to count as read."""
NIN_DIGITS = 11
"""Length of a Nigerian National Identification Number."""


def judge_extraction(
    policy: VerificationPolicy, findings: DocumentFindings, picture: DocumentPicture
) -> CheckResult:
    """DOCUMENT_EXTRACTION: were all fields of this document class read, on an image of good quality?"""
    reasons = [*_unread(findings), *document_image_findings(policy.images, findings, picture)]
    detail = f"Reader {findings.reader or 'none'}, {findings.status}, {findings.repairs} characters repaired."
    if findings.reader is not None and findings.status is not ExtractionStatus.EXTRACTED:
        detail += (
            f" Missing or in doubt: {', '.join(unread(findings.confidence, REQUIRED[findings.reader]))}."
        )
    return found(CheckKind.DOCUMENT_EXTRACTION, reasons, detail=detail)


def judge_authenticity(
    policy: VerificationPolicy, findings: DocumentFindings, faces: FacesSeen
) -> CheckResult:
    """AUTHENTICITY: does the document contradict itself in a provable way?"""
    reasons = [*_unread(findings), *_self_contradictions(findings)]
    if faces.count == 0:
        reasons += usual(ReasonCode.FACE_NOT_FOUND_DOCUMENT)
    elif faces.several_alike:
        reasons += usual(ReasonCode.MULTIPLE_FACES)
    valid = sum(findings.check_digits.values())
    detail = (
        f"{valid} of {len(findings.check_digits)} check digits hold, {faces.count} faces on the document. "
        f"Consistency and integrity were checked under policy revision {policy.revision}, not genuineness."
    )
    return found(CheckKind.AUTHENTICITY, reasons, detail=detail)


def judge_consistency(
    policy: VerificationPolicy,
    findings: DocumentFindings,
    declared: DeclaredDocument,
    today: date,
) -> CheckResult:
    """DOCUMENT_CONSISTENCY: do print, zone, QR code, declared values and the calendar agree?"""
    agreeing = sum(agreement is Agreement.MATCH for agreement in findings.printed.values())
    reasons = [
        *_unread(findings),
        *expiry_findings(policy, findings, today),
        *age_findings(policy, findings, today),
    ]
    if Agreement.MISMATCH in findings.printed.values():
        reasons += usual(ReasonCode.MRZ_VISUAL_MISMATCH)
    if findings.reader is ReaderClass.TD3_MRZ and agreeing < policy.visual_matches_required:
        reasons += usual(ReasonCode.IMAGE_CROPPED)
    if findings.code is Agreement.MISMATCH:
        reasons += usual(ReasonCode.QR_MISMATCH)
    differing = [name for name, said in findings.printed.items() if said is Agreement.MISMATCH]
    pointers = tuple(disagreements(declared, findings))
    reasons += usual(*dict.fromkeys(map(code_at, pointers)))
    detail = f"{agreeing} of {len(findings.printed)} printed fields agree with the zone."
    if findings.reader is not ReaderClass.TD3_MRZ:
        detail += f" QR code: {_AGREEMENT_TEXT[findings.code]}."
    if differing:
        detail += f" Printed otherwise: {', '.join(differing)}."
    result = found(CheckKind.DOCUMENT_CONSISTENCY, reasons, detail=detail)
    return result.model_copy(update={"pointers": pointers})


def judge_faces(
    policy: VerificationPolicy,
    document: FacesSeen,
    selfie: FacesSeen,
    distance: float | None,
    bands: FaceBands,
) -> CheckResult:
    """FACE_MATCH: is the person on the selfie the one on the document? Unclear without a portrait.

    Only a clear mismatch rejects. Blur alone moves a distance from 0.06 to 0.65, and with several faces
    the wrong one may have been compared: then a large distance needs a review.
    """
    reasons = list(selfie_image_findings(policy.images, selfie))
    if document.count == 0 or distance is None:
        reasons += usual(ReasonCode.FACE_NOT_FOUND_DOCUMENT)
        return found(CheckKind.FACE_MATCH, reasons, detail="There was no portrait to compare with.")
    if selfie.several_alike:
        reasons += usual(ReasonCode.MULTIPLE_FACES)
    band = match(distance, bands)
    if band is Match.DIFFERENT and _is_clear(policy.images, document, selfie):
        reasons += usual(ReasonCode.FACE_MISMATCH)
    elif band is not Match.SAME:
        reasons += usual(ReasonCode.FACE_MATCH_UNCERTAIN)
    detail = f"Band {band}, accept up to {bands.accept_at:g}, reject above {bands.reject_above:g}."
    return found(CheckKind.FACE_MATCH, reasons, score=distance, detail=detail)


def _is_clear(limits: ImageThresholds, document: FacesSeen, selfie: FacesSeen) -> bool:
    """Return whether both faces are single and sharp enough for a mismatch to mean another person."""
    if document.several_alike or selfie.several_alike or not document.quality or not selfie.quality:
        return False
    portrait_sharp = document.quality.blur >= limits.document_blur.review_below
    return portrait_sharp and selfie.quality.blur >= limits.selfie_blur.review_below


def expiry_findings(policy: VerificationPolicy, findings: DocumentFindings, today: date) -> Sequence[Finding]:
    """Judge the expiry date that was read; a date whose check digits do not hold is not judged.

    The last day printed is still valid. A document that prints no date, such as a NIN slip, does not expire.
    """
    text = findings.fields.get("expiry_date")
    if not isinstance(text, str) or not findings.digits_hold:
        return ()
    try:
        last_day = date.fromisoformat(text)
    except ValueError:
        return usual(ReasonCode.DOCUMENT_TAMPERING_SUSPECTED)
    if last_day < today:
        return usual(ReasonCode.DOCUMENT_EXPIRED)
    if last_day - today <= timedelta(days=policy.expiring_within_days):
        return usual(ReasonCode.DOCUMENT_EXPIRING)
    return ()


def age_findings(policy: VerificationPolicy, findings: DocumentFindings, today: date) -> Sequence[Finding]:
    """Judge the birth date that was read against the policy's minimum age (R10).

    Under a policy with a minimum age a document without a birth date needs a review. A date
    whose check digits do not hold is not judged, for it is already a reason by itself.
    """
    if policy.minimum_age is None or not findings.digits_hold:
        return ()
    text = findings.fields.get("date_of_birth")
    try:
        born = date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return usual(ReasonCode.DOCUMENT_TAMPERING_SUSPECTED)
    if born is None:
        return usual(ReasonCode.EXTRACTION_INCOMPLETE)
    return usual(ReasonCode.UNDER_AGE) if completed_years(born, today) < policy.minimum_age else ()


def completed_years(born: date, today: date) -> int:
    """Return the age in whole years; who was born on 29 February is a year older on 1 March."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def document_image_findings(
    limits: ImageThresholds, findings: DocumentFindings, picture: DocumentPicture
) -> Iterator[Finding]:
    """Yield the quality findings of the document's image."""
    yield from _blur(picture.whole, limits.document_blur)
    if picture.whole.brightness < limits.document_dark_below:
        yield from usual(ReasonCode.IMAGE_TOO_DARK)
    if picture.portrait is not None and picture.portrait.glare > limits.glare_above:
        yield from usual(ReasonCode.IMAGE_GLARE)
    unread = findings.status is not ExtractionStatus.EXTRACTED
    if unread and picture.shorter_side_px < limits.document_small_below_px:
        yield from usual(ReasonCode.IMAGE_TOO_SMALL)


def selfie_image_findings(limits: ImageThresholds, selfie: FacesSeen) -> Iterator[Finding]:
    """Yield the quality findings of the selfie's image, inside the face only."""
    if selfie.quality is None:
        return
    yield from _blur(selfie.quality, limits.selfie_blur)
    if selfie.quality.brightness < limits.selfie_dark_below:
        yield from usual(ReasonCode.IMAGE_TOO_DARK)
    if selfie.quality.glare > limits.glare_above:
        yield from usual(ReasonCode.IMAGE_GLARE)
    if selfie.width_px < limits.selfie_face_small_below_px:
        yield from usual(ReasonCode.IMAGE_TOO_SMALL)


def _unread(findings: DocumentFindings) -> Sequence[Finding]:
    """Return the finding that the document was not read completely, for every document check (G71)."""
    if findings.status is ExtractionStatus.EXTRACTED:
        return ()
    if not findings.legible:
        return usual(ReasonCode.DOCUMENT_NOT_FOUND)
    return usual(ReasonCode.EXTRACTION_INCOMPLETE)


def _self_contradictions(findings: DocumentFindings) -> Iterator[Finding]:
    if not findings.digits_hold:
        yield from usual(ReasonCode.MRZ_CHECK_DIGIT_FAILED)
    elif findings.impossible_date:
        yield from usual(ReasonCode.DOCUMENT_TAMPERING_SUSPECTED)
    if findings.reader is ReaderClass.NG_NIN_SLIP and not _is_nin(findings.number):
        yield from usual(ReasonCode.NIN_FORMAT_INVALID)


def _is_nin(number: str | None) -> bool:
    """Return whether a number has the form of a NIN; a missing number is judged elsewhere."""
    return number is None or (number.isascii() and number.isdecimal() and len(number) == NIN_DIGITS)


def _blur(measured: Sharpness, floor: SharpnessFloor) -> Sequence[Finding]:
    if measured.blur < floor.review_below:
        return ((ReasonCode.IMAGE_BLURRED, CheckVerdict.UNCLEAR),)
    return usual(ReasonCode.IMAGE_BLURRED) if measured.blur < floor.warn_below else ()
