"""The port by which a transaction finds its tenant's published policy, and what finds it in the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import override

from schemas.ids import TenantId
from schemas.policies import Feature, FeatureKey
from schemas.transaction_decisions import AppliedPolicy
from streams.policies import published as policies
from streams.policies.compiling import CompiledPolicy
from streams.policies.reading.document import POLICY
from streams.policies.storage import load_policy
from streams.ports.records import Records
from streams.transactions.comparing import keyed_features_beside


@dataclass(frozen=True, slots=True)
class PublishedPolicy:
    """The published revision of a tenant's policy."""

    revision: int
    sha256: str
    compiled: CompiledPolicy | None
    """None: the text does not load any more; then money waits (G111)."""
    counted_since: Mapping[FeatureKey, int] = field(default_factory=dict)
    """The keys beside the subject that are counted by (`CountedKeys.since`)."""
    shadow: CompiledPolicy | None = None
    """What runs beside it and decides nothing (G115)."""

    @property
    def names(self) -> frozenset[str]:
        """What the rules of it and of its shadow read."""
        texts = (self.compiled, self.shadow)
        return frozenset(name for text in texts if text is not None for name in text.names)

    @property
    def asked_of_keys(self) -> tuple[Feature, ...]:
        """The features of it and, by other keys than the subject, of its shadow."""
        if self.compiled is None:
            return ()
        return (*self.compiled.features, *keyed_features_beside(self.compiled, self.shadow))

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
        found = await load_policy(self._records, tenant_id, POLICY)
        published, since = found.stored.published, found.stored.counted.since
        try:
            compiled = await self._policies.compiled(tenant_id, POLICY, found)
        except policies.PolicyUnavailable:
            compiled = None
        shadow = await self._policies.shadow(tenant_id, POLICY, found)
        return PublishedPolicy(
            published.revision, published.sha256, compiled, counted_since=since, shadow=shadow
        )
