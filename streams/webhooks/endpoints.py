"""Webhook endpoints of a tenant: create, change, rotate the secret, delete (G38)."""

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.ids import EndpointId, TenantId, derive_id
from schemas.problems import NotFound
from schemas.webhooks import EndpointHealth, SealedSecret, StoredEndpoint, WebhookEndpoint
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.errors import Conflict, Erased
from streams.ports.evidence import Vault
from streams.ports.records import Change, Record, RecordKind, Records
from streams.tenants.handler import Clock, NewId, RequestName
from streams.webhooks.endpoint_limit import endpoint_or_none, read_register
from streams.webhooks.records import endpoint_record
from streams.webhooks.rules import changed, rotated
from streams.webhooks.signing import forget_secrets, open_secrets, seal_secret, secret_bytes
from streams.webhooks.urls import USUAL_PORTS, receiver_url

_DETAIL_OF: Final = {
    AuditAction.WEBHOOK_CREATED: "A webhook endpoint was created.",
    AuditAction.WEBHOOK_UPDATED: "A webhook endpoint was changed.",
    AuditAction.WEBHOOK_ROTATED: "The secret of a webhook endpoint was rotated.",
    AuditAction.WEBHOOK_DELETED: "A webhook endpoint was deleted.",
    AuditAction.WEBHOOK_REPLAYED: "Deliveries to a webhook endpoint were asked for again.",
}

Modes = Collection[bool]
"""The modes the caller sees: live, test, or both (G92)."""

Alter = Callable[[StoredEndpoint, datetime], Awaitable[StoredEndpoint]]
"""Return the changed endpoint; if it equals the current one, nothing is written."""


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """The endpoint to create; event types and secret are validated already."""

    url: str
    event_types: tuple[str, ...]
    secret: str = field(repr=False)
    livemode: bool
    description: str | None = None


@dataclass(frozen=True, slots=True)
class MadeEndpoint:
    """An endpoint as first answered."""

    endpoint: WebhookEndpoint
    replayed: bool
    """The request was answered before (G2)."""


@dataclass(frozen=True, slots=True)
class FoundEndpoint:
    """An endpoint and the record it was read from."""

    record: Record
    stored: StoredEndpoint


