"""What is said of captured images: at once by their pixels, and later that others are wanted; pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from schemas.enums import CheckVerdict, EvidenceKind, ExtractionStatus
from schemas.reasons import CATALOGUE, ReasonCategory, ReasonCode
from schemas.verifications import CheckResult
from streams.sight import Sharpness
from streams.verification.findings import DocumentFindings, DocumentPicture, FacesSeen
from streams.verification.judging import document_image_findings, selfie_image_findings
from streams.verification.policy import ImageThresholds
from streams.verification.sandbox import Scenario


def said_at_once(
    what: EvidenceKind, whole: Sharpness, shorter_side_px: int, limits: ImageThresholds
) -> tuple[ReasonCode, ...]:
    """Return what is wrong with an image as far as its pixels tell, by the rules of the evaluation.

    Where faces are is not known here: glare, which counts inside a face only, is left to the evaluation.
    """
    if what is EvidenceKind.SELFIE:
        face = FacesSeen(1, several_alike=False, width_px=math.inf, quality=replace(whole, glare=0.0))
        findings = selfie_image_findings(limits, face)
    else:
        unread = DocumentFindings(ExtractionStatus.EXTRACTED)
        findings = document_image_findings(limits, unread, DocumentPicture(whole, None, shorter_side_px))
    return tuple(dict.fromkeys(code for code, _ in findings))


def said_of_scenario(scenario: Scenario) -> tuple[ReasonCode, ...]:
    """Return what a sandbox subject is told of its images: its reason, if that is about images."""
    reason = scenario.reason
    about_image = reason is not None and CATALOGUE[reason].category is ReasonCategory.IMAGE
    return (reason,) if reason is not None and about_image else ()


def to_take_again(results: Sequence[CheckResult]) -> tuple[ReasonCode, ...]:
    """Return why better images could change an unclear outcome; empty: they could not."""
    if any(result.verdict in {CheckVerdict.FAILED, CheckVerdict.BROKEN} for result in results):
        return ()
    return tuple(dict.fromkeys(_mendable(results)))


def _mendable(results: Sequence[CheckResult]) -> Iterator[ReasonCode]:
    for result in results:
        if result.verdict is CheckVerdict.UNCLEAR:
            for code in result.reasons:
                entry = CATALOGUE[code]
                if entry.retryable and entry.category is ReasonCategory.IMAGE:
                    yield code
