"""The forms of the interface for what a command is given: what a request may not say, no command takes."""

from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.process.startup import CannotStart
from schemas.members import EmailAddress, PlainName

EMAIL: Final[TypeAdapter[str]] = TypeAdapter(EmailAddress)
NAME: Final[TypeAdapter[str]] = TypeAdapter(PlainName)


def checked(argument: str, form: TypeAdapter[Any], text: str) -> str:
    """Return a text in the form the interface keeps it in.

    Raises:
        CannotStart: The interface would refuse it; the argument and the reason are named.
    """
    try:
        return str(form.validate_python(text))
    except ValidationError as error:
        raise CannotStart(f"{argument}: {error.errors()[0]['msg']}") from None
