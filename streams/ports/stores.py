"""The store ports of one adapter, and the working state of an agent."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from streams.ports.audit import AuditLog
from streams.ports.events import EventFeed
from streams.ports.evidence import EvidenceStore, Vault
from streams.ports.records import Journal, Records
from streams.ports.retention import EvidenceAges, RecordRemoval

Value = TypeVar("Value")


class WorkingState(Protocol[Value]):
    """An actor's cache of its keys; after a miss the store decides."""

    def get(self, key: str) -> Value | None:
        """Return the cached value of the key, or None."""
        ...

    def put(self, key: str, value: Value) -> None:
        """Cache the value; old keys may be evicted."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """The store ports, opened by one adapter."""

    journal: Journal
    records: Records
    audit_log: AuditLog
    evidence: EvidenceStore
    vault: Vault
    feed: EventFeed
    ages: EvidenceAges
    removal: RecordRemoval
    links_in_commit: bool = False
    """Whether the journal links audit rows to their chain in their commit, given `Change.canonical`."""
