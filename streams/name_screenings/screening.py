"""Screen the queries of a request against one state of the lists, and merge the checks of each (G118)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.ids import TenantId
from schemas.name_screenings import NameQuery, NameScreeningRequest, QueryResult
from schemas.reasons import ReasonCode
from schemas.screenings import CheckAnswer, CheckResultKind, Match, ScreeningTarget
from streams.name_screenings.found_matches import _reasons
from streams.ports.screening import Screening, ScreeningOptions, Suppression

SEVERITY: Final = (
    CheckResultKind.NOT_EVALUATED,
    CheckResultKind.CLEAR,
    CheckResultKind.ERROR,
    CheckResultKind.POSSIBLE,
    CheckResultKind.MATCH,
)
"""Results of the checks of one query, the most severe last: what lacks a list is never CLEAR."""

MOST_MATCHES: Final = 50
"""Matches of a query that are remembered as reported, however few are shown."""


class Screened(NamedTuple):
    """The results of a request, in its order, and the versions of the lists they are of."""

    results: tuple[QueryResult, ...]
    answers: tuple[tuple[CheckAnswer, ...], ...]
    """Of each query the answers of its checks, with more matches than are shown."""
    list_versions: Mapping[str, str]

    @property
    def counted(self) -> tuple[tuple[str, str], ...]:
        """List and entity of every match that counts, each once."""
        matches = (match for found in self.answers for answer in found for match in answer.matches)
        return tuple(dict.fromkeys((one.list, one.entity_id) for one in matches if one.suppressed_by is None))


async def screen_all(
    screening: Screening,
    request: NameScreeningRequest,
    tenant_id: TenantId,
    suppressed: Mapping[tuple[str, str], Suppression],
    *,
    livemode: bool,
) -> Screened:
    """Return the results of all queries, all of one state of the lists.

    Raises:
        StoreUnavailable: What the tenant's lists are cannot be read for now.
    """
    options, state = options_of(request, suppressed), await screening.state_of(tenant_id)
    results, answers = [], []
    for query in request.queries:
        found = [
            await screening(
                check, target_of(query), options, tenant_id=tenant_id, livemode=livemode, state=state
            )
            for check in dict.fromkeys(request.checks)
        ]
        answers.append(tuple(found))
        results.append(merge(query, found, request.limit))
    versions = {
        name: version for found in answers for one in found for name, version in one.list_versions.items()
    }
    return Screened(tuple(results), tuple(answers), versions)


def target_of(query: NameQuery) -> ScreeningTarget:
    """Return whom a query asks about."""
    return ScreeningTarget(**query.model_dump(exclude={"ref"}))


def options_of(
    request: NameScreeningRequest, suppressed: Mapping[tuple[str, str], Suppression]
) -> ScreeningOptions:
    """Return what counts as a match of a request."""
    usual = ScreeningOptions()
    return ScreeningOptions(
        match=max(usual.match, request.threshold),
        possible=request.threshold,
        lists=request.lists,
        limit=MOST_MATCHES,
        suppressed=suppressed,
    )


def merge(query: NameQuery, answers: Sequence[CheckAnswer], limit: int) -> QueryResult:
    """Return the result of a query: the most severe of its checks, each match once."""
    found: dict[tuple[str, str], Match] = {}
    for match in (match for answer in answers for match in answer.matches):
        found.setdefault((match.list, match.entity_id), match)
    best = sorted(found.values(), key=lambda match: -match.score)
    return QueryResult(
        ref=query.ref,
        result=max((answer.result for answer in answers), key=SEVERITY.index),
        causes=tuple(dict.fromkeys(cause for answer in answers for cause in answer.causes)),
        matches=tuple(best[:limit]),
    )


def without_matches(results: Sequence[QueryResult]) -> tuple[QueryResult, ...]:
    """Return the results without anything that was asked or found about a person."""
    return tuple(one.model_copy(update={"ref": None, "matches": ()}) for one in results)


def new_matches(
    answers: Sequence[Sequence[CheckAnswer]], reported: Sequence[tuple[str, str]]
) -> tuple[ReasonCode, ...]:
    """Return the reasons of the matches that count and were not reported; empty when there is none."""
    return tuple(dict.fromkeys(_reasons(answers, frozenset(reported))))
