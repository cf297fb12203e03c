"""Lists of names, values and wallets to screen against, and their entries (G116)."""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from schemas.base import Frozen, Timestamp
from schemas.enums import CheckKind, TextEnum

LIST_NAME_PATTERN: Final = r"^[a-z][a-z0-9_]{1,47}$"

SANDBOX: Final = "sandbox"
"""The list of invented entries that test keys are screened against (G132)."""


class ListOwner(TextEnum):
    """Whose list it is: the operator's, for every tenant, or one tenant's own."""

    DEPLOYMENT = "HOUSE"
    TENANT = "TENANT"


class ListKind(TextEnum):
    """What the entries of a list are."""

    NAMES = "NAMES"
    VALUES = "VALUES"
    WALLETS = "WALLETS"


class EntityKind(TextEnum):
    """What a listed entity is."""

    PERSON = "PERSON"
    ORGANISATION = "ORGANISATION"
    VESSEL = "VESSEL"
    AIRCRAFT = "AIRCRAFT"


class Gender(TextEnum):
    """The gender that a list or a query states."""

    FEMALE = "F"
    MALE = "M"


PUBLISHED_LIST_CHECKS: Final[Mapping[str, CheckKind]] = MappingProxyType(
    {
        "us_ofac_sdn": CheckKind.SANCTIONS,
        "us_ofac_cons": CheckKind.SANCTIONS,
        "un_sc_sanctions": CheckKind.SANCTIONS,
        "eu_fsf": CheckKind.SANCTIONS,
        "gb_fcdo_sanctions": CheckKind.SANCTIONS,
        "il_nbctf": CheckKind.SANCTIONS,
        "us_fbi_lazarus": CheckKind.SANCTIONS,
        "ransomwhere": CheckKind.SANCTIONS,
        "peps": CheckKind.PEP,
    }
)
"""The check of each list of the deployment; other OpenSanctions data sets are SANCTIONS."""

MAX_NAME_CHARS: Final = 2_000
"""The longest name that is read; no list has one of a tenth of it."""

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME_CHARS)]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=256)]
Note = Annotated[str, StringConstraints(max_length=2_000)]
PartialDate = Annotated[
    str, StringConstraints(pattern=r"^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")
]
"""A year, a month or a day: `1970`, `1970-03`, `1970-03-12`."""
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]


class Identifier(Frozen):
    """A number that a document or a registry gave an entity."""

    type: Word
    """Free text, such as `passport` or `imo`; numbers are compared whatever the type."""
    value: Word


class NameEntry(Frozen):
    """A listed person, organisation, vessel or aircraft."""

    entity_id: Word
    kind: EntityKind
    names: Annotated[tuple[Name, ...], Field(min_length=1, max_length=10_000)]
    """The first is the primary one."""
    weak_names: tuple[Name, ...] = ()
    """Names the list itself calls unsure: they never make more than POSSIBLE."""
    birth_dates: tuple[PartialDate, ...] = ()
    countries: tuple[Country, ...] = ()
    gender: Gender | None = None
    identifiers: tuple[Identifier, ...] = ()
    addresses: tuple[Note, ...] = ()
    wallets: tuple[Word, ...] = ()
    programs: tuple[Word, ...] = ()
    url: Note | None = None
    note: Note | None = None
    checks: tuple[CheckKind, ...] = ()
    """The checks that this entry alone belongs to; empty: those of its list."""

    def digest(self) -> str:
        """Return the SHA-256 of the entry: what a disposition is bound to (G120)."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


class ValueEntry(Frozen):
    """A listed value: an account, a domain, an address of a network."""

    value: Word
    expires_at: Timestamp | None = None
    note: Note | None = None


class WalletEntry(Frozen):
    """A listed wallet address."""

    address: Word
    chain: Word | None = None
    category: Word
    entity: Name | None = None
    entity_id: Word | None = None
    expires_at: Timestamp | None = None


ListEntry = NameEntry | ValueEntry | WalletEntry


def entry_key(entry: ListEntry) -> str:
    """Return what tells an entry from the others of its list."""
    match entry:
        case NameEntry():
            return entry.entity_id
        case ValueEntry():
            return entry.value
        case WalletEntry():
            return entry.address


ENTRY_MODEL: Final[Mapping[ListKind, type[ListEntry]]] = MappingProxyType(
    {ListKind.NAMES: NameEntry, ListKind.VALUES: ValueEntry, ListKind.WALLETS: WalletEntry}
)
"""The model of the entries of each kind of list."""
