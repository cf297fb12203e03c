"""Subject ids on their way through commands topics: sealed for the tenant, opened by whoever carries out.

A tenant may name its customers by e-mail address, and topics are kept, copied and backed up apart from the
store. Decision events carry the id in the clear, for they are the tenant's.
"""

from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.problems import ProblemCode, Refused
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import Vault

_HOLDER: Final = SubjectId("tenant/subject-ids")
"""Under whose key the ids of a tenant are sealed; no subject can have the name."""

_LABEL: Final = "subject_id"
_MARK: Final = "~"
"""Begins a sealed id; no subject id has the character."""


async def seal_subject_id(vault: Vault, tenant_id: TenantId, subject_id: SubjectId) -> SubjectId:
    """Return the id as a command carries it."""
    sealed = await vault.seal(tenant_id, _HOLDER, _LABEL, subject_id.encode())
    return SubjectId(f"{_MARK}{sealed}")


async def open_subject_id(vault: Vault, tenant_id: TenantId, sent: SubjectId) -> SubjectId:
    """Return the id that a command carries; one that is not sealed is itself.

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
