"""The base model of messages and stored values, and the format of times."""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.functional_validators import AfterValidator

_OFFSET_CHARS = len("+00:00")


def to_milliseconds(moment: datetime) -> datetime:
    """Return the moment in UTC, cut to whole milliseconds; a moment without a zone is refused.

    Raises:
        ValueError: The moment carries no zone.
    """
    if moment.tzinfo is UTC and not moment.microsecond % 1000:
        return moment  # as most are
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a time needs its zone")
    if offset:
        moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)


def rfc3339(moment: datetime) -> str:
    """Return a time in RFC 3339, in UTC with milliseconds and `Z` (decision G3)."""
    return to_milliseconds(moment).isoformat(timespec="milliseconds")[:-_OFFSET_CHARS] + "Z"


Timestamp = Annotated[
    datetime, AfterValidator(to_milliseconds), PlainSerializer(rfc3339, return_type=str, when_used="json")
]
"""A moment in UTC with millisecond precision, written as RFC 3339 with `Z`."""


class Frozen(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_bytes(self) -> bytes:
        """Return the JSON that is sent and stored; fields that are None are left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, raw: bytes | str) -> Self:
        """Parse what `to_bytes` wrote.

        Raises:
            pydantic.ValidationError: The bytes are not this model.
        """
        return cls.model_validate_json(raw)


class Command(Frozen):
    """A command, keyed by the id of the thing it changes; named in the imperative."""


class Event(Frozen):
    """An immutable fact, named with a past participle."""
