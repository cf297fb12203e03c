"""The answer of a screening: matches with their evidence and the words that matched (G117)."""

from pydantic import Field

from schemas.base import Frozen
from schemas.enums import CheckKind, TextEnum
from schemas.lists import Country, EntityKind, Gender, Identifier, Name, Note, PartialDate


class CheckResultKind(TextEnum):
    """What a check of a screening found."""

    CLEAR = "CLEAR"
    POSSIBLE = "POSSIBLE"
    MATCH = "MATCH"
    ERROR = "ERROR"
    NOT_EVALUATED = "NOT_EVALUATED"


class ErrorCause(TextEnum):
    """Why a check could not be made against every list it asks for."""

    LIST_MISSING = "LIST_MISSING"
    LIST_STALE = "LIST_STALE"
    CHECK_UNAVAILABLE = "CHECK_UNAVAILABLE"
    """Lists are loaded, but the process that compares names with them did not answer."""


class EvidenceFeature(TextEnum):
    """A fact that was compared."""

    NAME = "NAME"
    BIRTH_DATE = "BIRTH_DATE"
    COUNTRY = "COUNTRY"
    GENDER = "GENDER"
    IDENTIFIER = "IDENTIFIER"
    ADDRESS = "ADDRESS"


class EvidenceEffect(TextEnum):
    """What a fact says about the match."""

    SUPPORTS = "SUPPORTS"
    CONTRADICTS = "CONTRADICTS"


class PartKind(TextEnum):
    """How a word of the query and a word of the listed name match."""

    EXACT = "EXACT"
    FUZZY = "FUZZY"
    PHONETIC = "PHONETIC"
    SYMBOL = "SYMBOL"
    INITIAL = "INITIAL"
    EXTRA_QUERY = "EXTRA_QUERY"
    EXTRA_LISTED = "EXTRA_LISTED"
    CONFLICT = "CONFLICT"


class Evidence(Frozen):
    """A fact that supports a match or contradicts it."""

    feature: EvidenceFeature
    effect: EvidenceEffect
    query: str
    listed: str
    detail: str


class Part(Frozen):
    """A word of the query, the listed word that it matched, and how well."""

    query: str | None = None
    listed: str | None = None
    score: float
    kind: PartKind


class Match(Frozen):
    """A listed entity whose name is near the one asked for."""

    list: str
    entity_id: str
    name: str
    """The listed spelling that matched."""
    score: float
    evidence: tuple[Evidence, ...] = ()
    parts: tuple[Part, ...] = ()
    programs: tuple[str, ...] = ()
    url: str | None = None
    suppressed_by: str | None = None


class ScreeningTarget(Frozen):
    """Whom a check asks about."""

    kind: EntityKind
    name: Name | None = None
    birth_date: PartialDate | None = None
    country: Country | None = None
    gender: Gender | None = None
    identifiers: tuple[Identifier, ...] = ()
    address: Note | None = None


class CheckAnswer(Frozen):
    """What one check found about one target, and in which versions of which lists."""

    check: CheckKind
    result: CheckResultKind
    score: float | None = None
    """Of the best match that counts."""
    matches: tuple[Match, ...] = ()
    list_versions: dict[str, str] = Field(default_factory=dict)
    causes: tuple[ErrorCause, ...] = ()
    """Why the result is ERROR, or would be if no match weighed more."""
