"""How name screenings are sealed, listed and shown."""

import zlib
from typing import Final, TypeVar

from schemas.base import Frozen
from schemas.ids import ScreeningId, SubjectId, TenantId
from schemas.name_screenings import NameScreening, ScreeningParts, StoredNameScreening
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.verification.records import Index, by_mode, by_subject

_HOLDER: Final = SubjectId("tenant/name-screenings")
"""The vault subject whose key seals what is asked without a subject; no subject can have this id."""

_FAST: Final = 1

Sealed = TypeVar("Sealed", bound=Frozen)


def request_label(about: ScreeningId) -> str:
    """Return the vault label under which the front seals the request."""
    return f"name-screening-request:{about}"


def parts_label(about: ScreeningId) -> str:
    """Return the vault label under which the stored parts are sealed."""
    return f"name-screening:{about}"


def indexes(screening: NameScreening) -> tuple[Index, ...]:
    """Return all indexes of a screening."""
    livemode, subject_id = screening.livemode, screening.subject_id
    own = () if subject_id is None else (by_subject(livemode, subject_id),)
    return (by_mode(livemode), *own)


async def seal(
    vault: Vault, tenant_id: TenantId, subject_id: SubjectId | None, label: str, value: Frozen
) -> str:
    """Return the value compressed and sealed under the subject's key, or the tenant's without one.

    Raises:
        Erased: The subject was erased.
    """
    packed = zlib.compress(value.to_bytes(), _FAST)
    return await vault.seal(tenant_id, subject_id or _HOLDER, label, packed)


async def unseal(
    vault: Vault,
    tenant_id: TenantId,
    subject_id: SubjectId | None,
    label: str,
    sealed: str,
    model: type[Sealed],
) -> Sealed:
    """Return what `seal` sealed.

    Raises:
        Erased: The subject was erased.
        Damaged: It was altered, or sealed for another subject or label.
    """
    packed = await vault.open(tenant_id, subject_id or _HOLDER, label, sealed)
    return model.from_bytes(zlib.decompress(packed))


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
