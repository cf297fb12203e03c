"""The port by which a transaction finds its tenant's published policy, and what finds it in the store."""

from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from schemas.ids import TenantId
from schemas.transaction_decisions import AppliedPolicy
from streams.policies import published as policies
from streams.policies.compiling import CompiledPolicy
from streams.policies.reading.document import POLICY
from streams.policies.storage import load_policy
from streams.ports.records import Records


@dataclass(frozen=True, slots=True)
class PublishedPolicy:
    """The published revision of a tenant's policy."""

    revision: int
    sha256: str
    compiled: CompiledPolicy | None
    """None: the text does not load any more; then money waits (G111)."""

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


class StoredPolicies(PublishedPolicies):
    """Reads what is published from the store; a text is compiled once per process."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._policies = policies.PublishedPolicies(records)

    @override
    async def __call__(self, tenant_id: TenantId) -> PublishedPolicy:
        try:
            compiled = await self._policies.current(tenant_id)
        except policies.PolicyUnavailable:
            published = (await load_policy(self._records, tenant_id, POLICY)).stored.published
            return PublishedPolicy(published.revision, published.sha256, None)
        return PublishedPolicy(compiled.revision, compiled.sha256, compiled)
