"""Which lists a tenant's policy may name, and which its published one does (G111, G116)."""

from dataclasses import dataclass

from schemas.ids import PLATFORM, TenantId
from schemas.lists import PUBLISHED_LIST_CHECKS, SANDBOX
from streams.lists.storage import ListStorage
from streams.policies.published import PolicyUnavailable, PublishedPolicies


@dataclass(frozen=True, slots=True)
class KnownListNames:
    """Finds the lists there are for a tenant."""

    storage: ListStorage

    async def __call__(self, tenant_id: TenantId) -> frozenset[str]:
        """Return the names of the tenant's lists, the deployment's, and those it could load any time."""
        own, _ = await self.storage.load(tenant_id)
        deployment, _ = await self.storage.load(PLATFORM)
        loaded = {one.name for one in (*own.lists, *deployment.lists)}
        return frozenset(loaded | set(PUBLISHED_LIST_CHECKS) | {SANDBOX})


@dataclass(frozen=True, slots=True)
class ListsInUse:
    """Finds the lists that a tenant's published policy depends on."""

    policies: PublishedPolicies

    async def __call__(self, tenant_id: TenantId) -> frozenset[str]:
        """Return their names; none where the published text does not load any more."""
        try:
            return (await self.policies.current(tenant_id)).lists
        except PolicyUnavailable:
            return frozenset()
