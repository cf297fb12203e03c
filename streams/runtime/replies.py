"""Request and reply over the log: where an answer goes, how long it is waited for, and what it looks like."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from pydantic import model_validator

from schemas.base import Event, Frozen
from schemas.problems import Refusal
from schemas.topics import Topic
from streams.runtime.producer import Outgoing
from streams.runtime.tables import partitions_of

CORRELATION: Final = "cid"
"""Header: which question an answer belongs to."""

REPLY_TO: Final = "reply-to"
"""Header: `topic/partition` the asker reads."""

DEADLINE: Final = "deadline"
"""Header: when the asker stops waiting by its own clock, milliseconds since 1970."""

CLOCKS_APART: Final = timedelta(hours=2)
"""How far two machines' clocks may differ, an hour of daylight saving included; asker and answerer have
one each, and an answer that nobody waits for any more costs little."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where and until when an answer is wanted."""

    correlation_id: str
    topic: str
    partition: int
    deadline: datetime

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the address as the headers of a command."""
        milliseconds = (self.deadline - _EPOCH) // timedelta(milliseconds=1)
        return (
            (CORRELATION, self.correlation_id.encode()),
            (REPLY_TO, f"{self.topic}/{self.partition}".encode()),
            (DEADLINE, str(milliseconds).encode()),
        )

    def wanted(self, now: datetime) -> bool:
        """Return whether somebody may still wait; `now` is by the answerer's clock."""
        return now - CLOCKS_APART < self.deadline

    @classmethod
    def read(cls, headers: Mapping[str, bytes]) -> Self | None:
        """Return the address a command came with; None when it has none a front could read from."""
        try:
            topic, _, partition = headers[REPLY_TO].decode().rpartition("/")
            deadline = _EPOCH + timedelta(milliseconds=int(headers[DEADLINE]))
            address = cls(headers[CORRELATION].decode(), topic, int(partition), deadline)
        except (KeyError, ValueError, OverflowError):
            return None
        known = topic == Topic.REPLIES and 0 <= address.partition < partitions_of(Topic.REPLIES)
        return address if known else None


class Reply(Frozen):
    """The answer to a command: an event by its name, or a refusal; never a person's data."""

    answer: str | None = None
    """The name of the event's type."""
    body: dict[str, Any] | None = None
    refusal: Refusal | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.answer is None) == (self.refusal is None):
            raise ValueError("a reply is an answer or a refusal")
        return self

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return the reply that carries an event."""
        return cls(answer=type(event).__name__, body=event.model_dump(mode="json", exclude_none=True))


def bytes_of(event: Event) -> bytes:
    """Return `Reply.of(event).to_bytes()`, the event written once."""
    return b'{"answer":"%s","body":%s}' % (type(event).__name__.encode(), event.to_bytes())


def outgoing(address: ReturnAddress, reply: bytes) -> Outgoing:
    """Return the record that brings a reply to its address."""
    return Outgoing(address.topic, address.correlation_id.encode(), reply, (), address.partition)
