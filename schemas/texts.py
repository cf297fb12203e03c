"""String constraints with a readable error message."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import StringConstraints, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError
from typing_extensions import override

_ABOUT_FORM: Final = frozenset(
    {"string_pattern_mismatch", "string_too_short", "string_too_long", "value_error"}
)
"""What a text may be refused for; another type gets pydantic's own message."""


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
