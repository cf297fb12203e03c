"""Seal whole models, compressed, under a subject's key or, where nobody is named, the tenant's."""

import zlib
from typing import Final, TypeVar

from schemas.base import Frozen
from schemas.ids import SubjectId, TenantId
from streams.ports.evidence import Vault

_HOLDER: Final = SubjectId("tenant/screenings")
"""The vault subject whose key seals what names no subject; no subject can have this id."""

_FAST: Final = 1

Sealed = TypeVar("Sealed", bound=Frozen)


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
