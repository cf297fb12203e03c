"""Convert recognised text to the lines of a TD3 zone; every correction is recorded.

Only what the zone's own alphabet and check digits decide is put right (ICAO Doc 9303 part 4 section
4.2.2 says which positions hold letters and which hold digits). A repair that is not the only possible
one is no repair: the line stays as it was read and its check digits stay broken.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Final

from schemas.enums import TextEnum
from streams.verification.readers.likeness import latin
from streams.verification.readers.td3_lines import FILLER, LENGTH, NATIONALITY, NUMBER, OPTIONAL, SEX, verify

MIN_LENGTH: Final = LENGTH - 4
MAX_LENGTH: Final = LENGTH + 2
"""Characters a recogniser may have dropped or added in a run of fillers, and still be a line."""
MAX_SECOND_SLIP: Final = 2
"""Fillers of the second line that may be missing or extra; a TD2 line of 36 is thereby never one of 44."""
MAX_SUBSTITUTIONS: Final = 2
"""Largest number of characters that the check digits may decide."""

_FILLERS: Final = str.maketrans(
    dict.fromkeys("\u304f\u3111\u3008\u27e8\u2039\uff1c\ufe64\u1438\u2264\u2220", FILLER)
    | dict.fromkeys("\u00ab\u300a\u226a", FILLER * 2)
    | dict.fromkeys("|!/\\[]", "I")
)
"""What recognisers of many scripts make of `<` in OCR-B, and strokes, whose place must not be lost."""
_NOISE: Final = re.compile(r"[^A-Z0-9<]")
_DIGIT_OF: Final = {"O": "0", "Q": "0", "D": "0", "I": "1", "L": "1", "Z": "2", "S": "5", "B": "8", "G": "6"}
_LETTER_OF: Final = {"0": "O", "1": "I", "2": "Z", "5": "S", "8": "B", "6": "G"}
_LOOKALIKES: Final = ("0OQD", "1IL", "2Z", "5S", "8B", "6G")
_DIGITS_AT: Final = frozenset({9, *range(13, 20), *range(21, 28), 42, 43})
_LETTERS_AT: Final = frozenset(range(*NATIONALITY.indices(LENGTH)))
_FREE: Final = (*range(*NUMBER.indices(LENGTH)), *range(*OPTIONAL.indices(LENGTH)))
"""Positions of the second line that may hold letters and digits: there only check digits can decide."""
_LAST_FIXED: Final = 28
"""Positions before it cannot move; the optional field begins here."""


class RepairKind(TextEnum):
    """On what grounds a character was put right."""

    ALPHABET = "alphabet"
    """The position holds only letters, or only digits, and the look-alike has one counterpart there."""
    LENGTH = "length"
    """A run of fillers in the optional field was too short or too long."""
    CHECK_DIGITS = "check digits"
    """Exactly one choice among look-alikes satisfies all check digits."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One character of the second line that is not as it was read."""

    kind: RepairKind
    position: int
    """Counted from 0 in the line of 44."""


@dataclass(frozen=True, slots=True)
class SecondLine:
    """A second line with what its check digits say."""

    text: str
    checks: Mapping[str, bool]
    repairs: tuple[Repair, ...]

    @property
    def holds(self) -> bool:
        """Whether all five check digits hold."""
        return all(self.checks.values())


def normalise(text: str) -> str:
    """Return a recognised line in the zone's alphabet; what has no place in it is dropped."""
    return _NOISE.sub("", latin(text).translate(_FILLERS))


def likeness(text: str) -> int:
    """Return how much a normalised text is like a line of the zone: fillers, and digits in their places."""
    return text.count(FILLER) + sum(text[place : place + 1].isdigit() for place in _DIGITS_AT)


