"""A record as the log delivered it, before anybody has made sense of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Delivery:
    """Raw bytes and where they came from."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    appended_ms: int | None = None
    """When the broker took it, in milliseconds since 1970 by its clock; None: the topic does not tell."""
