"""The port by which a transaction finds its tenant's published policy."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from schemas.ids import TenantId
from schemas.transaction_decisions import AppliedPolicy
from streams.policies.compiling import CompiledPolicy
from streams.policies.loading import first_policy

POLICY: Final = "transactions"
"""The name of the one policy so far (G110)."""


@dataclass(frozen=True, slots=True)
class PublishedPolicy:
    """The published revision of a tenant's policy, and the lists of values it names."""

    revision: int
    sha256: str
    compiled: CompiledPolicy | None
    """None: the text does not load any more; then money waits (G111)."""
    lists: Mapping[str, Container[str]] = field(default_factory=dict)

    @property
    def applied(self) -> AppliedPolicy:
        """How a transaction names it."""
        return AppliedPolicy(name=POLICY, revision=self.revision, sha256=self.sha256)


class PublishedPolicies(Protocol):
    """Finds what a tenant has published."""

    async def __call__(self, tenant_id: TenantId) -> PublishedPolicy:
        """Return the published revision of the tenant's policy.

        Raises:
            StoreUnavailable: It cannot be read for now.
        """
        ...


async def first_policy_of(tenant_id: TenantId) -> PublishedPolicy:
    """Return revision 1, which every tenant starts with (G131)."""
    del tenant_id
    first = first_policy()
    return PublishedPolicy(first.revision, first.sha256, first)
