"""The bodies of webhook requests and the answers that are no plain resource (interface section 4.8, G38)."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from app.http.filters import parse_moment
from schemas.base import Frozen, Timestamp
from schemas.events import EventType
from schemas.ids import EndpointId
from schemas.problems import ProblemCode
from schemas.webhooks import ANY_TYPE, Delivery, WebhookEndpoint
from streams.webhooks.rules import LONGEST_OVERLAP
from streams.webhooks.signing import LONGEST_BYTES, SHORTEST_BYTES, secret_bytes

MOST_TYPES: Final = 100
"""Types named in one request, repeated ones among them."""

MOST_DESCRIPTION_CHARS: Final = 200

_KNOWN: Final = frozenset({ANY_TYPE, *EventType})


def _known(value: object) -> str:
    if isinstance(value, str) and value in _KNOWN:
        return value
    message = "There is no such event type; the interface description lists them."
    raise PydanticCustomError(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)


def _chosen(types: tuple[str, ...]) -> tuple[str, ...]:
    """Return the types, each once."""
    kept = tuple(dict.fromkeys(types))
    if not kept:
        message = "Name at least one event type, or * for all of them."
        raise PydanticCustomError(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)
    if ANY_TYPE in kept and len(kept) > 1:
        message = "* stands for every event type and stands alone."
        raise PydanticCustomError(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message)
    return kept


def _signing(secret: SecretStr) -> SecretStr:
    try:
        secret_bytes(secret.get_secret_value())
    except ValueError:
        message = f"A secret has {SHORTEST_BYTES} to {LONGEST_BYTES} bytes, plain or as whsec_ and base64."
        raise PydanticCustomError(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, message) from None
    return secret


def _moment(value: object) -> datetime:
    moment = parse_moment(value) if isinstance(value, str) else None
    if moment is None:
        message = "Input should be an RFC 3339 time such as 2026-01-31T12:00:00Z"
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)
    return moment


def _not_null(value: object) -> object:
    if value is None:
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
    return value


EventTypeName = Annotated[
    str, BeforeValidator(_known), WithJsonSchema({"type": "string", "enum": [ANY_TYPE, *EventType]})
]

EventTypes = Annotated[
    tuple[EventTypeName, ...],
    Field(max_length=MOST_TYPES, json_schema_extra={"minItems": 1}),
    AfterValidator(_chosen),
]
"""Which events are wanted; `*` alone for all, those to come included."""

Secret = Annotated[
    SecretStr,
    Field(description="`whsec_` and base64, or plain text: 24 to 64 bytes that sign (Standard Webhooks)."),
    AfterValidator(_signing),
]

Url = Annotated[str, StringConstraints(max_length=4_096)]
"""Judged by the rules of receivers' URLs, which know the code for a wrong one."""

Description = Annotated[str, StringConstraints(max_length=MOST_DESCRIPTION_CHARS)]

Moment = Annotated[
    Timestamp, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]


class CreateEndpointBody(Frozen):
    """An endpoint to be registered."""

    url: Url
    secret: Secret
    event_types: EventTypes
    description: Description | None = None
    livemode: StrictBool | None = None
    """Which events it is for: a reviewer's choice, live by default; a key's own mode."""


class NamedEndpoint(Frozen):
    """What a request to register is known by; the secret only as a keyed hash."""

    url: str
    secret_hash: str
    event_types: tuple[str, ...]
    description: str | None
    livemode: bool


class ChangeEndpointBody(Frozen):
    """Fields to change; what is not named stays."""

    url: Url | None = None
    event_types: EventTypes | None = None
    active: StrictBool | None = None
    """True: `disabled_reason` is cleared, and what failed before no longer counts."""
    description: Description | None = None
    """Null takes it away."""

    @field_validator("url", "event_types", "active", mode="before")
    @classmethod
    def _must_say(cls, value: object) -> object:
        return _not_null(value)


class RotateSecretBody(Frozen):
    """Another secret, and how long the former signs beside it."""

    secret: Secret
    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=int(LONGEST_OVERLAP.total_seconds()))] = 0


class ReplayRangeBody(Frozen):
    """Which events are to be delivered again."""

    since: Annotated[Moment, Field(alias="from")]
    """Inclusive; at most 30 days ago."""
    until: Annotated[Moment, Field(alias="to")]
    """Exclusive."""
    event_types: EventTypes | None = None
    """Null: those the endpoint asks for."""


class ReplayedRange(Frozen):
    """What is being delivered again."""

    endpoint_id: EndpointId
    since: Annotated[Timestamp, Field(serialization_alias="from")]
    until: Annotated[Timestamp, Field(serialization_alias="to")]
    event_types: tuple[str, ...]


class EndpointList(Frozen):
    """A page of endpoints, newest first."""

    endpoints: tuple[WebhookEndpoint, ...]
    next_cursor: str | None
    """Null at the end."""


class DeliveryList(Frozen):
    """A page of deliveries, newest first; what receivers answered stands in the delivery itself."""

    deliveries: tuple[Delivery, ...]
    next_cursor: str | None
    """Null at the end."""
