"""Score two names: matched words against what is left over, by rarity (G117)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

from schemas.screenings import Part, PartKind
from streams.names.analysis import AnalysedName, Word, WordKind, make_word
from streams.names.legal_forms import SECTOR_FORMS
from streams.names.similarity import Alike, compare

Weigh = Callable[[Word], float]
"""How much a word counts; a list may know better than the packaged names how common it is."""

_JOIN_LEAST: Final = 0.85
"""How alike two words written as one must be to the one."""

_JOIN_LEAST_CHARS: Final = 4
_MOST_JOINED: Final = 3
_MOST_LEFT_TO_JOIN: Final = 5
"""Beyond this many words left over the names share nothing."""

_ONE_WORD: Final = 0.9
"""A single word in common, out of several, is a family or a place."""

_SCORE_DECIMALS: Final = 3


@dataclass(frozen=True, slots=True)
class Penalties:
    """What words left over cost, in units of their weight."""

    extra_query: float
    extra_listed: float
    conflict: float
    """Left over on both sides: another name."""
    unlike: float
    """The part of a matched word that is not alike."""


_PERSON: Final = Penalties(extra_query=0.4, extra_listed=0.4, conflict=3.0, unlike=1.0)
_OTHER: Final = Penalties(extra_query=1.2, extra_listed=0.5, conflict=2.2, unlike=1.0)


class _Pair(NamedTuple):
    """Words of the query and words of the listed name that match."""

    query: tuple[int, ...]
    listed: tuple[int, ...]
    alike: Alike


@dataclass(frozen=True, slots=True)
class Scored:
    """A score from 0 to 1, and what it comes from."""

    score: float
    pairs: Sequence[_Pair] = ()
    query: Sequence[Word] = ()
    listed: Sequence[Word] = ()

    def parts(self) -> tuple[Part, ...]:
        """List the words that matched, and those left over; made only of what is shown."""
        return (*_paired_parts(self), *_unpaired_parts(*_rests(self.pairs, self.query, self.listed)))


def weigh_plainly(word: Word) -> float:
    """Weigh a word by the packaged names alone."""
    return word.weight


def score(query: AnalysedName, listed: AnalysedName, weigh: Weigh = weigh_plainly) -> Scored:
    """Compare two names; the order of words does not matter for persons.

    Names without words score 0.
    """
    persons = query.is_person and listed.is_person
    if query.characters and listed.characters and query.characters != listed.characters:
        return Scored(0.0)
    left, right = _ordered(query, persons), _ordered(listed, persons)
    pairs = _pair_up(left, right, persons=persons)
    rests = _rests(pairs, left, right)
    total = _ratio(pairs, left, right, rests, _PERSON if persons else _OTHER, weigh)
    return Scored(round(total * _lone_word(pairs, left, right), _SCORE_DECIMALS), pairs, left, right)


def _rests(
    pairs: Sequence[_Pair], left: Sequence[Word], right: Sequence[Word]
) -> tuple[list[Word], list[Word]]:
    """Return the words left over on either side."""
    query = {at for pair in pairs for at in pair.query}
    listed = {at for pair in pairs for at in pair.listed}
    rest_query = [word for at, word in enumerate(left) if at not in query]
    return rest_query, [word for at, word in enumerate(right) if at not in listed]


def _ordered(name: AnalysedName, persons: bool) -> Sequence[Word]:  # noqa: FBT001
    """Order the words of a person, so that the order they came in cannot matter; drop repeated ones."""
    return sorted(set(name.words), key=lambda word: word.text) if persons else list(dict.fromkeys(name.words))


def _pair_up(left: Sequence[Word], right: Sequence[Word], *, persons: bool) -> list[_Pair]:
    found = [
        _Pair((at,), (to,), alike)
        for at, query in enumerate(left)
        for to, listed in enumerate(right)
        if (alike := compare(query, listed, persons=persons)).score
    ]
    found.sort(key=lambda pair: (-pair.alike.score, -left[pair.query[0]].weight, pair.query, pair.listed))
    taken: list[_Pair] = []
    free_query, free_listed = set(range(len(left))), set(range(len(right)))
    for pair in found:
        if pair.query[0] in free_query and pair.listed[0] in free_listed:
            taken.append(pair)
            free_query.discard(pair.query[0])
            free_listed.discard(pair.listed[0])
    taken.extend(_joined(left, right, sorted(free_query), sorted(free_listed), persons=persons))
    return taken


def _joined(
    left: Sequence[Word], right: Sequence[Word], rest: list[int], others: list[int], *, persons: bool
) -> Iterator[_Pair]:
    """Pair words written apart on one side and as one on the other."""
    if max(len(rest), len(others)) > _MOST_LEFT_TO_JOIN:
        return
    for whole in list(others):
        found = _best_join(right[whole], left, rest, persons=persons)
        if found:
            rest = [at for at in rest if at not in found[0]]
            others.remove(whole)
            yield _Pair(found[0], (whole,), found[1])
    for whole in list(rest):
        found = _best_join(left[whole], right, others, persons=persons)
        if found:
            others = [at for at in others if at not in found[0]]
            yield _Pair((whole,), found[0], found[1])


def _best_join(
    whole: Word, words: Sequence[Word], rest: Sequence[int], *, persons: bool
) -> tuple[tuple[int, ...], Alike] | None:
    """Return which of the words, joined, are the whole word; of persons in any order."""
    best: tuple[tuple[int, ...], Alike] | None = None
    if len(whole.text) < _JOIN_LEAST_CHARS:
        return None
    for count in range(2, min(_MOST_JOINED, len(rest)) + 1):
        for chosen in permutations(rest, count) if persons else _neighbours(rest, count):
            text = "".join(words[at].text for at in chosen)
            if abs(len(text) - len(whole.text)) > 1:
                continue
            alike = compare(make_word(text, WordKind.NAME), whole, persons=False)
            if alike.score >= _JOIN_LEAST and (best is None or alike.score > best[1].score):
                best = (chosen, alike)
    return best


def _neighbours(rest: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    for start in range(len(rest) - count + 1):
        run = tuple(rest[start : start + count])
        if run[-1] - run[0] == count - 1:
            yield run


def _ratio(
    pairs: Sequence[_Pair],
    left: Sequence[Word],
    right: Sequence[Word],
    rest: tuple[Sequence[Word], Sequence[Word]],
    penalties: Penalties,
    weigh: Weigh,
) -> float:
    matched = unlike = 0.0
    for pair in pairs:
        weight = _pair_weight(pair, left, right, weigh)
        matched += weight * pair.alike.score
        unlike += weight * (1 - pair.alike.score)
    extra_query, extra_listed = (sum(map(weigh, words)) for words in rest)
    against = (
        penalties.unlike * unlike
        + penalties.extra_query * extra_query
        + penalties.extra_listed * extra_listed
    )
    against += penalties.conflict * min(_distinctive(rest[0], weigh), _distinctive(rest[1], weigh))
    return matched / (matched + against) if matched else 0.0


def _distinctive(words: Sequence[Word], weigh: Weigh) -> float:
    """Weigh what tells names apart: not `AG` here and `Corporation` there, not fund 1 and fund 2."""
    plain = {WordKind.STOP, WordKind.NUMBER}
    return sum(weigh(word) for word in words if word.kind not in plain and not _is_plain_form(word))


def _is_plain_form(word: Word) -> bool:
    return word.kind is WordKind.FORM and word.text not in SECTOR_FORMS


def _pair_weight(pair: _Pair, left: Sequence[Word], right: Sequence[Word], weigh: Weigh) -> float:
    """Weigh a pair as the commoner of both: a common word with an error in it is not a rare one."""
    query = sum(weigh(left[at]) for at in pair.query) / len(pair.query)
    return min(query, sum(weigh(right[at]) for at in pair.listed) / len(pair.listed))


def _lone_word(pairs: Sequence[_Pair], left: Sequence[Word], right: Sequence[Word]) -> float:
    """Return what a single word in common is worth where names have several."""
    distinctive = [pair for pair in pairs if any(left[at].kind is WordKind.NAME for at in pair.query)]
    several = any(sum(word.kind is WordKind.NAME for word in words) > 1 for words in (left, right))
    joined = any(len(pair.query) + len(pair.listed) > 2 for pair in distinctive)  # noqa: PLR2004 - one word on each side
    return _ONE_WORD if len(distinctive) == 1 and several and not joined else 1.0


def _paired_parts(scored: Scored) -> Iterator[Part]:
    for pair in sorted(scored.pairs):
        yield Part(
            query=" ".join(scored.query[at].text for at in pair.query),
            listed=" ".join(scored.listed[at].text for at in pair.listed),
            score=round(pair.alike.score, _SCORE_DECIMALS),
            kind=pair.alike.kind,
        )


def _unpaired_parts(rest_query: Sequence[Word], rest_listed: Sequence[Word]) -> Iterator[Part]:
    """List words left over; where both names have some, they contradict each other."""
    conflict = bool(rest_query and rest_listed)
    for word in rest_query:
        yield Part(query=word.text, score=0.0, kind=PartKind.CONFLICT if conflict else PartKind.EXTRA_QUERY)
    for word in rest_listed:
        yield Part(listed=word.text, score=0.0, kind=PartKind.CONFLICT if conflict else PartKind.EXTRA_LISTED)
