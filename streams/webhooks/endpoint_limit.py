"""A tenant has at most twenty endpoints, however many are registered at the same time (G38)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.base import Frozen
from schemas.ids import EndpointId, TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.webhooks import StoredEndpoint
from streams.ports.records import Record, RecordKind, Records
from streams.webhooks.records import tenant_record

MOST_ENDPOINTS: Final = 20
"""Endpoints of a tenant that are not deleted, of both modes together (G38)."""

PLACES: Final = "webhook-endpoints"
"""The id of the one record, beside a tenant's settings, whose version decides who gets a place."""


class Places(Frozen):
    """Which endpoints have a place; one that was deleted gives it back when room is needed."""

    taken_by: tuple[EndpointId, ...] = ()


@dataclass(frozen=True, slots=True)
class Register:
    """The places of a tenant as they stand."""

    tenant_id: TenantId
    places: Places
    record: Record | None
    """None before the first endpoint."""

    def with_place(self, endpoint_id: EndpointId, now: datetime) -> tuple[Record, ...]:
        """Return what to commit for a new endpoint, the deciding record first.

        The first place of a tenant also brings the record by which the platform finds the tenant.

        Raises:
            Refused: WEBHOOK_ENDPOINT_UNUSABLE at the URL; every place is taken.
        """
        others = [one for one in self.places.taken_by if one != endpoint_id]
        if len(others) >= MOST_ENDPOINTS:
            message = f"The tenant has {MOST_ENDPOINTS} endpoints already; delete one first."
            raise Refused.at("/url", ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)
        body = Places(taken_by=(*others, endpoint_id)).to_bytes()
        if self.record is not None:
            return (replace(self.record, body=body, version=self.record.version + 1),)
        first = Record(self.tenant_id, RecordKind.SETTINGS, PLACES, body, now)
        return first, tenant_record(self.tenant_id, now)


async def read_register(records: Records, tenant_id: TenantId) -> Register:
    """Return the tenant's places; when all are taken, without those of endpoints that were deleted.

    Whatever has a place is there to be read: reading the record finishes a commit that was cut short.
    """
    try:
        record = await records.get(tenant_id, RecordKind.SETTINGS, PLACES)
    except NotFound:
        return Register(tenant_id, Places(), None)
    places = Places.from_bytes(record.body)
    if len(places.taken_by) >= MOST_ENDPOINTS:
        live = [one for one in places.taken_by if not await _is_deleted(records, tenant_id, one)]
        places = Places(taken_by=tuple(live))
    return Register(tenant_id, places, record)


async def _is_deleted(records: Records, tenant_id: TenantId, endpoint_id: EndpointId) -> bool:
    record = await endpoint_or_none(records, tenant_id, endpoint_id)
    return record is not None and StoredEndpoint.from_bytes(record.body).deleted


async def endpoint_or_none(records: Records, tenant_id: TenantId, endpoint_id: EndpointId) -> Record | None:
    """Return the endpoint's record, None when there is none."""
    try:
        return await records.get(tenant_id, RecordKind.WEBHOOK_ENDPOINT, endpoint_id)
    except NotFound:
        return None
