"""Publish committed events to Kafka at once, and commands to seal audit rows in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import structlog
from typing_extensions import override

from schemas.audit import SealAudit
from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, EventId, SubjectId, TenantId
from schemas.problems import StoreUnavailable
from schemas.topics import Topic, decision_key
from streams.ports.events import EventPublisher
from streams.ports.stores import Stores
from streams.runtime.producer import LogWriter, Outgoing, RecordTooLarge

Item = TypeVar("Item")
log = structlog.get_logger(__name__)

SEAL_WINDOW_S: Final = 0.5
"""Rows of one tenant within this window are sealed by one command, of some ten statements on Cassandra."""

EMITTED_WINDOW_S: Final = 0.1
"""Marks within this window are one write to the store."""

PATIENCE_S: Final = 5.0
"""How long a handler waits for Kafka; after that the outbox relay publishes the events."""

MOST_IDS: Final = 500
"""Ids in one `SealAudit`, some 17 kB."""


@dataclass(slots=True)
class _Beside:
    """Ended with its block: tasks that outlive a command inherit its context, and nobody waits for them."""

    tasks: list[asyncio.Task[None]]
    ended: bool = False


_BESIDE: ContextVar[_Beside | None] = ContextVar("publishing_beside", default=None)


@contextmanager
def publishing_beside() -> Iterator[list[asyncio.Task[None]]]:
    """Let `announce` return within the block before the log has the events; yield what is to be waited for.

    So a command's events and its reply go to the log in one request. The caller waits for the tasks, which
    raise nothing, before it acknowledges the command.
    """
    beside = _Beside([])
    token = _BESIDE.set(beside)
    try:
        yield beside.tasks
    finally:
        beside.ended = True
        _BESIDE.reset(token)


class Debouncer(Generic[Item]):
    """Flush items in batches, in order, one batch at a time.

    `flush` must not raise: what it cannot do it logs, and the outbox relay does it later.
    """

    def __init__(self, window_s: float, flush: Callable[[list[Item]], Awaitable[None]]) -> None:
        self._window_s = window_s
        self._flush = flush
        self._items: list[Item] = []
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, items: Iterable[Item]) -> None:
        """Add items; they are flushed when the window closes."""
        self._items.extend(items)
        if self._items and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on(), context=Context())  # a batch is of many tenants

    async def aclose(self) -> None:
        """Flush what is left without waiting for the window."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _pass_on(self) -> None:
        while self._items:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._window_s):
                    await self._closing.wait()
            items, self._items = self._items, []
            await self._flush(items)


class KafkaEventPublisher(EventPublisher):
    """Publish over Kafka; an async context manager that flushes pending batches on exit.

    Seals are requested unless the journal links rows in their commit; the outbox relay requests those of
    rows that had to wait.
    """

    def __init__(self, writer: LogWriter, stores: Stores) -> None:
        self._writer = writer
        self._journal = stores.journal
        self._links_in_commit = stores.links_in_commit
        self._seals = Debouncer(SEAL_WINDOW_S, self._request_seals)
        self._emitted = Debouncer(EMITTED_WINDOW_S, self._mark)
        self._publishing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Begin; there is nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush pending batches."""
        if self._publishing:
            await asyncio.wait(self._publishing)
        await self._seals.aclose()
        await self._emitted.aclose()

    @override
    async def announce(
        self, tenant_id: TenantId, events: Sequence[DecisionEvent], audit_ids: Sequence[AuditEventId]
    ) -> None:
        if not self._links_in_commit:
            self._seals.add((tenant_id, audit_id) for audit_id in audit_ids)
        beside = _BESIDE.get()
        if beside is None or beside.ended:
            await self._publish(events)
        elif events:
            task = asyncio.create_task(self._publish(events))
            beside.tasks.append(task)
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish(self, events: Sequence[DecisionEvent]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._writer.write(*map(decision_record, events))
        except (StoreUnavailable, TimeoutError, RecordTooLarge):
            log.warning("outbox.publishing_deferred", events=len(events))
            return
        self._emitted.add(event.id for event in events)

    async def _request_seals(self, rows: list[tuple[TenantId, AuditEventId]]) -> None:
        by_tenant: dict[TenantId, list[AuditEventId]] = {}
        for tenant_id, audit_id in rows:
            by_tenant.setdefault(tenant_id, []).append(audit_id)
        try:
            await self._writer.write(*(seal_record(t, tuple(ids[:MOST_IDS])) for t, ids in by_tenant.items()))
        except StoreUnavailable:
            log.warning("audit.sealing_deferred", tenants=len(by_tenant))

    async def _mark(self, event_ids: list[EventId]) -> None:
        try:
            await self._journal.mark_emitted(event_ids)
        except StoreUnavailable:
            log.warning("outbox.marking_deferred", events=len(event_ids))


def decision_record(event: DecisionEvent) -> Outgoing:
    """Return the Kafka record of an event."""
    return Outgoing(Topic.DECISIONS, key_of(event).encode(), event.to_bytes())


def key_of(event: DecisionEvent) -> str:
    """Return the key under which one subject's events keep their order.

    What concerns no subject is keyed by the flow or endpoint it concerns.
    """
    data = event.data
    subject = SubjectId(data.subject_id or data.flow_id or data.endpoint_id or "")
    return decision_key(event.tenant_id, subject)


def seal_record(tenant_id: TenantId, event_ids: tuple[AuditEventId, ...] = ()) -> Outgoing:
    """Return the Kafka record of the command to seal a tenant's rows."""
    command = SealAudit(tenant_id=tenant_id, event_ids=event_ids)
    return Outgoing(Topic.AUDIT, tenant_id.encode(), command.to_bytes())
