"""How name screenings, and cases about new matches, are sealed, listed and shown."""

from schemas.ids import ScreeningId, TenantId
from schemas.name_screenings import NameScreening, ScreeningParts, StoredNameScreening
from schemas.reviews import ReviewCase, StoredCase
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.ports.records import Record, RecordKind
from streams.privacy.sealing import unseal
from streams.verification import review_case
from streams.verification.records import Index, by_mode, by_subject, mode


def request_label(about: ScreeningId) -> str:
    """Return the vault label under which the front seals the request."""
    return f"name-screening-request:{about}"


def parts_label(about: ScreeningId) -> str:
    """Return the vault label under which the stored parts are sealed."""
    return f"name-screening:{about}"


def indexes(screening: NameScreening) -> tuple[Index, ...]:
    """Return all indexes of a screening."""
    watched = (monitored(livemode=screening.livemode),) if screening.monitor else ()
    return (*by_mode_and_subject(screening), *watched)


def by_mode_and_subject(screening: NameScreening) -> tuple[Index, ...]:
    """Return the indexes that stay with a screening."""
    livemode, subject_id = screening.livemode, screening.subject_id
    own = () if subject_id is None else (by_subject(livemode, subject_id),)
    return (by_mode(livemode), *own)


def monitored(*, livemode: bool) -> Index:
    """Return the index of a tenant's monitored screenings of a mode."""
    return "monitored", mode(livemode)


async def shown(vault: Vault, tenant_id: TenantId, body: bytes) -> NameScreening:
    """Return a stored screening; without references and matches once the subject was erased."""
    stored = StoredNameScreening.from_bytes(body)
    screening = stored.screening
    label = parts_label(screening.screening_id)
    try:
        parts = await unseal(vault, tenant_id, screening.subject_id, label, stored.sealed, ScreeningParts)
    except Erased:
        return screening
    return screening.model_copy(update={"results": parts.results})


def case_record(tenant_id: TenantId, case: ReviewCase) -> Record:
    """Return the record of the new case."""
    return Record(
        tenant_id,
        RecordKind.REVIEW_CASE,
        case.review_case_id,
        StoredCase(case=case).to_bytes(),
        case.created_at,
        indexes=review_case.indexes(case),
    )
