"""Seal subject ids in command topics, and open them in the worker.

A tenant may name its customers by e-mail address, and topics are copied and backed up apart from the
store. Decision events carry the id in the clear, for they are the tenant's.
"""

from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.problems import ProblemCode, Refused
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import Vault

_HOLDER: Final = SubjectId("tenant/subject-ids")
"""The vault subject whose key seals a tenant's subject ids; no subject can have this id."""

_LABEL: Final = "subject_id"
_MARK: Final = "~"
"""Prefix of a sealed id; no subject id contains it."""


async def seal_subject_id(vault: Vault, tenant_id: TenantId, subject_id: SubjectId) -> SubjectId:
    """Return the sealed id for a command."""
    sealed = await vault.seal(tenant_id, _HOLDER, _LABEL, subject_id.encode())
    return SubjectId(f"{_MARK}{sealed}")


async def open_subject_id(vault: Vault, tenant_id: TenantId, sent: SubjectId) -> SubjectId:
    """Return the opened id of a command; an unsealed id is returned unchanged.

    Raises:
        Refused: STORE_FAILED; it was altered, or is another tenant's.
    """
    if not sent.startswith(_MARK):
        return sent
    try:
        opened = await vault.open(tenant_id, _HOLDER, _LABEL, sent.removeprefix(_MARK))
    except (Damaged, Erased):
        raise Refused.because(ProblemCode.STORE_FAILED, "The request can no longer be read.") from None
    return SubjectId(opened.decode())
