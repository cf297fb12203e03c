"""The request body of `POST /v1/verifications` (G30)."""

import re
from datetime import date, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from schemas.base import Frozen, TextForm
from schemas.enums import FieldKey
from schemas.problems import ProblemCode
from schemas.verifications import SubjectName

MAX_DECLARED_CHARS: Final = 512
"""Characters of one declared value."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _declared(value: Any) -> Any:
    """Accept what a document field can be: a text, a number, a truth, or the object of check results."""
    plain = value is None or isinstance(value, bool | int | float)
    short = isinstance(value, str) and len(value) <= MAX_DECLARED_CHARS
    checks = isinstance(value, dict) and all(isinstance(one, bool) for one in value.values())
    if not (plain or short or checks):
        raise PydanticCustomError(
            ProblemCode.VALIDATION_FAILED,
            "Input should be a text of at most 512 characters, a number, a boolean or an object of booleans",
        )
    return value


def _calendar_day(value: str) -> str:
    """Accept a date, or an RFC 3339 time whose date counts."""
    try:
        day = value if _DATE.fullmatch(value) else datetime.fromisoformat(value).date().isoformat()
        return date.fromisoformat(day).isoformat()
    except ValueError:
        raise PydanticCustomError(
            ProblemCode.VALIDATION_FAILED, "Input should be a date such as 2031-12-24 or an RFC 3339 time"
        ) from None


Country = Annotated[
    str,
    TextForm(
        pattern=r"^[A-Z]{2,3}$",
        words="Write a country as two capital letters such as NG (ISO 3166-1), or three where it has no two.",
    ),
]
"""ISO 3166-1 alpha-2; alpha-3 where the document's issuer has no other (G79)."""

LastFour = Annotated[
    str, TextForm(pattern=r"^[0-9A-Za-z]{4}$", words="Write the last four letters or digits of the number.")
]

Base64Image = Annotated[
    str,
    Field(
        description="A JPEG, PNG or WebP in strict base64 (RFC 4648 section 4), a `data:` prefix allowed; "
        "at most 10 MB decoded."
    ),
]
"""Checked by the intake, which decodes it; a constraint here would look at every one of its millions."""


class SubmittedDocument(Frozen):
    """The document's image, and what the tenant believes about it: compared, never copied."""

    image_base64: Base64Image
    issuing_country: Country | None = None
    number_last4: LastFour | None = None
    expires_at: Annotated[str, AfterValidator(_calendar_day)] | None = Field(
        default=None, description="A date (YYYY-MM-DD), or an RFC 3339 time whose date counts."
    )
    extracted_fields: dict[FieldKey, Annotated[Any, AfterValidator(_declared)]] = Field(
        default_factory=dict, max_length=len(FieldKey)
    )


class SubmitBody(Frozen):
    """What is asked: is this document good, and is this the face on it?"""

    subject_id: SubjectName
    document: SubmittedDocument
    selfie_image_base64: Base64Image
