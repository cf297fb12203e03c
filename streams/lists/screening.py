"""Screen a target against the loaded lists of a check (G117, G132)."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from typing_extensions import override

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import SANDBOX
from schemas.problems import StoreUnavailable
from schemas.screenings import CheckAnswer, CheckResultKind, ErrorCause, ScreeningTarget
from streams.lists.listed_names import NamesUnavailable
from streams.lists.loaded import ListState, ListStates, LoadedList
from streams.names.matching import Found, Thresholds, amount_to
from streams.ports.screening import ListedEntries, Screening, ScreeningOptions, ScreeningState


class _Choice(NamedTuple):
    """The lists that are asked, and why others are not."""

    lists: Sequence[LoadedList]
    causes: tuple[ErrorCause, ...]


class ListScreening(Screening, ListedEntries):
    """Screens against the lists that this process has loaded; each answer is of one state of all of them."""

    def __init__(self, lists: ListStates, clock: Callable[[], datetime]) -> None:
        self._lists = lists
        self._clock = clock

    @override
    async def state_of(self, tenant_id: TenantId) -> ListState:
        return await self._lists.state_of(tenant_id)

    @override
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
        if not target.name and not target.identifiers:
            return CheckAnswer(check=check, result=CheckResultKind.NOT_EVALUATED)
        if not isinstance(state, ListState):
            state = await self._lists.state_of(tenant_id)
        choice = _choose(state, check, options, tenant_id, livemode=livemode, now=self._clock())
        return await _screen(check, target, options, choice)

    @override
    async def entry_digest(
        self, tenant_id: TenantId, list_name: str, entity_id: str, *, livemode: bool
    ) -> str | None:
        named = [
            one
            for one in (await self._lists.state_of(tenant_id)).names
            if one.name == list_name and one.may_be_named(tenant_id, livemode=livemode)
        ]
        if not named:
            return None
        own = max(named, key=lambda one: one.owner is not None)
        try:
            return await own.names.entry_digest(entity_id)
        except NamesUnavailable:
            raise StoreUnavailable("the lists cannot be read for now") from None


def _choose(
    state: ListState,
    check: CheckKind,
    options: ScreeningOptions,
    tenant_id: TenantId,
    *,
    livemode: bool,
    now: datetime,
) -> _Choice:
    """Choose the lists to ask; a tenant's own list goes before the deployment's of the same name."""
    available = [one for one in state.names if one.may_be_named(tenant_id, livemode=livemode)]
    if options.lists:
        by_name = {one.name: one for one in sorted(available, key=lambda one: one.owner is not None)}
        chosen = [by_name[name] for name in dict.fromkeys(options.lists) if name in by_name]
        missing = len(chosen) < len(set(options.lists))
    else:
        chosen = [
            one for one in available if one.belongs_to(tenant_id, livemode=livemode) and _serves(one, check)
        ]
        unbuilt = [one for one in state.missing if one.check is check and one.asked(livemode=livemode)]
        missing = bool(unbuilt) or not chosen
    causes = [ErrorCause.LIST_MISSING] if missing else []
    oldest = None if options.max_list_age is None else now - options.max_list_age
    if oldest and any(one.loaded_at < oldest for one in chosen if one.name != SANDBOX):
        causes.append(ErrorCause.LIST_STALE)
    return _Choice(sorted(chosen, key=lambda one: one.name), tuple(causes))


def _serves(loaded: LoadedList, check: CheckKind) -> bool:
    """Return whether the list belongs to the check; entries of the sandbox say so one by one."""
    return loaded.check is check or loaded.name == SANDBOX


async def _screen(
    check: CheckKind, target: ScreeningTarget, options: ScreeningOptions, choice: _Choice
) -> CheckAnswer:
    thresholds = Thresholds(options.match, options.possible, options.corroborate)
    searched = await asyncio.gather(*(_search(one, target, thresholds) for one in choice.lists))
    answered = [one for one, found in zip(choice.lists, searched, strict=True) if found is not None]
    causes = choice.causes
    if len(answered) < len(choice.lists):
        causes = (*causes, ErrorCause.CHECK_UNAVAILABLE)
    found = sorted(_that_count(check, searched, options), key=lambda one: one.rank)
    result = amount_to(found)
    counted = [one.match.score for one in found if one.match.suppressed_by is None]
    return CheckAnswer(
        check=check,
        result=CheckResultKind.ERROR if result is CheckResultKind.CLEAR and causes else result,
        score=max(counted, default=None),
        matches=tuple(one.match for one in found[: options.limit]),
        list_versions={one.name: one.version for one in answered},
        causes=causes,
    )


async def _search(
    loaded: LoadedList, target: ScreeningTarget, thresholds: Thresholds
) -> Sequence[Found] | None:
    """Return what a list says; None when it cannot be asked."""
    try:
        return await loaded.names.search(target, loaded.name, thresholds)
    except NamesUnavailable:
        return None


def _that_count(
    check: CheckKind, searched: Iterable[Sequence[Found] | None], options: ScreeningOptions
) -> Iterator[Found]:
    """Yield the matches of entries that belong to the check, those that a disposition covers marked."""
    for found in (one for of_list in searched for one in of_list or ()):
        if not found.checks or check in found.checks:
            yield _suppress(found, options)


def _suppress(found: Found, options: ScreeningOptions) -> Found:
    """Mark a match that a disposition covers; one of another state of the entry covers nothing (G120)."""
    known = options.suppressed.get((found.match.list, found.match.entity_id))
    if known is None or known.entry_sha256 != found.digest:
        return found
    return found.suppressed(known.disposition_id)