@dataclass(frozen=True, slots=True)
class TenantEndpoints:
    """Create, read, change and delete the endpoints of a tenant."""

    records: Records
    commit: Commit
    vault: Vault
    clock: Clock
    new_id: NewId
    insecure: bool = False
    """Whether receivers without TLS and on this machine are accepted (development)."""
    ports: Collection[int] = USUAL_PORTS
    """Ports that receivers may listen on (S36)."""

    async def create(
        self, tenant_id: TenantId, new: NewEndpoint, request: RequestName, actor: Actor
    ) -> MadeEndpoint:
        """Create an endpoint; the same request again returns the first answer.

        Raises:
            Refused: WEBHOOK_ENDPOINT_UNUSABLE, limit reached or URL refused; IDEMPOTENCY_KEY_REUSED.
        """
        endpoint_id = EndpointId(request.id)
        while True:
            first = await self._first_of(tenant_id, endpoint_id, request)
            if first is not None:
                return MadeEndpoint(first, replayed=True)
            with suppress(Conflict):  # another endpoint was created just now: read again
                made = await self._add(tenant_id, endpoint_id, new, request, actor)
                if made is not None:
                    return MadeEndpoint(made, replayed=False)

    async def _add(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        new: NewEndpoint,
        request: RequestName,
        actor: Actor,
    ) -> WebhookEndpoint | None:
        """Count and store the endpoint in one commit; return None when another request was first."""
        url = receiver_url(new.url, insecure=self.insecure, ports=self.ports)
        register = await read_register(self.records, tenant_id)
        if await endpoint_or_none(self.records, tenant_id, endpoint_id) is not None:
            return None  # created by the same request; reading it completed the commit
        now = self.clock()
        places = register.with_place(endpoint_id, now)
        stored = await self._begun(tenant_id, endpoint_id, new, url, now)
        action = AuditAction.WEBHOOK_CREATED
        row_id = derive_id("aud", endpoint_id, action)
        row = webhook_row(row_id, action, stored, actor, now, event_types=new.event_types)
        records = (*places, endpoint_record(stored, 1, request.fingerprint))
        committed = await self.commit(Change(tenant_id, records, (row,)))
        return stored.endpoint if committed.won else None

    async def _first_of(
        self, tenant_id: TenantId, endpoint_id: EndpointId, request: RequestName
    ) -> WebhookEndpoint | None:
        """Return the endpoint the request created before, as first answered, or None."""
        standing = await endpoint_or_none(self.records, tenant_id, endpoint_id)
        if standing is None:
            return None
        request.require_same(standing.fingerprint)
        return StoredEndpoint.from_bytes(standing.first_body).endpoint

    async def _begun(
        self, tenant_id: TenantId, endpoint_id: EndpointId, new: NewEndpoint, url: str, now: datetime
    ) -> StoredEndpoint:
        endpoint = WebhookEndpoint(
            endpoint_id=endpoint_id,
            url=url,
            event_types=new.event_types,
            created_at=now,
            livemode=new.livemode,
            description=new.description,
        )
        sealed = await seal_secret(self.vault, tenant_id, endpoint_id, new.secret)
        return StoredEndpoint(tenant_id=tenant_id, endpoint=endpoint, secrets=(SealedSecret(sealed=sealed),))

    async def find(self, tenant_id: TenantId, endpoint_id: EndpointId, seen: Modes) -> FoundEndpoint:
        """Return an endpoint of the modes the caller sees that is not deleted, or raise `NotFound`."""
        found = await self._find(tenant_id, endpoint_id, seen)
        if found.stored.deleted:
            raise NotFound(endpoint_id)
        return found

    async def _find(self, tenant_id: TenantId, endpoint_id: EndpointId, seen: Modes) -> FoundEndpoint:
        record = await self.records.get(tenant_id, RecordKind.WEBHOOK_ENDPOINT, endpoint_id)
        stored = StoredEndpoint.from_bytes(record.body)
        if stored.endpoint.livemode not in seen:
            raise NotFound(endpoint_id)
        return FoundEndpoint(record, stored)

    async def show(self, stored: StoredEndpoint) -> WebhookEndpoint:
        """Return the endpoint as its tenant sees it, with the time of the last success."""
        endpoint = stored.endpoint
        try:
            record = await self.records.get(stored.tenant_id, RecordKind.WEBHOOK_HEALTH, endpoint.endpoint_id)
        except NotFound:
            return endpoint
        health = EndpointHealth.from_bytes(record.body)
        return endpoint.model_copy(update={"last_success_at": health.last_success_at})

    async def change(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        seen: Modes,
        changes: Mapping[str, Any],
        actor: Actor,
    ) -> StoredEndpoint:
        """Change fields of an endpoint; without a difference nothing is written.

        Activated again, or at another URL, the endpoint starts afresh: earlier failures no longer disable it.

        Raises:
            NotFound: No such endpoint of these modes.
            Refused: WEBHOOK_ENDPOINT_UNUSABLE; no such URL.
        """
        values = dict(changes)
        if "url" in values:
            values["url"] = receiver_url(values["url"], insecure=self.insecure, ports=self.ports)

        async def alter(stored: StoredEndpoint, now: datetime) -> StoredEndpoint:
            return changed(stored, values, now)

        return await self._amend(
            tenant_id, endpoint_id, seen, AuditAction.WEBHOOK_UPDATED, actor, alter, fields=sorted(values)
        )

    async def rotate(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        seen: Modes,
        secret: str,
        overlap: timedelta,
        actor: Actor,
    ) -> StoredEndpoint:
        """Replace an endpoint's secret; the former one signs beside it until the overlap ends (G54).

        Passing the secret in force changes nothing, so the request can be repeated.

        Raises:
            NotFound: No such endpoint of these modes.
        """

        async def alter(stored: StoredEndpoint, now: datetime) -> StoredEndpoint:
            in_force, *_ = await open_secrets(self.vault, stored, now)
            if hmac.compare_digest(in_force, secret_bytes(secret)):
                return stored
            sealed = await seal_secret(self.vault, tenant_id, endpoint_id, secret)
            return rotated(stored, sealed, overlap, now)

        action, seconds = AuditAction.WEBHOOK_ROTATED, int(overlap.total_seconds())
        try:
            return await self._amend(
                tenant_id, endpoint_id, seen, action, actor, alter, overlap_seconds=seconds
            )
        except Erased as error:  # it was deleted just now
            raise NotFound(endpoint_id) from error

    async def delete(self, tenant_id: TenantId, endpoint_id: EndpointId, seen: Modes, actor: Actor) -> None:
        """Delete an endpoint and destroy its secrets; deleting it again changes nothing.

        Raises:
            NotFound: The tenant never had such an endpoint of these modes.
        """

        async def alter(stored: StoredEndpoint, _: datetime) -> StoredEndpoint:
            return stored.model_copy(update={"deleted": True, "secrets": ()})

        found = await self._find(tenant_id, endpoint_id, seen)
        if not found.stored.deleted:
            await self._amend(tenant_id, endpoint_id, seen, AuditAction.WEBHOOK_DELETED, actor, alter)
        await forget_secrets(self.vault, tenant_id, endpoint_id)

    async def _amend(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        seen: Modes,
        action: AuditAction,
        actor: Actor,
        alter: Alter,
        **row_changes: Any,
    ) -> StoredEndpoint:
        """Change an endpoint, retrying on conflict; write one audit row if there is a difference."""
        row_id = self.new_id("aud")
        while True:
            found, now = await self._find(tenant_id, endpoint_id, seen), self.clock()
            if found.stored.deleted:
                if action is AuditAction.WEBHOOK_DELETED:
                    return found.stored
                raise NotFound(endpoint_id)
            altered = await alter(found.stored, now)
            if altered == found.stored:
                return altered
            row = webhook_row(row_id, action, altered, actor, now, **row_changes)
            record = replace(
                endpoint_record(altered, found.record.version + 1), created_at=found.record.created_at
            )
            try:
                await self.commit(Change(tenant_id, (record,), (row,)))
            except Conflict:
                continue  # changed concurrently: read again
            return altered


def webhook_row(
    row_id: str, action: AuditAction, stored: StoredEndpoint, actor: Actor, now: datetime, **row_changes: Any
) -> AuditEvent:
    """Return the audit row of a change to an endpoint, without URL and secret."""
    endpoint = stored.endpoint
    return write_row(
        row_id,
        action,
        actor,
        endpoint.endpoint_id,
        now,
        detail=_DETAIL_OF[action],
        changes=row_changes,
        livemode=endpoint.livemode,
    )
