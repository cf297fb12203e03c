"""The promise of a screening: what the lists say about a person or an organisation (G117)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from schemas.enums import CheckKind
from schemas.ids import SubjectId, TenantId
from schemas.screenings import CheckAnswer, ScreeningTarget


class Suppression(NamedTuple):
    """A match that a person judged to be no match, as long as the listed entry stays as it was (G120)."""

    disposition_id: str
    entry_sha256: str


@dataclass(frozen=True, slots=True)
class ScreeningOptions:
    """What counts as a match, and which lists are asked."""

    match: float = 0.85
    possible: float = 0.70
    corroborate: bool = True
    lists: tuple[str, ...] = ()
    """Empty: all that belong to the check; a test key's are the sandbox list and the tenant's own (G132)."""
    max_list_age: timedelta | None = None
    limit: int = 20
    suppressed: Mapping[tuple[str, str], Suppression] = field(default_factory=dict)
    """By list and entity id."""


class ScreeningState:
    """A state of all lists; what is in it only the screenings know that it comes from."""


class Screening(Protocol):
    """Compares a person or organisation with the lists of a check."""

    async def state_of(self, tenant_id: TenantId) -> ScreeningState:
        """Return the lists as they are now, for several screenings of one answer.

        Raises:
            StoreUnavailable: What the tenant's lists are cannot be read for now.
        """
        ...

    async def __call__(
        self,
        check: CheckKind,
        target: ScreeningTarget,
        options: ScreeningOptions,
        *,
        tenant_id: TenantId,
        livemode: bool,
        state: ScreeningState | None = None,
    ) -> CheckAnswer:
        """Return the result with the versions of the lists that were asked, all of one moment.

        `state` is that moment, where several screenings belong to one answer; None: now.

        A list that is missing or too old is a cause in the answer: without a match elsewhere the result is
        ERROR, never CLEAR. A target without a name or an identifier is NOT_EVALUATED. Never another
        tenant's list.
        """
        ...


class Suppressions(Protocol):
    """Looks up the matches that persons judged to be none; by list and entity id."""

    async def of_subject(
        self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
    ) -> Mapping[tuple[str, str], Suppression]:
        """Return those about a subject that count now; raises `StoreUnavailable`."""
        ...

    async def of_subject_key(
        self, tenant_id: TenantId, subject_key: str
    ) -> Mapping[tuple[str, str], Suppression]:
        """Return those about the subject of such commands; raises `StoreUnavailable`."""
        ...

    async def of_counterparty(
        self, tenant_id: TenantId, counterparty_id: str, *, livemode: bool
    ) -> Mapping[tuple[str, str], Suppression]:
        """Return those about a counterparty that count now; raises `StoreUnavailable`."""
        ...


class ListedEntries(Protocol):
    """The entries of the lists as they are now."""

    async def entry_digest(
        self, tenant_id: TenantId, list_name: str, entity_id: str, *, livemode: bool
    ) -> str | None:
        """Return the SHA-256 of an entry, or None when no list of that name, for this tenant, has it."""
        ...
