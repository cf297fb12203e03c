"""Compare a tenant's event feed with the deliveries to its endpoints (I4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.doctor.invariants.store_state import StoreState
from schemas.audit import AuditAction, AuditFilter
from schemas.events import DecisionEvent
from schemas.ids import TenantId
from schemas.problems import NotFound
from schemas.webhooks import EndpointHealth, StoredDelivery, StoredEndpoint
from streams.invariants import publishing
from streams.invariants.rules import Invariant
from streams.ports.records import RecordKind
from streams.ports.stores import Stores
from streams.webhooks.records import delivery_id, firing_index

PAGE: Final = 200
ENDPOINTS: Final = 100
"""More than a tenant may have."""

MARGIN: Final = timedelta(minutes=1)
"""By so much the clocks of two machines may differ: so soon after a change an event may have missed it."""

_CHANGED: Final = {AuditAction.WEBHOOK_CREATED, AuditAction.WEBHOOK_UPDATED}


@dataclass(frozen=True, slots=True)
class _InForce:
    """An endpoint as it is, and since when it is so."""

    endpoint: StoredEndpoint
    since: datetime
    failing: bool


async def walk_deliveries(store_state: StoreState, tenant_id: TenantId) -> None:
    """Find events of the tenant whose delivery to an endpoint is missing or wrong.

    Older ones than `retained_since` are left out: their deliveries may have been removed.
    """
    for livemode in (True, False):
        endpoints = await _endpoints(store_state.stores, tenant_id, livemode=livemode)
        if not endpoints:
            continue
        place = await store_state.stores.feed.place_at(
            tenant_id, livemode=livemode, moment=store_state.retained_since
        )
        while page := await store_state.stores.feed.page(
            tenant_id, livemode=livemode, after=place, limit=PAGE
        ):
            for fed in page:
                await _judge(store_state, fed.event, endpoints)
            place = page[-1].place


async def _judge(store_state: StoreState, event: DecisionEvent, endpoints: Sequence[_InForce]) -> None:
    for one in _concerned(event, endpoints, store_state.due_before):
        store_state.looked_at.update((Invariant.I4, Invariant.I6))
        stored = await _delivery(store_state.stores, event, one.endpoint)
        store_state.violations += publishing.judge_delivery(
            event, one.endpoint, stored, store_state.due_before, failing=one.failing
        )


def _concerned(
    event: DecisionEvent, endpoints: Sequence[_InForce], due_before: datetime
) -> Iterator[_InForce]:
    for one in endpoints:
        if publishing.concerns_endpoint(event, one.endpoint, one.since + MARGIN, due_before):
            yield one


async def _delivery(stores: Stores, event: DecisionEvent, endpoint: StoredEndpoint) -> StoredDelivery | None:
    key = delivery_id(event.tenant_id, endpoint.endpoint.endpoint_id, event.id)
    try:
        record = await stores.records.get(event.tenant_id, RecordKind.DELIVERY, key)
    except NotFound:
        return None
    return StoredDelivery.from_bytes(record.body)


async def _endpoints(stores: Stores, tenant_id: TenantId, *, livemode: bool) -> list[_InForce]:
    """Return the endpoints of a mode that are in force."""
    records = await stores.records.page(
        tenant_id, RecordKind.WEBHOOK_ENDPOINT, firing_index(livemode=livemode), limit=ENDPOINTS
    )
    found = [StoredEndpoint.from_bytes(record.body) for record in records]
    return [_InForce(one, await _since(stores, one), await _is_failing(stores, one)) for one in found]


async def _since(stores: Stores, stored: StoredEndpoint) -> datetime:
    """Return since when the endpoint has its present settings, from its audit rows."""
    chosen = AuditFilter(subject_id=stored.endpoint.endpoint_id, action="webhook.")
    rows = await stores.audit_log.page(stored.tenant_id, chosen, limit=PAGE)
    changes = [row.created_at for row in rows if row.action in _CHANGED]
    return max([stored.endpoint.created_at, *changes])


async def _is_failing(stores: Stores, stored: StoredEndpoint) -> bool:
    key = stored.endpoint.endpoint_id
    try:
        record = await stores.records.get(stored.tenant_id, RecordKind.WEBHOOK_HEALTH, key)
    except NotFound:
        return False
    return EndpointHealth.from_bytes(record.body).failing_since is not None