def first_line(text: str) -> str | None:
    """Return a normalised text as a first line of 44 characters, or None when it cannot be one.

    It begins with P (part 4 section 4.2.2.1), holds only letters, and may be short or long only in the
    fillers at its end. Scraps between those fillers are what a recogniser made of a filler.
    """
    if not (MIN_LENGTH <= len(text) <= MAX_LENGTH and text.startswith("P")):
        return None
    letters = "".join(_LETTER_OF.get(character, character) for character in text)
    if not re.fullmatch(r"[A-Z<]+", letters):
        return None
    if end := re.search("<{3}", letters[5:]):
        letters = letters[: 5 + end.start()]
    elif len(letters) != LENGTH:
        return None
    return letters.rstrip(FILLER).ljust(LENGTH, FILLER) if len(letters) <= LENGTH else None


def second_line(text: str) -> SecondLine | None:
    """Return a normalised text as the best second line it can be, or None when it cannot be one."""
    candidates = [_solve(*candidate) for candidate in _of_right_length(text)]
    candidates.sort(key=lambda line: (-sum(line.checks.values()), len(line.repairs)))
    if not candidates or not _is_plausible(candidates[0].text):
        return None
    best = candidates[0]
    rivals = {line.text for line in candidates if line.holds}
    if best.repairs and len(rivals) > 1:  # several ways to satisfy the digits: none of them was read
        return _typed(text[:LENGTH], ()) if len(text) == LENGTH else None
    return best


def _of_right_length(text: str) -> Iterator[tuple[str, tuple[Repair, ...]]]:
    """Yield the text at 44 characters: as it is, or with fillers of the optional field added or removed."""
    slip = LENGTH - len(text)
    if slip == 0:
        yield text, ()
    if not 0 < abs(slip) <= MAX_SECOND_SLIP:
        return
    for run in re.finditer("<{2,}", text):
        if run.start() < _LAST_FIXED or run.end() - run.start() + slip < 1:
            continue
        changed = text[: run.end()] + FILLER * slip + text[run.end() :] if slip > 0 else ""
        changed = changed or text[: run.end() + slip] + text[run.end() :]
        yield changed, (Repair(RepairKind.LENGTH, run.end() - 1),)


def _solve(text: str, repairs: tuple[Repair, ...]) -> SecondLine:
    """Put right what the alphabet decides, then what the check digits decide; else leave it."""
    line = _typed(text, repairs)
    if line.holds:
        return line
    changed = (text for count in range(1, MAX_SUBSTITUTIONS + 1) for text in _substitutions(line.text, count))
    solutions = list(islice((text for text in changed if all(verify(text).values())), 2))
    return _repaired(line, solutions[0]) if len(solutions) == 1 else line


def _typed(text: str, repairs: tuple[Repair, ...]) -> SecondLine:
    characters = list(text)
    found = list(repairs)
    for position, character in enumerate(text):
        table = _DIGIT_OF if position in _DIGITS_AT else _LETTER_OF if position in _LETTERS_AT else {}
        if character in table:
            characters[position] = table[character]
            found.append(Repair(RepairKind.ALPHABET, position))
    typed = "".join(characters)
    return SecondLine(typed, verify(typed), tuple(found))


def _substitutions(text: str, count: int) -> Iterator[str]:
    """Yield the text with exactly `count` characters of the free positions replaced by look-alikes."""
    for positions in combinations(_FREE, count):
        for choice in product(*(_others(text[position]) for position in positions)):
            characters = list(text)
            for position, character in zip(positions, choice, strict=True):
                characters[position] = character
            yield "".join(characters)


def _others(character: str) -> Sequence[str]:
    return [other for group in _LOOKALIKES if character in group for other in group if other != character]


def _repaired(line: SecondLine, text: str) -> SecondLine:
    changed = (position for position in _FREE if text[position] != line.text[position])
    decided = tuple(Repair(RepairKind.CHECK_DIGITS, position) for position in changed)
    return SecondLine(text, verify(text), line.repairs + decided)


def _is_plausible(text: str) -> bool:
    """Return whether the digits' positions have digits or fillers, as a second line must."""
    right = sum(text[position].isdigit() or text[position] == FILLER for position in _DIGITS_AT)
    return right >= len(_DIGITS_AT) - 2 and text[SEX] in "MF<X" and text[0] != FILLER
