"""A Kafka record before it is parsed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Delivery:
    """The raw bytes of a record and its place."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    appended_ms: int | None = None
    """When the broker took it, in milliseconds since 1970 by its clock; None: the topic has no such time."""
