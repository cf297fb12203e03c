"""Commit a change and publish it at once, for use cases without an agent; the change of a mere act."""

from collections.abc import Awaitable, Callable, Sequence

import structlog

from schemas.audit import AuditEvent
from schemas.events import DecisionEvent
from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from streams.ports.events import EventPublisher
from streams.ports.records import BY_AGE, Change, Committed, Journal, Record, RecordKind

log = structlog.get_logger(__name__)

Commit = Callable[[Change], Awaitable[Committed]]
"""Commit a change; raises what `Journal.commit` raises."""


class CommitAndPublish:
    """Commit, then publish the events and request sealing; the outbox relay repeats what fails."""

    def __init__(self, journal: Journal, announcer: EventPublisher) -> None:
        self._journal = journal
        self._announcer = announcer

    async def __call__(self, change: Change) -> Committed:
        """Commit the change and publish its events.

        Raises:
            Conflict: As `Journal.commit`.
            StoreUnavailable: As `Journal.commit`; not raised when only Kafka is away.
        """
        committed = await self._journal.commit(change)
        if committed.won and (change.events or change.audit):
            try:
                rows = [row.event_id for row in change.audit]
                await self._announcer.announce(change.tenant_id, change.events, rows)
            except StoreUnavailable:
                log.warning("commit.publish_failed", tenant_id=change.tenant_id)
        return committed


def act(
    tenant_id: TenantId,
    row: AuditEvent,
    events: Sequence[DecisionEvent] = (),
    *,
    indexes: tuple[tuple[str, str], ...] = (),
    about: str = "",
) -> Change:
    """Return the change that writes the row; a marker under the row's id makes it happen once.

    The marker holds what the act was `about` and can be listed under `indexes`; it ends by age.
    """
    marker = Record(
        tenant_id,
        RecordKind.ACT,
        row.event_id,
        about.encode(),
        row.created_at,
        indexes=(*indexes, BY_AGE),
    )
    return Change(tenant_id, (marker,), (row,), tuple(events))
