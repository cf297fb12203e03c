"""Carry out SANCTIONS, PEP and ADVERSE_MEDIA for a party of a transaction (G117)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from typing_extensions import override

from schemas.enums import CheckKind
from schemas.lists import EntityKind
from schemas.policy_documents import Check
from schemas.policy_fields import NAME_CHECKS
from schemas.reasons import ReasonCode
from schemas.screenings import CheckAnswer, ScreeningTarget
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget, ShownCheck
from schemas.transactions import Party
from streams.ports.screening import Screening, ScreeningOptions, Suppression, Suppressions
from streams.transactions.checks import CheckContext, CheckProvider


class NameCheck(CheckProvider):
    """Screens the name of a party against the lists of a check; what the lists lack is among the findings."""

    def __init__(self, screening: Screening, suppressions: Suppressions) -> None:
        self._screening = screening
        self._suppressions = suppressions

    @override
    async def __call__(
        self, check: Check, target: ScreenedTarget, party: Party, context: CheckContext
    ) -> ShownCheck:
        screen = partial(
            self._screening,
            check.check,
            _asked(party),
            tenant_id=context.tenant_id,
            livemode=context.livemode,
            state=context.lists,
        )
        answer = await screen(_options(check))
        if answer.matches and (suppressed := await self._suppressed(target, party, context)):
            answer = await screen(replace(_options(check), suppressed=suppressed))
        return ShownCheck(
            check=check.check,
            target=target,
            result=CheckOutcome(answer.result),
            score=None if answer.score is None else f"{answer.score:.3f}",
            list_versions=dict(answer.list_versions),
            matches=tuple(match.model_dump(mode="json", exclude_none=True) for match in answer.matches),
            findings=_findings(answer),
        )

    async def _suppressed(
        self, target: ScreenedTarget, party: Party, context: CheckContext
    ) -> Mapping[tuple[str, str], Suppression]:
        """Return the matches that were judged to be none; a counterparty without an id has none."""
        if target is ScreenedTarget.SUBJECT:
            return await self._suppressions.of_subject_key(context.tenant_id, context.subject_key)
        if party.id is None:
            return {}
        tenant_id, livemode = context.tenant_id, context.livemode
        return await self._suppressions.of_counterparty(tenant_id, party.id, livemode=livemode)


def name_checks(screening: Screening, suppressions: Suppressions) -> dict[CheckKind, CheckProvider]:
    """Return the provider of every check that compares names with lists."""
    return dict.fromkeys(NAME_CHECKS, NameCheck(screening, suppressions))


def _asked(party: Party) -> ScreeningTarget:
    return ScreeningTarget(
        kind=EntityKind(party.kind),
        name=party.name,
        birth_date=party.birth_date,
        country=party.country,
        address=party.address,
    )


def _options(check: Check) -> ScreeningOptions:
    usual = ScreeningOptions()
    return ScreeningOptions(
        match=usual.match if check.match is None else float(check.match),
        possible=usual.possible if check.possible is None else float(check.possible),
        corroborate=check.corroborate,
        lists=check.lists,
        max_list_age=check.max_list_age,
    )


def _findings(answer: CheckAnswer) -> tuple[ReasonCode, ...]:
    return tuple(ReasonCode(cause) for cause in answer.causes)
