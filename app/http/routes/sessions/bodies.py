"""The bodies of session and capture requests (G36, G76)."""

from typing import Annotated, Final

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from app.intake.body import Base64Image, LastFour
from schemas.base import Frozen, TextForm
from schemas.ids import FlowId
from schemas.verifications import SubjectName

MOST_METADATA: Final = 32
"""As for transactions (G39)."""

Locale = Annotated[
    str,
    TextForm(
        pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,4}$",
        max_length=35,
        words="Write a language such as en or fr-CA (BCP 47).",
    ),
]
"""BCP 47, such as `en` or `fr-CA`."""

MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
MetadataText = Annotated[str, StringConstraints(max_length=512)]
Whole = Annotated[StrictInt, Field(ge=-(2**53), le=2**53)]


class OpenSessionBody(Frozen):
    """Whom to verify, under which flow."""

    flow_id: Annotated[FlowId, StringConstraints(min_length=1, max_length=64)]
    subject_id: SubjectName
    return_url: Annotated[str, StringConstraints(max_length=4_096)] | None = None
    """Instead of the flow's own; judged by the rules of flows."""
    locale: Locale | None = None
    metadata: Annotated[
        dict[MetadataKey, StrictBool | Whole | StrictFloat | MetadataText | None],
        Field(max_length=MOST_METADATA),
    ] = Field(default_factory=dict)


class ConsentBody(Frozen):
    """What the person chose about the notice they saw."""

    notice_version: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    accepted: StrictBool
    locale: Locale | None = None
    """The language the notice was shown in; without it that of the notice itself."""


class CaptureImageBody(Frozen):
    """An image as JSON; the image itself may be the body instead."""

    image_base64: Base64Image


class DrawChallengeBody(Frozen):
    """How the movements are drawn."""

    double_time: StrictBool = False
    """Twice the time, for who asks for it before it begins (WCAG 2.2.1)."""


class SkipMovementsBody(Frozen):
    """Nothing needs to be said."""


class SubmitCaptureBody(Frozen):
    """What the person says about the document."""

    document_code: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The document chosen, by its catalogue code."""
    number_last4: LastFour | None = None
    """The last four characters of its number, compared with what is read."""
