"""Seal whole models under a subject's key or the tenant's, and refuse what names an erased subject (G65).

A tenant may name its customers by e-mail address, and topics are copied and backed up apart from the
store. Decision events carry the id in the clear, for they are the tenant's.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from schemas.base import Frozen
from schemas.ids import SubjectId, TenantId
from schemas.problems import ProblemCode, Refused, VeristreamError
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import Vault

_HOLDER_OF_MODELS: Final = SubjectId("tenant/screenings")
"""The vault subject whose key seals what names no subject; no subject can have this id."""

_FAST: Final = 1

Sealed = TypeVar("Sealed", bound=Frozen)
_HOLDER_OF_IDS: Final = SubjectId("tenant/subject-ids")
"""The vault subject whose key seals a tenant's subject ids; no subject can have this id."""

_LABEL: Final = "subject_id"
_MARK: Final = "~"
"""Prefix of a sealed id; no subject id contains it."""


async def seal(
    vault: Vault, tenant_id: TenantId, subject_id: SubjectId | None, label: str, value: Frozen
) -> str:
    """Return the value compressed and sealed under the subject's key, or the tenant's without one.

    Raises:
        Erased: The subject was erased.
    """
    packed = zlib.compress(value.to_bytes(), _FAST)
    return await vault.seal(tenant_id, subject_id or _HOLDER_OF_MODELS, label, packed)


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
    packed = await vault.open(tenant_id, subject_id or _HOLDER_OF_MODELS, label, sealed)
    return model.from_bytes(zlib.decompress(packed))


async def seal_subject_id(vault: Vault, tenant_id: TenantId, subject_id: SubjectId) -> SubjectId:
    """Return the sealed id for a command."""
    sealed = await vault.seal(tenant_id, _HOLDER_OF_IDS, _LABEL, subject_id.encode())
    return SubjectId(f"{_MARK}{sealed}")


async def open_subject_id(vault: Vault, tenant_id: TenantId, sent: SubjectId) -> SubjectId:
    """Return the opened id of a command; an unsealed id is returned unchanged.

    Raises:
        Refused: STORE_FAILED; it was altered, or is another tenant's.
    """
    if not sent.startswith(_MARK):
        return sent
    try:
        opened = await vault.open(tenant_id, _HOLDER_OF_IDS, _LABEL, sent.removeprefix(_MARK))
    except (Damaged, Erased):
        raise Refused.because(ProblemCode.STORE_FAILED, "The request can no longer be read.") from None
    return SubjectId(opened.decode())


def subject_erased() -> Refused:
    """Return the refusal of a request that names an erased subject; it created nothing."""
    message = "The subject was erased; nothing can be kept under this id any more. Use another id."
    return Refused.at("/subject_id", ProblemCode.VALIDATION_FAILED, message)


def no_longer_stored(error: VeristreamError) -> Refused:
    """Return the refusal of a command whose images were erased or removed."""
    if isinstance(error, Erased):
        return subject_erased()
    message = "The images are no longer kept; send them again."
    return Refused.because(ProblemCode.STORE_FAILED, message)


@contextmanager
def refusing_erased() -> Iterator[None]:
    """Convert `Erased` into a refusal at /subject_id.

    Raises:
        Refused: VALIDATION_FAILED at /subject_id.
    """
    try:
        yield
    except Erased:
        raise subject_erased() from None
