"""SANCTIONS, PEP and ADVERSE_MEDIA of a verification: the name that was read, against the lists (G133)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from schemas.enums import CheckKind, CheckVerdict
from schemas.lists import EntityKind
from schemas.reasons import ReasonCode
from schemas.screenings import CheckAnswer, CheckResultKind, ScreeningTarget
from schemas.verifications import CheckResult, SubmitVerification
from streams.ports.screening import Screening, ScreeningOptions, Suppression, Suppressions
from streams.verification.observations import DocumentFindings, Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import Finding, broken, found, usual
from streams.vision_ports import deadline

LIST_CHECKS: Final = frozenset({CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA})

_MATCHED: Final[Mapping[CheckKind, Mapping[CheckResultKind, ReasonCode]]] = {
    CheckKind.SANCTIONS: {
        CheckResultKind.MATCH: ReasonCode.SANCTIONS_MATCH,
        CheckResultKind.POSSIBLE: ReasonCode.SANCTIONS_POSSIBLE_MATCH,
    },
    CheckKind.PEP: dict.fromkeys((CheckResultKind.MATCH, CheckResultKind.POSSIBLE), ReasonCode.PEP_MATCH),
    CheckKind.ADVERSE_MEDIA: dict.fromkeys(
        (CheckResultKind.MATCH, CheckResultKind.POSSIBLE), ReasonCode.ADVERSE_MEDIA_MATCH
    ),
}

_NAME_PARTS: Final = ("given_names", "first_name", "middle_name", "surname")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ALPHA_2: Final = re.compile(r"[A-Z]{2}")


class ScreenedNames:
    """Compares the name on a document with the lists of the checks that a policy requires."""

    def __init__(self, screening: Screening | None, suppressions: Suppressions | None) -> None:
        self._screening = screening
        self._suppressions = suppressions

    async def screened(
        self, command: SubmitVerification, evaluation: Evaluation, policy: VerificationPolicy
    ) -> Evaluation:
        """Return the evaluation with the results of these checks; one that cannot be made is broken."""
        due = [kind for kind in policy.required_checks if kind in LIST_CHECKS]
        if not due:
            return evaluation
        answers: Mapping[CheckKind, CheckAnswer] = {}
        if evaluation.findings is not None and self._screening is not None:
            answers = await self._ask(self._screening, due, command, evaluation.findings, policy)
        made = {kind: judge(kind, answers.get(kind)) for kind in due}
        results = tuple(made.get(result.kind, result) for result in evaluation.results)
        return replace(evaluation, results=results, screenings=tuple(answers.values()))

    async def _ask(
        self,
        screening: Screening,
        due: Sequence[CheckKind],
        command: SubmitVerification,
        findings: DocumentFindings,
        policy: VerificationPolicy,
    ) -> Mapping[CheckKind, CheckAnswer]:
        """Return what one state of the lists says, without the checks that could not be made in time."""
        target, tenant_id = target_of(findings.fields), command.tenant_id
        answers: dict[CheckKind, CheckAnswer] = {}
        with suppress(TimeoutError):
            async with deadline(policy.engine_deadline_s):
                options = ScreeningOptions(suppressed=await self._suppressed(command))
                state = await screening.state_of(tenant_id)
                for kind in due:
                    answers[kind] = await screening(
                        kind, target, options, tenant_id=tenant_id, livemode=command.livemode, state=state
                    )
        return answers

    async def _suppressed(self, command: SubmitVerification) -> Mapping[tuple[str, str], Suppression]:
        if self._suppressions is None:
            return {}
        subject_id, livemode = command.subject_id, command.livemode
        return await self._suppressions.of_subject(command.tenant_id, subject_id, livemode=livemode)


def target_of(fields: Mapping[str, Any]) -> ScreeningTarget:
    """Return whom a document names, with birth date and nationality where a list could have them."""
    name = fields.get("full_name") or " ".join(str(fields[part]) for part in _NAME_PARTS if fields.get(part))
    born, country = str(fields.get("date_of_birth") or ""), str(fields.get("nationality") or "")
    return ScreeningTarget(
        kind=EntityKind.PERSON,
        name=str(name) or None,
        birth_date=born if _DAY.fullmatch(born) else None,
        country=country if _ALPHA_2.fullmatch(country) else None,
    )


def judge(kind: CheckKind, answer: CheckAnswer | None) -> CheckResult:
    """Return the result of a check; a list that was missing breaks all but a match (G70)."""
    if answer is None:
        return broken(kind)
    detail = f"Compared with {_listed(answer)}."
    if answer.result is CheckResultKind.NOT_EVALUATED:
        unread: Finding = (ReasonCode.EXTRACTION_INCOMPLETE, CheckVerdict.NOT_EVALUATED)
        return found(kind, (unread,), detail="No name was read.")
    code = _MATCHED[kind].get(answer.result)
    findings = () if code is None else usual(code)
    if answer.causes and answer.result is not CheckResultKind.MATCH:
        findings += usual(ReasonCode.PROVIDER_UNAVAILABLE)
        detail = f"{detail} {', '.join(answer.causes)}."
    return found(kind, findings, score=answer.score, detail=detail)


def _listed(answer: CheckAnswer) -> str:
    return ", ".join(f"{name} {version}" for name, version in answer.list_versions.items()) or "no list"
