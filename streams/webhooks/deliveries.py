"""The delivery log as a tenant uses it: read, tried out with a ping, and delivered again (G38)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from schemas.audit import Actor, AuditAction
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import DeliveryId, EndpointId, EventId, TenantId
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.webhooks import Delivery, DeliveryStatus, ReplayEvents, StoredDelivery
from streams.ports.errors import Conflict
from streams.ports.records import Change, Position, Record, RecordKind
from streams.runtime.producer import Outgoing
from streams.tenants.handler import RequestName
from streams.webhooks.endpoints import FoundEndpoint, Modes, TenantEndpoints, webhook_row
from streams.webhooks.rearm import fresh, rearmed
from streams.webhooks.records import delivery_records, endpoint_index, status_index

LONGEST_AGO: Final = timedelta(days=30)
"""How far back events can be delivered again: as long as the feed keeps them (G56)."""

Hand = Callable[[Outgoing], Awaitable[None]]
"""Writes a record to the log; raises `StoreUnavailable` when the log does not take it."""


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Which events are to be delivered again."""

    since: datetime
    until: datetime
    event_types: tuple[str, ...] | None
    """None: those the endpoint asks for."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """A delivery, and whether the same request had made it before."""

    delivery: Delivery
    replayed: bool


@dataclass(frozen=True, slots=True)
class QueuedReplay:
    """What the endpoint's actor was asked, and whether the same request had asked it before."""

    command: ReplayEvents
    replayed: bool


