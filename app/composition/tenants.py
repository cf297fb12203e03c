"""Reads the tenants of an opened deployment, for commands and the doctor."""

from collections.abc import AsyncIterator
from typing import Final

from app.composition.stores import Deployment
from app.process.startup import CannotStart
from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound
from streams.ports.records import Position, Record, RecordKind
from streams.tenants.handler import TENANTS_INDEX

PAGE: Final = 100
"""Records read at a time."""


async def known_tenant(deployment: Deployment, tenant: str) -> TenantId:
    """Return the tenant's id.

    Raises:
        CannotStart: No such tenant.
    """
    try:
        await deployment.stores.records.get(PLATFORM, RecordKind.TENANT, tenant)
    except NotFound as error:
        raise CannotStart(
            f"no such tenant: {tenant}; make one with: veristream tenant create NAME"
        ) from error
    return TenantId(tenant)


async def every_tenant(deployment: Deployment) -> list[TenantId]:
    """Return the ids of all tenants, newest first."""
    tenants = every_record(deployment, PLATFORM, RecordKind.TENANT, TENANTS_INDEX)
    return [TenantId(record.id) async for record in tenants]


async def every_record(
    deployment: Deployment, tenant_id: TenantId, kind: RecordKind, index: tuple[str, str]
) -> AsyncIterator[Record]:
    """Read all records under an index, newest first, a page at a time."""
    before: Position | None = None
    while page := await deployment.stores.records.page(tenant_id, kind, index, limit=PAGE, before=before):
        for record in page:
            yield record
        before = Position(page[-1].created_at, page[-1].id)
