"""Name screenings: who is asked about, what was found, and the command between (G118)."""

from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, StrictInt

from schemas.base import Command, Event, Frozen, TextForm, Timestamp
from schemas.enums import CheckKind
from schemas.ids import ScreeningId, SubjectId, TenantId
from schemas.lists import LIST_NAME_PATTERN, EntityKind, Gender, Identifier
from schemas.people import SentActor
from schemas.screenings import CheckResultKind, ErrorCause, Match
from schemas.transactions import BirthDate, CountryCode, OwnId
from schemas.verifications import SubjectName

MAX_QUERIES: Final = 100

_NAME_CHARS: Final = 2_000
_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"

ScreenedName = Annotated[
    str,
    TextForm(
        min_length=1,
        max_length=_NAME_CHARS,
        pattern=_PRINTABLE,
        words=f"Use one line of 1 to {_NAME_CHARS} characters.",
    ),
]
ListName = Annotated[
    str,
    TextForm(
        pattern=LIST_NAME_PATTERN,
        words="Use a small letter and 1 to 47 small letters, digits and underscores.",
    ),
]
NameCheckKind = Literal[CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA]
"""The checks that compare a name with lists."""


class NameQuery(Frozen):
    """One person or organisation that is asked about."""

    ref: OwnId | None = None
    """The tenant's own name for the query; the answer repeats it."""
    kind: EntityKind
    name: ScreenedName
    birth_date: BirthDate | None = None
    """A day, a month or a year."""
    country: CountryCode | None = None
    gender: Gender | None = None
    identifiers: Annotated[tuple[Identifier, ...], Field(max_length=20)] = ()
    address: ScreenedName | None = None


class NameScreeningRequest(Frozen):
    """The request: is anybody of these on a list?"""

    queries: Annotated[tuple[NameQuery, ...], Field(min_length=1, max_length=MAX_QUERIES)]
    checks: Annotated[tuple[NameCheckKind, ...], Field(min_length=1, max_length=3)] = (CheckKind.SANCTIONS,)
    lists: Annotated[tuple[ListName, ...], Field(max_length=50)] = ()
    """Empty: all that belong to the checks."""
    threshold: Annotated[float, Field(ge=0.5, le=1, strict=True)] = 0.70
    """The score from which on a match is reported; from 0.85 on it may be MATCH."""
    limit: Annotated[StrictInt, Field(ge=1, le=50)] = 10
    """The most matches of one query."""
    subject_id: SubjectName | None = None
    monitor: StrictBool = False
    """Compare the names with every later version of the lists; needs a subject."""


class QueryResult(Frozen):
    """What the lists say about one query."""

    ref: str | None = None
    result: CheckResultKind
    """The most severe of its checks; a check that lacks a list makes CLEAR an ERROR."""
    causes: tuple[ErrorCause, ...] = ()
    """What a check lacked."""
    matches: tuple[Match, ...] = ()
    """Best first; none once the subject was erased."""


class NameScreening(Frozen):
    """The answer to a request."""

    screening_id: ScreeningId
    subject_id: SubjectId | None = None
    created_at: Timestamp
    results: tuple[QueryResult, ...]
    """In the order of the queries."""
    list_versions: dict[str, str]
    """Of every list that was asked, all of one moment."""
    monitor: bool
    livemode: bool


class ScreeningParts(Frozen):
    """The part of a screening that is sealed: the questions, and the answers in full."""

    request: NameScreeningRequest
    results: tuple[QueryResult, ...]
    reported: tuple[tuple[str, str], ...] = ()
    """List and entity of every match that counted so far: none is reported again."""


class StoredNameScreening(Frozen):
    """A screening as it is stored; its results without names and matches."""

    screening: NameScreening
    sealed: str
    """`ScreeningParts`, compressed, under the subject's key, or the tenant's without a subject."""
    request_id: str
    """Of the request that had it made."""
    checked: dict[str, str] = Field(default_factory=dict)
    """While it is monitored: the versions of the lists that its names were compared with last."""


class ScreenNames(Command):
    """Screen names; keyed by the screening."""

    kind: Literal["screen"] = "screen"
    tenant_id: TenantId
    screening_id: ScreeningId
    fingerprint: str
    livemode: bool
    requested_at: Timestamp
    subject_id: SubjectId | None = None
    """Sealed (`streams.privacy.sealing`)."""
    sealed_request: str
    actor: SentActor


class NamesScreened(Event):
    """The screening is in the store."""

    screening_id: ScreeningId
    replayed: bool = False


class RescreenNames(Command):
    """Compare the names of a monitored screening with the lists as they are now."""

    kind: Literal["rescreen"] = "rescreen"
    tenant_id: TenantId
    screening_id: ScreeningId
    requested_at: Timestamp
    list_versions: dict[str, str]
    """Of the lists that made it necessary."""
