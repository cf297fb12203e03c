"""The base model of messages and stored values, the format of times, and constraints of strings."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError
from typing_extensions import override

_OFFSET_CHARS = len("+00:00")
_ABOUT_FORM: Final = frozenset(
    {"string_pattern_mismatch", "string_too_short", "string_too_long", "value_error"}
)
"""What a text may be refused for; another type gets pydantic's own message."""


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


@lru_cache(maxsize=256)  # a command's time is in its record, its audit rows, its events and its answer
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


def in_words(words: str) -> WrapValidator:
    """Return a validator that replaces pattern and length errors with a readable message."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            if any(one["type"] not in _ABOUT_FORM for one in error.errors(include_url=False)):
                raise
            raise PydanticCustomError("text_form", "{words}", {"words": words}) from None

    return WrapValidator(check)


@dataclass(frozen=True)
class TextForm(StringConstraints):
    """String constraints, with the message for a text that violates them."""

    words: str = ""

    @override
    def __iter__(self) -> Iterator[Any]:
        """Yield the constraints, and around them the words."""
        yield from super().__iter__()
        yield in_words(self.words)
