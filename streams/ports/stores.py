"""All store ports opened together, and the working state of an agent."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from streams.ports.audit import AuditLog
from streams.ports.events import EventFeed
from streams.ports.evidence import EvidenceStore, Vault
from streams.ports.records import Journal, Records
from streams.ports.retention import EvidenceAges

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
    ages: EvidenceAges
