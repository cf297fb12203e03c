"""The promises the handlers need from a store and a log, in the words of the domain; `app` keeps them.

Every method takes the tenant first, and another tenant's thing is `NotFound`. Each may raise
`StoreUnavailable`; then nothing is known about what was asked, and asking again is safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.events import DecisionEvent
from schemas.ids import (
    AuditEventId,
    EventId,
    TenantId,
)
from schemas.problems import VeristreamError
from streams.ports.evidence import EvidenceStore, Vault


class Erased(VeristreamError):
    """The subject's data key was destroyed; what it sealed is gone for good."""


class KeyNotHeld(VeristreamError):
    """The process was not given the key that this needs; the words name what the key is for."""


class Damaged(VeristreamError):
    """What is kept is not what was put there; it must not be shown."""


class Conflict(VeristreamError):
    """The record was changed by somebody else since it was read."""


class RecordKind(StrEnum):
    """What a record is; part of every store key, right after the tenant."""

    TENANT = "tenant"
    API_KEY = "api_key"
    VERIFICATION = "verification"
    SESSION = "session"
    SESSION_SLOT = "session_slot"
    """Which session a subject has open under a flow."""
    SESSION_WATCH = "session_watch"
    """When a session needs attention; the platform's, so that one sweep finds those of every tenant."""
    REVIEW_CASE = "review_case"
    DECISION = "decision"
    PICTURE = "picture"
    """For whom a picture was kept first, under the mode and the digest of its pixels."""
    FLOW = "flow"
    FLOW_REVISION = "flow_revision"
    CAPABILITY = "capability"
    REVIEWER = "reviewer"
    REVIEWER_SESSION = "reviewer_session"
    REVIEWER_EMAIL = "reviewer_email"
    TOKEN = "token"  # noqa: S105 - a kind of record
    COUNTER = "counter"
    ACT = "act"
    """Something done that changed no other record, such as a look at evidence (`streams.audit.rows`)."""
    SETTINGS = "settings"
    WEBHOOK_ENDPOINT = "webhook_endpoint"
    WEBHOOK_HEALTH = "webhook_health"
    WEBHOOK_TENANT = "webhook_tenant"
    """That a tenant ever had an endpoint, and how far its events were seen fanned out; the platform's."""
    DELIVERY = "delivery"
    DELIVERY_WATCH = "delivery_watch"
    """When a delivery needs attention; the platform's, so that one sweep finds those of every tenant."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a list ordered by (created_at, id)."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Record:
    """A stored value with what the store must know of it; `body` is JSON and means nothing to the store."""

    tenant_id: TenantId
    kind: RecordKind
    id: str
    body: bytes
    created_at: datetime
    version: int = 1
    """1 when created, one more at each change."""
    fingerprint: str = ""
    """SHA-256 of the request that created it (G2)."""
    indexes: tuple[tuple[str, str], ...] = ()
    """(index name, value) pairs under which the record is listed now."""
    first_body: bytes = b""
    """The body as first answered; filled by the store, ignored on writes."""
    searched: str = ""
    """The text of which a fragment finds the record (`Records.search`); what it was created with stays."""


SEARCHED_UNDER: Final = frozenset({"mode", "status"})
"""Names of the indexes under which a fragment can be sought; each costs something at every write."""


@dataclass(frozen=True, slots=True)
class Change:
    """All that one command changes, committed together or not at all; every id derives from the command.

    The first record decides: when it is new (`version` 1) and already there, or when the stored
    version is not `version - 1`, nothing of the change is written. Any other record that is new and
    already there stays as it is. What a record was created with (`created_at`, `fingerprint`, its
    first body, `searched`) never changes.
    """

    tenant_id: TenantId
    """Whose audit rows and events these are; a record is this tenant's or the platform's."""
    records: tuple[Record, ...]
    audit: tuple[AuditEvent, ...] = ()
    events: tuple[DecisionEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """What stands in the store after a commit."""

    record: Record
    """The deciding record as it is stored, whoever wrote it."""
    won: bool
    """False when an earlier commit had written the record; that one is what gets answered."""


@dataclass(frozen=True, slots=True)
class FedEvent:
    """An event and its place in the feed, which means nothing to anybody but the feed."""

    event: DecisionEvent
    place: str


class Journal(Protocol):
    """Commits changes, and remembers which events still have to leave the house."""

    async def commit(self, change: Change) -> Committed:
        """Write the change once; the same change again answers what the first wrote, with `won` False.

        A replay of a later version is known by its version and body; after further changes it is a
        `Conflict`.

        Raises:
            Conflict: A record with `version` > 1 was changed by somebody else, or is not there.
        """
        ...

    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        """Return events that were committed but not yet marked as emitted, oldest first, of all tenants."""
        ...

    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        """Remember that these events are in the log; unknown ids are ignored."""
        ...

    async def touch(self) -> None:
        """Write something that says nothing, as a commit would; `StoreUnavailable` when it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, newest first."""

    records: Sequence[Record]
    further: Position | None = None
    """Before this nothing was looked at, though the page is not full; None: it is full, or that was all."""


class Records(Protocol):
    """Reads what was committed; a commit that was answered is visible at once."""

    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        """Return the record, or raise `NotFound`."""
        ...

    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> Sequence[Record]:
        """Return at most `limit` records listed under (index name, value), newest first.

        `before` continues after the last record of the page before it.
        """
        ...

    async def search(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        fragment: str,
        *,
        limit: int,
        before: Position | None = None,
    ) -> Found:
        """Return what `page` would of the records whose `searched` text contains the fragment.

        Letters count as they are: whoever wants no difference of case folds both. The fragment is not
        empty, and the index one of `SEARCHED_UNDER`. A store may stop before the page is full, rather than
        look at all there is for a fragment of common pieces; `Found.further` then says where to go on.
        """
        ...


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A link of the chain with the row it seals."""

    event: AuditEvent | None
    """None: the row is gone, or is no row any more."""
    link: ChainLink


