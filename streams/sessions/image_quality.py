"""Rules on the quality of a captured image, by its pixels alone; pure."""

import math
from dataclasses import replace

from schemas.enums import EvidenceKind, ExtractionStatus
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCategory, ReasonCode
from streams.verification.observations import DocumentFindings, DocumentPicture, FacesSeen
from streams.verification.policy import ImageThresholds
from streams.verification.sandbox import Scenario
from streams.verification.verdicts import document_image_findings, selfie_image_findings
from streams.vision_ports import Sharpness


def said_at_once(
    what: EvidenceKind, whole: Sharpness, shorter_side_px: int, limits: ImageThresholds
) -> tuple[ReasonCode, ...]:
    """Return the quality reasons of an image, by the thresholds of the evaluation.

    Faces are not searched here, so glare, which counts inside a face only, is left to the evaluation.
    """
    if what is EvidenceKind.SELFIE:
        face = FacesSeen(1, several_alike=False, width_px=math.inf, quality=replace(whole, glare=0.0))
        findings = selfie_image_findings(limits, face)
    else:
        unread = DocumentFindings(ExtractionStatus.EXTRACTED)
        findings = document_image_findings(limits, unread, DocumentPicture(whole, None, shorter_side_px))
    return tuple(dict.fromkeys(code for code, _ in findings))


def said_of_scenario(scenario: Scenario) -> tuple[ReasonCode, ...]:
    """Return the reason of a sandbox subject's scenario, if it is about images."""
    reason = scenario.reason
    about_image = reason is not None and CATALOGUE[reason].category is ReasonCategory.IMAGE
    return (reason,) if reason is not None and about_image else ()
