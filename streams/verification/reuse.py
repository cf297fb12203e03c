"""Judge whether the selfie is an original photograph, and whether both pictures are new; pure.

A selfie that is the document's picture, a picture of a document, or a copy of the document's portrait proves
possession of the document, not the presence of its holder (R2).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from schemas.enums import CheckKind, CheckVerdict
from schemas.reasons import ReasonCode
from schemas.verifications import CheckResult
from streams.verification.observations import DocumentFindings, Evaluation, ReuseFacts
from streams.verification.rules import Finding, is_number, most_severe, usual

SPECIMENS: Final = "UTO"
"""Utopia, the fictional issuer of ICAO's specimens and of ours (G75); no catalogue can name it."""

EXEMPT: Final = "Reuse of pictures is not judged: a specimen of UTO in test mode."
"""Detail for specimens: the packaged portraits are one photograph each (R2)."""

PRINT_ROWS_MIN: Final = 7
"""Rows of print from which a selfie is read: of 118 spoilt portraits one showed 11 and the others at most 7,
of 90 documents those that were not tilted 8 and more."""

FACE_SHARE_MIN: Final = 0.15
"""Width of the face over the picture's shorter side; on whole documents it is 0.13 and less, so a selfie with
a smaller face is read too."""

_SELFIE_FIRST: Final = (
    CheckKind.FACE_MATCH,
    CheckKind.LIVENESS,
    CheckKind.AUTHENTICITY,
    CheckKind.DOCUMENT_CONSISTENCY,
    CheckKind.DOCUMENT_EXTRACTION,
)
"""The check that reports a reused picture: the first of these that was run."""


def worth_reading(print_rows: int, face_width_px: float, shorter_side_px: int) -> bool:
    """Return whether a selfie may show a document, so that it must be read."""
    return print_rows >= PRINT_ROWS_MIN or face_width_px < FACE_SHARE_MIN * shorter_side_px


def is_page(read: DocumentFindings, print_rows: int) -> bool:
    """Return whether the text on a selfie is that of a document, not a word on a shirt or a wall."""
    return read.reader is not None or (read.legible and print_rows >= PRINT_ROWS_MIN)


def is_specimen(evaluation: Evaluation) -> bool:
    """Return whether the document read names the fictional issuer."""
    read = evaluation.findings
    return read is not None and read.fields.get("issuing_state") == SPECIMENS


def judged(evaluation: Evaluation, *, exempt: bool) -> Evaluation:
    """Return the evaluation with the findings about its selfie."""
    if exempt:
        return replace(noted(evaluation, (), EXEMPT), exempt=True)
    facts = evaluation.reuse
    if facts is None:
        return evaluation
    if facts.broken or not is_number(facts.parallax or 0.0):
        return noted(evaluation, usual(ReasonCode.PROVIDER_UNAVAILABLE), "Reuse could not be measured.")
    signs = tuple(_signs(facts))
    return noted(evaluation, usual(ReasonCode.SELFIE_REUSED) if signs else (), " ".join(_said(facts, signs)))


def duplicated(evaluation: Evaluation, *, document: bool, selfie: bool) -> Evaluation:
    """Return the evaluation with a finding for pictures stored for another subject."""
    named = [name for name, found in (("document", document), ("selfie", selfie)) if found]
    if not named:
        return evaluation
    detail = f"The same picture is kept for another subject: {', '.join(named)}."
    return noted(evaluation, usual(ReasonCode.DUPLICATE_SUBJECT), detail)


def noted(evaluation: Evaluation, findings: tuple[Finding, ...], detail: str) -> Evaluation:
    """Return the evaluation with findings and a sentence added to the check that reports reuse."""
    kinds = {result.kind for result in evaluation.results}
    carrier = next((kind for kind in _SELFIE_FIRST if kind in kinds), None)
    if carrier is None or not (findings or detail):
        return evaluation
    results = tuple(
        _with(result, findings, detail) if result.kind is carrier else result for result in evaluation.results
    )
    return replace(evaluation, results=results)


def _signs(facts: ReuseFacts) -> Iterator[str]:
    if facts.same_pixels:
        yield "The selfie is the document's picture."
    if facts.shows_document:
        yield "The selfie shows a document."
    if facts.parallax is not None and facts.parallax <= facts.copy_at:
        yield "The selfie is a copy of the portrait's photograph."


def _said(facts: ReuseFacts, signs: tuple[str, ...]) -> Iterator[str]:
    yield from signs
    if facts.parallax is not None:
        yield f"Parallax {facts.parallax:.2f} px, a copy up to {facts.copy_at:g} px."


def _with(result: CheckResult, findings: tuple[Finding, ...], detail: str) -> CheckResult:
    verdict: CheckVerdict = most_severe((result.verdict, *(verdict for _, verdict in findings)))
    reasons = tuple(dict.fromkeys((*result.reasons, *(code for code, _ in findings))))
    said = f"{result.detail} {detail}".strip()
    return result.model_copy(update={"verdict": verdict, "reasons": reasons, "detail": said})
