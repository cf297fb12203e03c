"""Check the lists and the policies of a deployment for `veristream doctor`, and show its lists (G134)."""

from collections.abc import Sequence
from typing import Final

from app.composition.lists import WITHOUT_LISTS, storage_of
from app.composition.stores import Deployment
from app.doctor.running_service import Finding
from schemas.base import rfc3339
from schemas.ids import PLATFORM, TenantId
from schemas.problems import StoreUnavailable
from schemas.tenant_lists import StoredList
from streams.lists.storage import ListStorage
from streams.policies.published import PolicyUnavailable, PublishedPolicies
from streams.ports.records import Records
from streams.ports.stores import Stores
from streams.runtime.record_removal import tenant_ids
from streams.tenants.handler import TENANTS_INDEX

NO_LISTS: Final = f"none is loaded: {WITHOUT_LISTS}; see veristream lists --help"


async def check_screening(stores: Stores) -> list[Finding]:
    """Return the findings about lists and policies.

    Raises:
        StoreUnavailable: The store cannot be read for now.
    """
    lists, _ = await ListStorage(stores.records, stores.journal, stores.vault).load(PLATFORM)
    return [_lists(lists.lists), await _policies(stores.records)]


def _lists(lists: Sequence[StoredList]) -> Finding:
    failed = [f"{one.name}: {one.problem}" for one in lists if one.problem is not None]
    shown = ", ".join(f"{one.name} {one.version} ({one.entries} entries)" for one in lists) or NO_LISTS
    if not failed:
        return Finding(looked_at="lists", ok=True, found=shown)
    fix = "the last good version is in use; load a whole file: veristream lists load NAME FILE"
    return Finding(looked_at="lists", ok=False, found=f"{shown}; not replaced: {'; '.join(failed)}", fix=fix)


async def _policies(records: Records) -> Finding:
    policies, looked_at = PublishedPolicies(records), 0
    broken: list[TenantId] = []
    async for tenant_id in tenant_ids(records, TENANTS_INDEX, 200):
        looked_at += 1
        try:
            await policies.current(tenant_id)
        except PolicyUnavailable:
            broken.append(tenant_id)
    if not broken:
        return Finding(looked_at="policies", ok=True, found=f"those of {looked_at} tenants load")
    fix = "their payments wait; publish a revision that loads: veristream policy publish FILE"
    found = f"no longer loads: {', '.join(broken)}"
    return Finding(looked_at="policies", ok=False, found=found, fix=fix)


async def shown_lists(deployment: Deployment) -> dict[str, str]:
    """Return version and load time of each list for `veristream status`; empty without a store."""
    try:
        lists, _ = await storage_of(deployment).load(PLATFORM)
    except StoreUnavailable:
        return {}
    return {one.name: f"{one.version}, loaded {rfc3339(one.loaded_at)}" for one in lists.lists}