@dataclass(frozen=True, slots=True)
class TenantDeliveries:
    """The use cases about what was and is delivered to a tenant's endpoints."""

    endpoints: TenantEndpoints
    hand: Hand

    async def page(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        status: DeliveryStatus | None,
        limit: int,
        before: Position | None,
    ) -> Sequence[Record]:
        """Return at most so many deliveries to an endpoint, newest first."""
        index = endpoint_index(endpoint_id) if status is None else status_index(endpoint_id, status)
        records = self.endpoints.records
        return await records.page(tenant_id, RecordKind.DELIVERY, index, limit=limit, before=before)

    async def read(self, tenant_id: TenantId, delivery_id: DeliveryId, seen: Modes) -> Delivery:
        """Return a delivery to an endpoint that is not deleted, or raise `NotFound`."""
        return (await self._find(tenant_id, delivery_id, seen))[1].delivery

    async def _find(
        self, tenant_id: TenantId, delivery_id: DeliveryId, seen: Modes
    ) -> tuple[Record, StoredDelivery, FoundEndpoint]:
        record = await self.endpoints.records.get(tenant_id, RecordKind.DELIVERY, delivery_id)
        stored = StoredDelivery.from_bytes(record.body)
        return record, stored, await self.endpoints.find(tenant_id, stored.delivery.endpoint_id, seen)

    async def test(
        self, tenant_id: TenantId, endpoint_id: EndpointId, seen: Modes, event_id: EventId
    ) -> DeliveryResult:
        """Begin the delivery of a ping to this endpoint alone; nobody else ever hears of the event.

        Raises:
            NotFound: No such endpoint of these modes.
            Refused: WEBHOOK_ENDPOINT_UNUSABLE; it is not active.
        """
        found = await self.endpoints.find(tenant_id, endpoint_id, seen)
        _require_active(found)
        now = self.endpoints.clock()
        ping = DecisionEvent(
            id=event_id,
            type=EventType.PING,
            timestamp=now,
            tenant_id=tenant_id,
            livemode=found.stored.endpoint.livemode,
            sequence=found.record.version,
            data=EventData(endpoint_id=endpoint_id),
        )
        stored = fresh(ping, found.stored, now)
        committed = await self.endpoints.commit(Change(tenant_id, delivery_records(stored, now)))
        first = StoredDelivery.from_bytes(committed.record.body)
        return DeliveryResult(first.delivery, replayed=not committed.won)

    async def replay(
        self, tenant_id: TenantId, delivery_id: DeliveryId, seen: Modes, actor: Actor
    ) -> Delivery:
        """Begin a delivery's schedule anew, whatever became of it; a sweep takes it up at once.

        Raises:
            NotFound: No such delivery to an endpoint of these modes.
            Refused: WEBHOOK_ENDPOINT_UNUSABLE; the endpoint is not active.
        """
        row_id = self.endpoints.new_id("aud")
        while True:
            record, stored, found = await self._find(tenant_id, delivery_id, seen)
            _require_active(found)
            now = self.endpoints.clock()
            again = rearmed(stored, now)
            row = webhook_row(
                row_id, AuditAction.WEBHOOK_REPLAYED, found.stored, actor, now, delivery_id=delivery_id
            )
            records = delivery_records(again, now, record.version + 1)
            try:
                await self.endpoints.commit(Change(tenant_id, records, (row,)))
            except Conflict:
                continue  # an attempt was just made: look again
            return again.delivery

    async def replay_range(
        self,
        tenant_id: TenantId,
        endpoint_id: EndpointId,
        seen: Modes,
        selection: ReplaySelection,
        request: RequestName,
        actor: Actor,
    ) -> QueuedReplay:
        """Ask the endpoint's actor to deliver the events of a time again.

        The row is committed first and holds what is asked; the same request goes on from there when the
        log did not take it, and asks nothing once it did.

        Raises:
            NotFound: No such endpoint of these modes.
            Refused: WEBHOOK_ENDPOINT_UNUSABLE, it is not active; VALIDATION_FAILED, no such time;
                IDEMPOTENCY_KEY_REUSED.
            StoreUnavailable: The store or the log is away.
        """
        found = await self.endpoints.find(tenant_id, endpoint_id, seen)
        act, replayed = await self._first_act(tenant_id, request)
        if act is None:
            _require_active(found)
            act, replayed = await self._commit_act(found, selection, request, actor)
        command = ReplayEvents.from_bytes(act.first_body or act.body)
        if act.version == 1:
            await self.hand(_outgoing(command))
            done = replace(act, body=_HANDED, version=2)
            with suppress(Conflict, StoreUnavailable):  # handed twice is delivered once more, no harm
                await self.endpoints.commit(Change(tenant_id, (done,)))
        return QueuedReplay(command, replayed)

    async def _first_act(self, tenant_id: TenantId, request: RequestName) -> tuple[Record | None, bool]:
        """Return what the same request committed before."""
        try:
            standing = await self.endpoints.records.get(tenant_id, RecordKind.ACT, request.id)
        except NotFound:
            return None, False
        request.require_same(standing.fingerprint)
        return standing, True

    async def _commit_act(
        self, found: FoundEndpoint, selection: ReplaySelection, request: RequestName, actor: Actor
    ) -> tuple[Record, bool]:
        """Commit the row and what is asked; of two equal requests at once the first counts."""
        now, stored = self.endpoints.clock(), found.stored
        _require_recent(selection, now)
        command = ReplayEvents(
            tenant_id=stored.tenant_id,
            endpoint_id=stored.endpoint.endpoint_id,
            since=selection.since,
            until=selection.until,
            event_types=selection.event_types or stored.endpoint.event_types,
        )
        row = webhook_row(
            request.id,
            AuditAction.WEBHOOK_REPLAYED,
            stored,
            actor,
            now,
            **command.model_dump(mode="json", include={"since", "until", "event_types"}),
        )
        record = Record(
            stored.tenant_id,
            RecordKind.ACT,
            request.id,
            command.to_bytes(),
            now,
            fingerprint=request.fingerprint,
        )
        committed = await self.endpoints.commit(Change(stored.tenant_id, (record,), (row,)))
        request.require_same(committed.record.fingerprint)
        return committed.record, not committed.won


_HANDED: Final = b"{}"
"""What stands instead of a command the log took."""


def _outgoing(command: ReplayEvents) -> Outgoing:
    """Return the record, keyed by the endpoint, whose actor alone re-arms its deliveries."""
    return Outgoing(Topic.WEBHOOK_DELIVERIES, command.endpoint_id.encode(), command.to_bytes())


def _require_active(found: FoundEndpoint) -> None:
    if not found.stored.endpoint.active:
        message = "The endpoint is not active, so nothing is sent to it; make it active first."
        raise Refused.because(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)


def _require_recent(selection: ReplaySelection, now: datetime) -> None:
    code = ProblemCode.VALIDATION_FAILED
    if selection.since < now - LONGEST_AGO:
        raise Refused.at("/from", code, f"Events are kept for {LONGEST_AGO.days} days.")
    if selection.since >= selection.until:
        raise Refused.at("/to", code, "The end must be later than the beginning.")
