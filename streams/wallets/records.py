"""How assessments of wallets are sealed and listed in the store; pure."""

from schemas.ids import AssessmentId
from schemas.wallets import WalletAssessment
from streams.verification.records import Index, by_mode, by_subject


def address_label(about: AssessmentId) -> str:
    """Return the vault label under which the address is sealed."""
    return f"wallet-assessment:{about}"


def indexes(assessment: WalletAssessment) -> tuple[Index, ...]:
    """Return all indexes of an assessment."""
    livemode, subject_id = assessment.livemode, assessment.subject_id
    own = () if subject_id is None else (by_subject(livemode, subject_id),)
    return (by_mode(livemode), *own)
