"""The evidence that a command brings and its evaluation creates; pure, with ids derived from the command."""

from datetime import datetime
from typing import Final

from pydantic_core import to_json

from schemas.enums import EvidenceKind, FlowType
from schemas.ids import EvidenceId
from schemas.verifications import Evidence, SubmitVerification
from streams.ports.evidence import EvidenceDraft, EvidenceRow
from streams.verification import records
from streams.verification.movement_checks import frames_of, trace_made
from streams.verification.observations import Evaluation

MADE: Final = (
    EvidenceKind.EXTRACTION,
    EvidenceKind.PORTRAIT,
    EvidenceKind.SCREENING_RESULT,
    EvidenceKind.LIVENESS_TRACE,
)
"""The kinds of evidence that an evaluation creates."""


def drafts(command: SubmitVerification, evaluation: Evaluation, at: datetime) -> tuple[EvidenceDraft, ...]:
    """Return the evidence an evaluation creates: the portrait, the reading, the trace (G8, P16)."""
    kinds = (*_of_document(evaluation), *trace_made(command))
    return tuple(_draft(command, evaluation, at, kind) for kind in kinds)


def brought_and_made(command: SubmitVerification) -> tuple[EvidenceId, ...]:
    """Return every evidence id that this or an earlier attempt of the command may have stored."""
    made = (_made_id(command, kind) for kind in MADE)
    brought = (command.document_evidence_id, command.selfie_evidence_id)
    # a portrait that was compared with is another verification's
    own = brought[1:] if command.flow_type is FlowType.BIOMETRIC else brought
    return (*own, *frames_of(command), *made)


def of_document(command: SubmitVerification, evaluation: Evaluation) -> tuple[Evidence, ...]:
    """Return the references to the document's image and to what was made of it."""
    if command.flow_type is FlowType.BIOMETRIC:
        return ()
    image = records.refer(command.document_evidence_id, EvidenceKind.IMAGE)
    return (image, *(records.refer(_made_id(command, kind), kind) for kind in _of_document(evaluation)))


def of_movements(command: SubmitVerification) -> tuple[Evidence, ...]:
    """Return the references to the movements' trace and to its frames."""
    kind = EvidenceKind.LIVENESS_TRACE
    made = tuple(_made_id(command, kind) for _ in trace_made(command))
    return tuple(records.refer(one, kind) for one in (*made, *frames_of(command)))


def _of_document(evaluation: Evaluation) -> tuple[EvidenceKind, ...]:
    made = []
    if evaluation.findings is not None and evaluation.findings.reader is not None:
        made.append(EvidenceKind.EXTRACTION)
    if evaluation.portrait is not None:
        made.append(EvidenceKind.PORTRAIT)
    if evaluation.screenings:
        made.append(EvidenceKind.SCREENING_RESULT)
    return tuple(made)


def _made_id(command: SubmitVerification, kind: EvidenceKind) -> EvidenceId:
    return records.evidence_id(command.tenant_id, command.verification_id, command.fingerprint, kind)


def _draft(
    command: SubmitVerification, evaluation: Evaluation, at: datetime, kind: EvidenceKind
) -> EvidenceDraft:
    row = EvidenceRow(
        tenant_id=command.tenant_id,
        subject_id=command.subject_id,
        verification_id=command.verification_id,
        evidence_id=_made_id(command, kind),
        kind=kind,
        retention_policy=records.RETENTION_OF[kind],
        media_type="image/jpeg" if kind is EvidenceKind.PORTRAIT else "application/json",
        created_at=at,
    )
    return EvidenceDraft(row, _content(command, evaluation, kind))


def _content(command: SubmitVerification, evaluation: Evaluation, kind: EvidenceKind) -> bytes:
    match kind:
        case EvidenceKind.PORTRAIT:
            return evaluation.portrait or b""
        case EvidenceKind.LIVENESS_TRACE:
            return to_json(command.movements)
        case EvidenceKind.EXTRACTION:
            return to_json(evaluation.findings)
        case _:
            return to_json(evaluation.screenings)
