"""Limit a tenant to twenty endpoints, also under concurrent registrations (G38)."""

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
"""Endpoints of a tenant that are not deleted, both modes counted (G38)."""

PLACES: Final = "webhook-endpoints"
"""The id of the record, beside a tenant's settings, whose version serialises registrations."""


class Places(Frozen):
    """The endpoints counted against the limit; deleted ones are removed when the limit is reached."""

    taken_by: tuple[EndpointId, ...] = ()


@dataclass(frozen=True, slots=True)
class Register:
    """The counted endpoints of a tenant, as read from the store."""

    tenant_id: TenantId
    places: Places
    record: Record | None
    """None before the first endpoint."""

    def with_place(self, endpoint_id: EndpointId, now: datetime) -> tuple[Record, ...]:
        """Return the records to commit for a new endpoint, the deciding record first.

        The first endpoint of a tenant also adds the record by which the platform finds the tenant.

        Raises:
            Refused: WEBHOOK_ENDPOINT_UNUSABLE at the URL; the limit is reached.
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
    """Return the tenant's counted endpoints; at the limit, without those that were deleted.

    Every counted endpoint can be read: reading its record completes an interrupted commit.
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
