"""Endpoints and their deliveries over real stores, a clock that is set by hand and a log that can fail."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from uuid_utils.compat import uuid7

from schemas.audit import Actor, AuditEvent, AuditFilter
from schemas.enums import ActorType
from schemas.ids import EndpointId, TenantId, encode_id
from schemas.problems import Refused
from schemas.webhooks import ANY_TYPE, StoredEndpoint, WebhookEndpoint
from streams.ports.stores import Stores
from streams.runtime.producer import Outgoing
from streams.tenants.handler import RequestName
from streams.webhooks.deliveries import TenantDeliveries
from streams.webhooks.endpoints import NewEndpoint, TenantEndpoints
from tests.builders import ACME, KEY, NOW

SECRET: Final = "a secret nobody else may know, never"  # noqa: S105 - of nobody
OTHER_SECRET: Final = "another secret of thirty characters"  # noqa: S105 - of nobody
BOTH: Final = (True, False)
ACTOR: Final = Actor(actor_type=ActorType.API_KEY, actor_id=KEY, request_id="req_1", ip="192.0.2.1")


def build_endpoint_command(**changes: Any) -> NewEndpoint:
    """What is to be registered."""
    values: dict[str, Any] = {
        "url": "https://receiver.example/hooks",
        "event_types": (ANY_TYPE,),
        "secret": SECRET,
        "livemode": True,
    }
    return NewEndpoint(**values | changes)


def new_id(prefix: str) -> str:
    """A fresh identifier."""
    return encode_id(prefix, uuid7())


@dataclass
class Stage:
    """The use cases of one store."""

    stores: Stores
    now: datetime = NOW
    written: list[Outgoing] = field(default_factory=list)
    """What the log took."""
    failing: Exception | None = None
    """What the log raises instead."""

    @property
    def endpoints(self) -> TenantEndpoints:
        """The use cases of endpoints."""
        stores = self.stores
        return TenantEndpoints(stores.records, stores.journal.commit, stores.vault, lambda: self.now, new_id)

    @property
    def deliveries(self) -> TenantDeliveries:
        """The use cases of deliveries."""
        return TenantDeliveries(self.endpoints, self._write)

    async def _write(self, record: Outgoing) -> None:
        if self.failing is not None:
            raise self.failing
        self.written.append(record)

    def wait(self, **some: float) -> None:
        """Let time pass."""
        self.now += timedelta(**some)

    async def create(
        self, request: RequestName | None = None, tenant_id: TenantId = ACME, **changes: Any
    ) -> WebhookEndpoint:
        """Register an endpoint, a second before whatever comes next."""
        named = request or RequestName(new_id("whe"))
        made = await self.endpoints.create(tenant_id, build_endpoint_command(**changes), named, ACTOR)
        self.wait(seconds=1)
        return made.endpoint

    async def try_to_create(self) -> str:
        """Register an endpoint: its id, or where it was refused."""
        try:
            return (await self.create()).endpoint_id
        except Refused as error:
            return str(error.refusal.errors[0].pointer)

    async def stored(self, endpoint: WebhookEndpoint, tenant_id: TenantId = ACME) -> StoredEndpoint:
        """The endpoint as it is kept."""
        return (await self.endpoints.find(tenant_id, endpoint.endpoint_id, BOTH)).stored

    async def change(self, endpoint: WebhookEndpoint, **changes: Any) -> StoredEndpoint:
        """Change an endpoint."""
        return await self.endpoints.change(ACME, endpoint.endpoint_id, BOTH, changes, ACTOR)

    async def rotate(
        self, endpoint: WebhookEndpoint, secret: str = OTHER_SECRET, overlap_s: int = 0
    ) -> StoredEndpoint:
        """Rotate an endpoint's secret."""
        overlap = timedelta(seconds=overlap_s)
        return await self.endpoints.rotate(ACME, endpoint.endpoint_id, BOTH, secret, overlap, ACTOR)

    async def delete(self, endpoint_id: EndpointId) -> None:
        """Delete an endpoint."""
        await self.endpoints.delete(ACME, endpoint_id, BOTH, ACTOR)

    async def rows(self, tenant_id: TenantId = ACME) -> list[AuditEvent]:
        """What the audit log tells of endpoints, oldest first."""
        chosen = AuditFilter(action="webhook.")
        return [*reversed(await self.stores.audit_log.page(tenant_id, chosen, limit=200))]

    async def actions(self) -> list[str]:
        """The actions of the rows, oldest first."""
        return [str(row.action) for row in await self.rows()]
