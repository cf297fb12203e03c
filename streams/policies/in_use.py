"""What a tenant's policies use: the kinds of keys they count by, and the lists they name (G111-G116)."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from schemas.ids import PLATFORM, TenantId
from schemas.lists import PUBLISHED_LIST_CHECKS, SANDBOX
from schemas.policies import Feature, FeatureKey
from schemas.policy_records import CountedKeys
from streams.lists.storage import ListStorage
from streams.policies.published import PolicyUnavailable, PublishedPolicies

KnownLists = Callable[[TenantId], Awaitable[frozenset[str] | None]]
"""Return the lists that a tenant's policy may name; None: any."""


def features_by_key(features: Iterable[Feature]) -> dict[FeatureKey, tuple[Feature, ...]]:
    """Return the features by what they look at."""
    found = dict[FeatureKey, tuple[Feature, ...]]()
    for feature in features:
        found[feature.key] = (*found.get(feature.key, ()), feature)
    return found


def counting(before: CountedKeys, features: Iterable[Feature]) -> CountedKeys:
    """Return the keys that are counted by once these are the features of all texts in use.

    A kind that was not counted by for a while gets another number than before: its rows have a gap.
    """
    used = features_by_key(features).keys() - {FeatureKey.SUBJECT_ID}
    changes = before.changes if used <= before.since.keys() else before.changes + 1
    since = {key: before.since.get(key, changes) for key in FeatureKey if key in used}
    return CountedKeys(changes=changes, since=since)


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


async def any_list(_: TenantId) -> frozenset[str] | None:
    """Let a policy name any list; one that is not loaded is an ERROR of the rule (G114)."""
    return None
