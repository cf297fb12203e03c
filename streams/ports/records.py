"""The ports of records: changes committed in one transaction, and queries of the records.

Every method takes the tenant first, and another tenant's thing is `NotFound`. Each may raise
`StoreUnavailable`; then the outcome is unknown, and calling again is safe.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from schemas.audit import AuditEvent
from schemas.base import rfc3339
from schemas.enums import TextEnum
from schemas.events import DecisionEvent
from schemas.ids import EventId, TenantId
from schemas.problems import NotFound


class RecordKind(TextEnum):
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
    """The subject a picture was first stored for, by mode and digest of its pixels."""
    TRANSACTION = "transaction"
    HISTORIC_TRANSACTION = "historic_transaction"
    """A transaction that was imported, not decided (G119)."""
    HISTORY_IMPORT = "history_import"
    """The answer to an import, for its repetition."""
    CONTACT_USE = "contact_use"
    """That a subject used a telephone number or an e-mail address on a day; both are keyed hashes."""
    SUBJECT_STANDING = "subject_standing"
    """What lasts of decisions about a subject's transactions: that it is suspended."""
    PAYMENT_STREAM = "payment_stream"
    """Whose a stream of payments is, and its last tick."""
    HOLD_WATCH = "hold_watch"
    """When a held transaction is decided; the platform's, so that one sweep finds those of every tenant."""
    FLOW = "flow"
    FLOW_REVISION = "flow_revision"
    POLICY = "policy"
    """Which revision of a transaction policy is published, and what is drafted."""
    POLICY_DRAFT = "policy_draft"
    POLICY_REVISION = "policy_revision"
    POLICY_SHADOW = "policy_shadow"
    """The text that runs beside the published one."""
    BACKTEST = "backtest"
    BACKTEST_TEXT = "backtest_text"
    """The text that a backtest tests."""
    BACKTEST_WATCH = "backtest_watch"
    """That a backtest is not finished; the platform's, so that workers find those of every tenant."""
    LISTS = "lists"
    """All lists of a tenant, or of the deployment: their versions, and where their entries are."""
    LIST_ENTRIES = "list_entries"
    """Some of a list's entries, sealed."""
    CAPABILITY = "capability"
    REVIEWER = "reviewer"
    REVIEWER_SESSION = "reviewer_session"
    REVIEWER_EMAIL = "reviewer_email"
    TOKEN = "token"  # noqa: S105 - a kind of record
    COUNTER = "counter"
    ACT = "act"
    """An act that changed no other record, such as viewing evidence (`streams.audit.rows`)."""
    SETTINGS = "settings"
    WEBHOOK_ENDPOINT = "webhook_endpoint"
    WEBHOOK_HEALTH = "webhook_health"
    WEBHOOK_TENANT = "webhook_tenant"
    """That a tenant ever had an endpoint, and how far its events were seen fanned out; the platform's."""
    ERASURE = "erasure"
    WALLET_ASSESSMENT = "wallet_assessment"
    NAME_SCREENING = "name_screening"
    DISPOSITION = "disposition"
    """That a match with a listed entity, or the hit of a rule, was judged to be none."""
    DISPOSITION_WATCH = "disposition_watch"
    """When a disposition expires; the platform's, so that one sweep finds those of every tenant."""
    TRANSFER = "transfer"
    """A crypto transfer whose money moved, listed under the node it went into (G124)."""
    DELIVERY = "delivery"
    DELIVERY_WATCH = "delivery_watch"
    """When a delivery needs attention; the platform's, so that one sweep finds those of every tenant."""


BY_AGE: Final = ("age", "all")
"""Lists records that end some time after their creation, for their removal (`streams.retention.expiry`)."""


def due_index(moment: datetime) -> tuple[str, str]:
    """Return the index of the watches that are due within the hour of the time."""
    return "due", rfc3339(moment)[:13]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a list ordered by (created_at, id)."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Record:
    """A stored value with its metadata; `body` is JSON and opaque to the store."""

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


DERIVED: Final = frozenset({(RecordKind.VERIFICATION, RecordKind.SESSION)})
"""Kinds of a deciding record and of another new one whose id derives from it: no other change creates that
one, so a store need not look whether one did."""


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one command, committed atomically; every id derives from the command.

    The first record decides: when it is new (`version` 1) and already there, or when the stored
    version is not `version - 1`, nothing of the change is written. Any other record that is new and
    already there stays as it is. What a record was created with (`created_at`, `fingerprint`, its
    first body, `searched`) never changes, but for `first_body`.
    """

    tenant_id: TenantId
    """Whose audit rows and events these are; a record is this tenant's or the platform's."""
    records: tuple[Record, ...]
    audit: tuple[AuditEvent, ...] = ()
    events: tuple[DecisionEvent, ...] = ()
    first_body: bytes | None = None
    """Replaces the deciding record's first body, whose content must not be stored any longer."""
    canonical: tuple[bytes, ...] = ()
    """The audit rows as their chain takes them (`streams.audit.rules.canonical`), for a store that links
    rows in their commit; empty: they wait until `AuditLog.seal`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit."""

    record: Record
    """The deciding record as stored, by this or an earlier commit."""
    won: bool
    """False when an earlier commit had written the record; that one is what gets answered."""


class Journal(Protocol):
    """Commit changes, and track which events still have to be published."""

    async def commit(self, change: Change) -> Committed:
        """Write the change once; the same change again returns what the first wrote, with `won` False.

        A replay of a later version is known by its version and body; after further changes it is a
        `Conflict`.

        Raises:
            Conflict: A record with `version` > 1 was changed concurrently, or does not exist.
        """
        ...

    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        """Return events that were committed but not yet marked as emitted, oldest first, of all tenants."""
        ...

    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        """Mark events as published; unknown ids are ignored."""
        ...

    async def touch(self) -> None:
        """Write a probe as a commit would, or raise `StoreUnavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, newest first."""

    records: Sequence[Record]
    further: Position | None = None
    """Where the search stopped before the page was full; None: it is full, or the end was reached."""


class Records(Protocol):
    """Query committed records; a commit that returned is visible at once."""

    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        """Return the record, or raise `NotFound`."""
        ...

    async def find(self, tenant_id: TenantId, *wanted: tuple[RecordKind, str]) -> Sequence[Record | None]:
        """Return records of one tenant, None for each that is not there; one after the other or at once."""
        return await asyncio.gather(*(self._get_or_none(tenant_id, *key) for key in wanted))

    async def _get_or_none(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record | None:
        try:
            return await self.get(tenant_id, kind, record_id)
        except NotFound:
            return None

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

        The search is case-sensitive: callers fold both sides to ignore case. The fragment is not
        empty, and the index one of `SEARCHED_UNDER`. A store may stop before the page is full, rather than
        search all records for a fragment of common pieces; `Found.further` is then where to continue.
        """
        ...
