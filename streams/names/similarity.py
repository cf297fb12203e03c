"""How alike two words of names are, and why."""

from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA, Indel

from schemas.screenings import PartKind
from streams.names.analysis import Word, WordKind
from streams.names.vocabulary import GIVEN_NAME_GROUPS

_ONE_ERROR: Final = 0.8
_ONE_ERROR_LEAST_CHARS: Final = 3
_TWO_ERRORS: Final = 0.55
_TWO_ERRORS_LEAST_CHARS: Final = 6
_THREE_ERRORS_LEAST_CHARS: Final = 10
_SAME_CONSONANTS: Final = 0.9
_FEW_CONSONANTS: Final = 2
"""So few that many names share them: the words must be more alike."""

_SAME_CONSONANTS_LEAST: Final = 0.6
_FEW_CONSONANTS_LEAST: Final = 0.75
_SAME_GIVEN_NAME: Final = 0.95
_INITIAL: Final = 0.8


class Alike(NamedTuple):
    """How alike two words are: 0 to 1, and by what."""

    score: float
    kind: PartKind


UNLIKE: Final = Alike(0.0, PartKind.CONFLICT)


def compare(query: Word, listed: Word, *, persons: bool) -> Alike:
    """Compare two words; `persons` allows initials and short forms of given names."""
    if query.text == listed.text:
        return Alike(1.0, PartKind.EXACT)
    kinds = {query.kind, listed.kind}
    if WordKind.FORM in kinds or WordKind.STOP in kinds:
        return _compare_small(query, listed)
    if persons and WordKind.INITIAL in {query.kind, listed.kind}:
        return Alike(_INITIAL, PartKind.INITIAL) if query.text[0] == listed.text[0] else UNLIKE
    consonants = len(query.skeleton) if query.skeleton == listed.skeleton else 0
    return _compare_texts(query.text, listed.text, consonants, persons)


def _compare_small(query: Word, listed: Word) -> Alike:
    """Compare titles, particles and legal forms: `bin` and `ben` are one, a form only itself."""
    if query.kind is listed.kind is WordKind.STOP and query.skeleton == listed.skeleton != "":
        return Alike(_SAME_CONSONANTS, PartKind.PHONETIC)
    return UNLIKE


@lru_cache(maxsize=131_072)
def _compare_texts(query: str, listed: str, consonants: int, persons: bool) -> Alike:  # noqa: FBT001
    """Compare two words that share this many consonants and no other, or 0."""
    if any(char.isdigit() for char in query) and any(char.isdigit() for char in listed):
        return UNLIKE
    if persons and GIVEN_NAME_GROUPS.get(query, frozenset()) & GIVEN_NAME_GROUPS.get(listed, frozenset()):
        return Alike(_SAME_GIVEN_NAME, PartKind.SYMBOL)
    if consonants and Indel.normalized_similarity(query, listed) >= _least_alike(consonants):
        return Alike(_SAME_CONSONANTS, PartKind.PHONETIC)
    return _by_errors(query, listed)


def _least_alike(consonants: int) -> float:
    return _FEW_CONSONANTS_LEAST if consonants <= _FEW_CONSONANTS else _SAME_CONSONANTS_LEAST


def _by_errors(query: str, listed: str) -> Alike:
    shorter, longer = sorted((len(query), len(listed)))
    errors = OSA.distance(query, listed, score_cutoff=3)
    share = 1 - errors / longer
    if errors == 1 and shorter >= _ONE_ERROR_LEAST_CHARS:
        return Alike(max(_ONE_ERROR, share), PartKind.FUZZY)
    if errors == 2 and shorter >= _TWO_ERRORS_LEAST_CHARS:  # noqa: PLR2004 - two letters
        return Alike(max(_TWO_ERRORS, share), PartKind.FUZZY)
    if errors == 3 and shorter >= _THREE_ERRORS_LEAST_CHARS:  # noqa: PLR2004 - three letters
        return Alike(share, PartKind.FUZZY)
    return UNLIKE
