"""Lists as they are stored and shown: what one is, its version, and the notice that it changed (G116)."""

from datetime import date
from typing import Annotated, Final

from pydantic import Field

from schemas.base import Event, Frozen, Timestamp
from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import ListKind, ListOwner

MOST_LISTS: Final = 100
"""Lists of one tenant."""

MOST_LIST_ENTRIES: Final = 250_000
MOST_LIST_BYTES: Final = 28 * 1024 * 1024
MOST_PATCHED: Final = 1_000
"""Entries that one request adds and removes."""

DISPOSABLE_DOMAINS: Final = "disposable_domains"
"""A tenant's list of values of this name stands in for the domains of throw-away mail that come along."""

_HASH_CHARS: Final = 8


class StoredList(Frozen):
    """A version of a list, and where its entries are stored."""

    name: str
    kind: ListKind
    check: CheckKind | None = None
    category: str | None = None
    entries: int
    sha256: str
    source_date: date
    loaded_at: Timestamp
    place: str
    """Begins the ids of the records with its entries; each version has its own."""
    parts: int
    """How many of these records there are."""
    problem: str | None = None
    """Why the last attempt to replace it failed; only of published lists."""
    failed: int = 0
    """Rows of a published file that could not be read."""
    filled: dict[str, int] = Field(default_factory=dict)
    """How many entries have a field; only of published lists, whose guard compares them."""

    @property
    def version(self) -> str:
        """`<date>#<8 hex of the sha256>` (G116)."""
        return f"{self.source_date.isoformat()}#{self.sha256[:_HASH_CHARS]}"


class KeyedChange(Frozen):
    """The answer to a request with an Idempotency-Key that changed a list."""

    stored: StoredList


class StoredLists(Frozen):
    """All lists of a tenant, or of the deployment: one record, so that a reader sees one state of them."""

    lists: tuple[StoredList, ...] = ()

    def named(self, name: str) -> StoredList | None:
        """Return the list of this name, if there is one."""
        return next((one for one in self.lists if one.name == name), None)

    def with_list(self, changed: StoredList) -> "StoredLists":
        """Return the lists with one added or replaced, by name."""
        others = [one for one in self.lists if one.name != changed.name]
        return StoredLists(lists=tuple(sorted([*others, changed], key=lambda one: one.name)))

    def without(self, name: str) -> "StoredLists":
        """Return the lists but for one."""
        return StoredLists(lists=tuple(one for one in self.lists if one.name != name))


class ScreeningList(Frozen):
    """A list as its readers see it."""

    name: str
    owner: ListOwner
    kind: ListKind
    check: CheckKind | None = None
    category: str | None = None
    entries: Annotated[int, Field(ge=0)]
    version: str
    source_date: date
    loaded_at: Timestamp
    stale: bool
    """Whether the last attempt to replace it failed; `problem` says why."""
    problem: str | None = None


class ListChanged(Event):
    """The notice that a list has another version: every process reads the tenant's lists again."""

    tenant_id: TenantId
    """The platform's for a list of the deployment."""
    list: str
    version: str | None = None
    """None: it was deleted."""
