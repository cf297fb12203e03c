"""Report and track the health of endpoints, and disable those that are gone or failed for days."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.enums import ActorType
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import EndpointId, EventId, TenantId, derive_id
from schemas.problems import NotFound
from schemas.webhooks import DisabledReason, EndpointHealth, NoteAttempt, StoredEndpoint
from streams.aggregate import Pause, retry_conflicts
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.ports.stores import WorkingState
from streams.webhooks import rules
from streams.webhooks.fanout import command_record
from streams.webhooks.ports import Write
from streams.webhooks.records import endpoint_record, health_record

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpdateHealth:
    """Update the health of an endpoint; the only writer, called for one endpoint at a time."""

    records: Records
    commit: Commit
    clock: Callable[[], datetime]
    state: WorkingState[EndpointHealth]
    pause: Pause = asyncio.sleep

    async def __call__(self, note: NoteAttempt) -> None:
        """Record the result of an attempt, and disable the endpoint if it is gone or failed for days.

        Raises:
            StoreUnavailable: The outcome is unknown; the same note may be sent again.
            Conflict: The endpoint, or its health, changed at every attempt.
        """
        health, version = await self._known(note)
        after = rules.after_note(health, note)
        reason = rules.reason_to_disable(after, note)
        if reason is not None:
            judged, why = after, reason
            after = await retry_conflicts(lambda: self._disable(note, judged, why), self.pause)
        if after is not health:
            await self._store(after, version)
        if after is not health or version is not None:
            self.state.put(note.endpoint_id, after)

    async def _known(self, note: NoteAttempt) -> tuple[EndpointHealth, int | None]:
        """Return the health and, if it was read from the store, its record's version; 0: there is none."""
        known = self.state.get(note.endpoint_id)
        if known is not None and known.tenant_id == note.tenant_id:
            return known, None
        record = await self._stored(note.tenant_id, note.endpoint_id)
        if record is None:
            return EndpointHealth(tenant_id=note.tenant_id, endpoint_id=note.endpoint_id), 0
        return EndpointHealth.from_bytes(record.body), record.version

    async def _stored(self, tenant_id: TenantId, endpoint_id: EndpointId) -> Record | None:
        try:
            return await self.records.get(tenant_id, RecordKind.WEBHOOK_HEALTH, endpoint_id)
        except NotFound:
            return None

    async def _store(self, health: EndpointHealth, version: int | None) -> None:
        """Store the health, overwriting what a previous actor of the endpoint stored."""

        async def write() -> None:
            nonlocal version
            if version is None:
                standing = await self._stored(health.tenant_id, health.endpoint_id)
                version = 0 if standing is None else standing.version
            record = health_record(health, to_milliseconds(self.clock()), version + 1)
            version = None  # a second attempt reads it
            committed = await self.commit(Change(health.tenant_id, (record,)))
            if not committed.won and committed.record.body != record.body:
                raise Conflict("another health of the endpoint is stored")

        await retry_conflicts(write, self.pause)

    async def _disable(
        self, note: NoteAttempt, health: EndpointHealth, reason: DisabledReason
    ) -> EndpointHealth:
        """Disable the endpoint, with its audit row and event; return its health afterwards.

        Attempts made before the endpoint was last activated do not count against it.
        """
        try:
            record = await self.records.get(note.tenant_id, RecordKind.WEBHOOK_ENDPOINT, note.endpoint_id)
        except NotFound:
            return health
        stored = StoredEndpoint.from_bytes(record.body)
        if not rules.is_in_force(stored):
            return health
        excused = rules.excused(health, note, reason, stored.judged_from)
        if excused is not None:
            return excused
        await self.commit(self._change(record, stored, reason))
        log.warning("webhooks.endpoint_disabled", endpoint_id=note.endpoint_id, reason=reason)
        return health

    def _change(self, record: Record, stored: StoredEndpoint, reason: DisabledReason) -> Change:
        now, version = to_milliseconds(self.clock()), record.version + 1
        changes = {"active": False, "disabled_reason": reason}
        disabled = stored.model_copy(update={"endpoint": stored.endpoint.model_copy(update=changes)})
        updated = replace(endpoint_record(disabled, version), created_at=record.created_at)
        endpoint_id, named = stored.endpoint.endpoint_id, (stored.tenant_id, record.id, str(version))
        row = write_row(
            derive_id("aud", *named, AuditAction.WEBHOOK_DISABLED),
            AuditAction.WEBHOOK_DISABLED,
            Actor(actor_type=ActorType.SYSTEM),
            endpoint_id,
            now,
            detail=_DETAIL_OF[reason],
            changes={"disabled_reason": reason},
            livemode=stored.endpoint.livemode,
        )
        event = DecisionEvent(
            id=EventId(derive_id("evt", *named, EventType.WEBHOOK_ENDPOINT_DISABLED)),
            type=EventType.WEBHOOK_ENDPOINT_DISABLED,
            timestamp=now,
            tenant_id=stored.tenant_id,
            livemode=stored.endpoint.livemode,
            sequence=version,
            data=EventData(endpoint_id=endpoint_id, status="DISABLED", reason_codes=(reason,)),
        )
        return Change(stored.tenant_id, (updated,), (row,), (event,))


_DETAIL_OF = {
    DisabledReason.GONE: "A webhook endpoint was disabled: its receiver is gone.",
    DisabledReason.FAILED_FOR_5_DAYS: "A webhook endpoint was disabled: every attempt of five days failed.",
}


SAID_AGAIN_AFTER: Final = timedelta(seconds=30)
"""Shortest interval between equal notes on an endpoint; half the actor's own interval (`SUCCESS_EVERY`)."""

REMEMBERED: Final = 10_000
"""Endpoints whose last note is remembered."""


@dataclass(frozen=True, slots=True)
class _Said:
    at: datetime
    succeeded: bool


class NoteAttempts:
    """Write notes to Kafka, keyed by endpoint; not thread-safe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._said: OrderedDict[EndpointId, _Said] = OrderedDict()

    async def __call__(self, note: NoteAttempt) -> None:
        """Send the result of an attempt, unless an equal one was sent within `SAID_AGAIN_AFTER`.

        Raises:
            StoreUnavailable: Kafka is away; nothing was sent.
        """
        said = self._said.get(note.endpoint_id)
        same = said is not None and said.succeeded == note.succeeded
        if said is not None and same and not note.gone and abs(note.at - said.at) < SAID_AGAIN_AFTER:
            return
        await self._write(command_record(note.endpoint_id, note.to_bytes()))
        self._said[note.endpoint_id] = _Said(note.at, note.succeeded)
        self._said.move_to_end(note.endpoint_id)
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