class AuditLog(Protocol):
    """Rows are only ever added (by `Journal.commit`); sealing joins them to the tenant's chain."""

    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        """Return matching rows, newest first; a sealed row carries its link in `context["chain"]`.

        Raises:
            Damaged: A row was altered so far that it cannot be read.
        """
        ...

    async def unsealed_tenants(self) -> Sequence[TenantId]:
        """Return the tenants that have rows outside their chain."""
        ...

    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        """Return rows outside the chain in the order they were committed.

        Raises:
            Damaged: A row was altered so far that it cannot be read.
        """
        ...

    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        """Return the last link of the chain, None before the first.

        Raises:
            Damaged: The head is not one that `seal` wrote.
        """
        ...

    async def heads(self) -> Sequence[ChainHead]:
        """Return the last link of every chain; a chain whose head `seal` did not write is left out."""
        ...

    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        """Append links in order; False, and nothing written, when the head is not the one they follow.

        Raises:
            Damaged: The head is not one that `seal` wrote, or a row is unknown or already in the chain.
        """
        ...

    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        """Return sealed rows in chain order, from the position after `after`."""
        ...


class EventFeed(Protocol):
    """Reads a tenant's decision events in the order in which they became visible (G56).

    That may be some seconds after their commit, where many nodes must agree on an order first.
    """

    async def page(
        self, tenant_id: TenantId, *, livemode: bool, after: str, limit: int, until: datetime | None = None
    ) -> Sequence[FedEvent]:
        """Return at most `limit` events behind the place `after`, oldest first; "" is the beginning.

        An event that becomes visible later stands behind every place returned before, so a reader that
        goes on from the last place misses none; one may be met twice. `until` leaves out what became
        visible later than that.

        Raises:
            ValueError: `after` is no place of this feed.
        """
        ...

    async def place_of(self, tenant_id: TenantId, event_id: EventId, *, livemode: bool | None = None) -> str:
        """Return the place of an event, to go on behind it; `NotFound` when the tenant has no such event.

        With `livemode` an event of the other mode is none either.
        """
        ...

    async def place_at(self, tenant_id: TenantId, *, livemode: bool, moment: datetime) -> str:
        """Return a place behind which every event is that became visible at or after the moment."""
        ...


class Announcer(Protocol):
    """Tells the log what was committed; what it forgets the reconciler tells again."""

    async def announce(
        self, tenant_id: TenantId, events: Sequence[DecisionEvent], audit_ids: Sequence[AuditEventId]
    ) -> None:
        """Send the events to the decision topic and ask for the rows to be sealed, after a commit."""
        ...


Value = TypeVar("Value")


class WorkingState(Protocol[Value]):
    """What an actor remembers of its keys; a miss means nothing, the store knows."""

    def get(self, key: str) -> Value | None:
        """Return what is remembered of the key."""
        ...

    def put(self, key: str, value: Value) -> None:
        """Remember the value; old keys may be forgotten to make room."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """Every store port, opened together by one adapter."""

    journal: Journal
    records: Records
    audit_log: AuditLog
    evidence: EvidenceStore
    vault: Vault
    feed: EventFeed
