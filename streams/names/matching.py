"""Match one target against one list, and say what the matches of all lists amount to (G117); pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from schemas.enums import CheckKind
from schemas.lists import EntityKind, NameEntry
from schemas.screenings import (
    CheckResultKind,
    Evidence,
    EvidenceEffect,
    EvidenceFeature,
    Match,
    ScreeningTarget,
)
from streams.names.analysis import AnalysedName, analyse
from streams.names.evidence import birth_years_apart, compare_facts
from streams.names.index import NameIndex
from streams.names.scoring import Scored, score

_NAMES_COMPARED: Final = 60
"""Candidates compared word by word; the entities behind them are fewer."""

MOST_MATCHES: Final = 20

_SAME_NUMBER: Final = 500
"""Entities with one identifier that are returned: one that more of them share tells nobody apart."""

_SURE: Final = 1.0
"""The score of an equal identifier."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which score on a match counts, and what it needs beside the name."""

    match: float = 0.85
    possible: float = 0.70
    corroborate: bool = True
    """A person needs one fact that supports, and none that contradicts, to be MATCH."""


@dataclass(frozen=True, slots=True)
class Found:
    """A match and what it amounts to by itself."""

    match: Match
    result: CheckResultKind
    digest: str
    """Of the entry: a disposition holds as long as it stays (G120)."""
    checks: tuple[CheckKind, ...] = ()
    """Those that the entry alone belongs to; empty: those of its list."""

    def suppressed(self, disposition_id: str) -> "Found":
        """Return the match as one that no longer counts."""
        return replace(self, match=self.match.model_copy(update={"suppressed_by": disposition_id}))

    @property
    def rank(self) -> tuple[float, int, str, str]:
        """Best first: score, then supports less contradictions; then the same order on every machine."""
        return -self.match.score, -_balance(self.match.evidence), self.match.list, self.match.entity_id


@dataclass(frozen=True, slots=True)
class _Candidate:
    entry: NameEntry
    name: str
    scored: Scored
    weak: bool


def find_matches(
    target: ScreeningTarget, index: NameIndex, list_name: str, thresholds: Thresholds
) -> list[Found]:
    """Return what is at or above `possible` on the list, best first; nothing for a target without a name."""
    best: dict[int, _Candidate] = {}
    if target.name:
        for entity, candidate in _near(analyse(target.name, target.kind), index):
            if entity not in best or candidate.scored.score > best[entity].scored.score:
                best[entity] = candidate
    same_number = set(_same_number(target, index))
    for entity in sorted(same_number - best.keys()):
        entry = index.entry(entity)
        best[entity] = _Candidate(entry, entry.names[0], Scored(0.0), weak=False)
    found = (
        _judge(target, candidate, list_name, thresholds, same_number=entity in same_number)
        for entity, candidate in best.items()
        if entity in same_number or candidate.scored.score >= thresholds.possible
    )
    return sorted(found, key=lambda one: one.rank)


def amount_to(found: Sequence[Found]) -> CheckResultKind:
    """Return the most severe result of the matches that no disposition suppresses."""
    results = {one.result for one in found if one.match.suppressed_by is None}
    for result in (CheckResultKind.MATCH, CheckResultKind.POSSIBLE):
        if result in results:
            return result
    return CheckResultKind.CLEAR


def _same_number(target: ScreeningTarget, index: NameIndex) -> Iterator[int]:
    for identifier in target.identifiers:
        yield from index.with_identifier(identifier.value)[:_SAME_NUMBER]


def _near(query: AnalysedName, index: NameIndex) -> Iterator[tuple[int, _Candidate]]:
    for entity, ordinal in index.candidates(query, _NAMES_COMPARED):
        entry = index.entry(entity)
        name = (*entry.names, *entry.weak_names)[ordinal]
        scored = score(query, analyse(name, entry.kind), index.weigh)
        yield entity, _Candidate(entry, name, scored, weak=ordinal >= len(entry.names))


def _judge(
    target: ScreeningTarget,
    candidate: _Candidate,
    list_name: str,
    thresholds: Thresholds,
    *,
    same_number: bool,
) -> Found:
    entry = candidate.entry
    facts = compare_facts(target, entry)
    value = _SURE if same_number else candidate.scored.score
    match = Match(
        list=list_name,
        entity_id=entry.entity_id,
        name=candidate.name,
        score=value,
        evidence=(*_name_evidence(target, candidate, thresholds), *facts),
        parts=candidate.scored.parts(),
        programs=entry.programs,
        url=entry.url,
    )
    sure = same_number or (
        value >= thresholds.match and not candidate.weak and _is_corroborated(target, facts, thresholds)
    )
    sure = sure and birth_years_apart(target, entry) <= 1
    result = CheckResultKind.MATCH if sure else CheckResultKind.POSSIBLE
    return Found(match, result, entry.digest(), entry.checks)


def _is_corroborated(target: ScreeningTarget, facts: Sequence[Evidence], thresholds: Thresholds) -> bool:
    if target.kind is not EntityKind.PERSON or not thresholds.corroborate:
        return True
    effects = {fact.effect for fact in facts}
    return effects == {EvidenceEffect.SUPPORTS}


def _name_evidence(
    target: ScreeningTarget, candidate: _Candidate, thresholds: Thresholds
) -> Iterator[Evidence]:
    if target.name and candidate.scored.score >= thresholds.possible:
        yield Evidence(
            feature=EvidenceFeature.NAME,
            effect=EvidenceEffect.SUPPORTS,
            query=target.name,
            listed=candidate.name,
            detail="weak alias" if candidate.weak else "like name",
        )


def _balance(evidence: Sequence[Evidence]) -> int:
    return sum(1 if fact.effect is EvidenceEffect.SUPPORTS else -1 for fact in evidence)
