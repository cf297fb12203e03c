"""The delivery log of a tenant: list deliveries, send a test ping, and replay deliveries (G38)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.audit import Actor, AuditAction
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import DeliveryId, EndpointId, EventId, TenantId
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.webhooks import Delivery, DeliveryStatus, ReplayEvents, StoredDelivery
from streams.ports.errors import Conflict
from streams.ports.records import BY_AGE, Change, Position, Record, RecordKind
from streams.runtime.producer import Outgoing
from streams.tenants.handler import RequestName
from streams.webhooks.endpoints import FoundEndpoint, Modes, TenantEndpoints, webhook_row
from streams.webhooks.ports import Hand
from streams.webhooks.records import delivery_records, endpoint_index, fresh, rearmed, status_index
from streams.webhooks.rules import STORED_FOR, WRITABLE_FOR, is_past


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """The events to deliver again."""

    since: datetime
    until: datetime
    event_types: tuple[str, ...] | None
    """None: the types the endpoint subscribes to."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """A delivery, and whether an earlier identical request created it."""

    delivery: Delivery
    replayed: bool


@dataclass(frozen=True, slots=True)
class QueuedReplay:
    """The command sent to the endpoint's actor, and whether an earlier identical request sent it."""

    command: ReplayEvents
    replayed: bool


@dataclass(frozen=True, slots=True)
class TenantDeliveries:
    """List, test and replay the deliveries to a tenant's endpoints."""

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
        """Return at most `limit` deliveries to an endpoint, newest first."""
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
        """Start the delivery of a ping to this endpoint only; the event is published nowhere else.

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
        """Restart a delivery's schedule, whatever its status; the scheduler sends it at once.

        Raises:
            NotFound: No such delivery to an endpoint of these modes, or it is about to be removed.
            Refused: WEBHOOK_ENDPOINT_UNUSABLE; the endpoint is not active.
        """
        row_id = self.endpoints.new_id("aud")
        while True:
            record, stored, found = await self._find(tenant_id, delivery_id, seen)
            now = self.endpoints.clock()
            if is_past(stored, WRITABLE_FOR, now):
                raise NotFound(delivery_id)
            _require_active(found)
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
        """Send the endpoint's actor the command to deliver the events of a period again.

        The audit row is committed first, with the command; the same request resumes from there when the
        command was not written to Kafka, and sends nothing once it was.

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
        """Return the record that an earlier identical request committed, or None."""
        try:
            standing = await self.endpoints.records.get(tenant_id, RecordKind.ACT, request.id)
        except NotFound:
            return None, False
        request.require_same(standing.fingerprint)
        return standing, True

    async def _commit_act(
        self, found: FoundEndpoint, selection: ReplaySelection, request: RequestName, actor: Actor
    ) -> tuple[Record, bool]:
        """Commit the audit row and the command; of two identical concurrent requests the first wins."""
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
            indexes=(BY_AGE,),
        )
        committed = await self.endpoints.commit(Change(stored.tenant_id, (record,), (row,)))
        request.require_same(committed.record.fingerprint)
        return committed.record, not committed.won


_HANDED: Final = b"{}"
"""The body that replaces a command once it is written to Kafka."""


def _outgoing(command: ReplayEvents) -> Outgoing:
    """Return the Kafka record, keyed by the endpoint, whose actor alone restarts its deliveries."""
    return Outgoing(Topic.WEBHOOK_DELIVERIES, command.endpoint_id.encode(), command.to_bytes())


def _require_active(found: FoundEndpoint) -> None:
    if not found.stored.endpoint.active:
        message = "The endpoint is not active, so nothing is sent to it; make it active first."
        raise Refused.because(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)


def _require_recent(selection: ReplaySelection, now: datetime) -> None:
    code = ProblemCode.VALIDATION_FAILED
    if selection.since < now - STORED_FOR:
        raise Refused.at("/from", code, f"Events are kept for {STORED_FOR.days} days.")
    if selection.since >= selection.until:
        raise Refused.at("/to", code, "The end must be later than the beginning.")
