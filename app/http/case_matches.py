"""Present the matches with lists of a case or a transaction, and those that may be judged (G120); pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.name_screenings import NameScreening
from schemas.screenings import CheckAnswer, ErrorCause, Match
from schemas.transaction_decisions import ScreenedTarget


@dataclass(frozen=True, slots=True)
class FoundMatches:
    """What the lists say about one query, or about one party of a transaction."""

    about: str
    """`subject`, `counterparty` or `query`."""
    label: str
    """The tenant's own name of the query, or the check."""
    result: str
    matches: tuple[Match, ...]
    causes: tuple[ErrorCause, ...] = ()
    lasts: bool = True
    """Whom it is about would be known again, so that a judgement may last."""


def found_by_screening(screening: NameScreening) -> tuple[FoundMatches, ...]:
    """Return what was found about each query."""
    return tuple(
        FoundMatches("query", one.ref or str(number), one.result, one.matches, one.causes)
        for number, one in enumerate(screening.results, start=1)
    )


def found_by_transaction(transaction: Mapping[str, Any]) -> tuple[FoundMatches, ...]:
    """Return what was found about the names of the subject and of the counterparty."""
    counterparty = transaction.get("counterparty") or {}
    return tuple(
        FoundMatches(
            check["target"],
            check["check"],
            check["result"],
            tuple(map(Match.model_validate, check["matches"])),
            lasts=check["target"] == ScreenedTarget.SUBJECT or counterparty.get("id") is not None,
        )
        for check in transaction.get("checks", ())
        if check["matches"] and check["target"] != ScreenedTarget.WALLET
    )


def found_by_verification(answers: Sequence[Mapping[str, Any]]) -> tuple[FoundMatches, ...]:
    """Return what was found about the name on the document, from the answers as they are stored."""
    every = map(CheckAnswer.model_validate, answers)
    return tuple(
        FoundMatches(ScreenedTarget.SUBJECT, one.check, one.result, one.matches, one.causes)
        for one in every
        if one.matches
    )


def may_be_judged(found: Sequence[FoundMatches]) -> tuple[Match, ...]:
    """Return the entries that a conclusion may say are somebody else, each once."""
    without = {key for one in found if not one.lasts for key, _ in _entries(one)}
    every = {key: match for one in found for key, match in _entries(one) if match.suppressed_by is None}
    return tuple(match for key, match in every.items() if key not in without)


def _entries(found: FoundMatches) -> Iterator[tuple[tuple[str, str], Match]]:
    return (((match.list, match.entity_id), match) for match in found.matches)
