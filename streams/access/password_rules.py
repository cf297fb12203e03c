"""Which passwords are accepted, and what of them is hashed (G50, S26). Pure."""

import unicodedata
from itertools import pairwise
from typing import Final

from zxcvbn.frequency_lists import FREQUENCY_LISTS
from zxcvbn.matching import spatial_match

from schemas.problems import ProblemCode, Refused

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 128
"""Code points after normalisation (G50)."""

MAX_GIVEN: Final = 1024
"""Code points of a password as sent; composed and decomposed forms differ in length."""

SERVICE_NAMES: Final = ("veristream",)

_MIN_PART: Final = 4
"""Parts of an address shorter than this are in too many words to be refused."""

_MIN_DISTINCT: Final = 4
"""Different characters; fewer are a pattern, not a password."""

_MAX_WORDS: Final = 2
"""So many common words in a row are still guessed first; a phrase of more of them is not."""

_MIN_STEPS: Final = 3
"""Counting up, or walking over the keyboard, that leaves fewer pieces than this is refused."""

_COMMON: Final = frozenset(FREQUENCY_LISTS["passwords"])
"""Thirty thousand passwords of breaches, in lower case."""

_EXAMPLE: Final = "correcthorsebatterystaple"
"""The phrase by which phrases were recommended (xkcd 936)."""

_COMMONEST: Final = 3_000
"""So many words from the head of each list: further down they are too rare to be guessed first."""

_MIN_WORD: Final = 3
"""Letters; shorter words would make a phrase of nearly everything."""

_WORDS: Final = frozenset(
    word
    for words in FREQUENCY_LISTS.values()
    for word in words[:_COMMONEST]
    if word.isalpha() and len(word) >= _MIN_WORD
)
"""The commonest words of passwords, names and English texts; each stands in one list only, where it is most
frequent. Two of these at most, with digits and signs around them, are no password.
"""

_LONGEST: Final = max(map(len, _WORDS))

_LONGEST_PIECE: Final = 8
"""A longer piece that is repeated is judged as what it is."""

_LEET: Final = str.maketrans("@4031!$57", "aaoeiisst")
"""Digits and signs that stand for letters in most lists of guesses."""


def normal_password(password: str) -> str:
    """Return the one form of a password, whatever keyboard composed it: Unicode NFC (RFC 8265 section 4)."""
    return unicodedata.normalize("NFC", password)


def password_bytes(password: str) -> bytes:
    """Return what is hashed: all of the password, nothing cut off."""
    return normal_password(password).encode("utf-8", "surrogatepass")


def require_acceptable(password: str, email: str, pointer: str) -> None:
    """Refuse a new password that the policy does not allow; any characters may be in it.

    Raises:
        Refused: VALIDATION_FAILED at the pointer, with the rule that was broken.
    """
    complaint = _complaint(normal_password(password), email)
    if complaint is not None:
        raise Refused.at(pointer, ProblemCode.VALIDATION_FAILED, complaint)


def _complaint(password: str, email: str) -> str | None:
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters."
    plain = password.casefold()
    if any(name in plain for name in SERVICE_NAMES):
        return "A password must not contain the name of the service."
    if any(part in plain for part in _parts_of(email.casefold())):
        return "A password must not contain the e-mail address."
    if is_common(plain):
        return "The password is too common: it is among those that are guessed first."
    return None


def _parts_of(email: str) -> set[str]:
    """Return the address, the part before the at sign and the names behind it but for the last."""
    local, _, domain = email.partition("@")
    parts = {email, local, *local.split("+"), *domain.split(".")[:-1]}
    return {part for part in parts if len(part) >= _MIN_PART}


def is_common(password: str) -> bool:
    """Tell whether a password, in lower case, is among those that are guessed first."""
    if password in _COMMON or len(set(password)) < _MIN_DISTINCT:
        return True
    if _counts_up(password) or _is_repeated(password) or _is_walk(password):
        return True
    letters = "".join(character for character in password if character.isalpha())
    spoken = "".join(character for character in password.translate(_LEET) if character.isalpha())
    bare = password.strip("0123456789!@#$%^&*()-_=+.,?/ ")
    meant = "".join(character for character in bare.translate(_LEET) if character.isalpha())
    return letters == _EXAMPLE or any(_is_words(form, _MAX_WORDS) for form in (letters, spoken, meant))


def _counts_up(password: str) -> bool:
    """Tell whether it only counts up or down, or stays."""
    steps = [ord(after) - ord(before) for before, after in pairwise(password)]
    return sum(step not in {-1, 0, 1} for step in steps) < _MIN_STEPS


def _is_repeated(password: str) -> bool:
    """Tell whether it is one short piece again and again, or a common one twice."""
    for size in range(1, len(password) // 2 + 1):
        piece = password[:size]
        if (piece * len(password)).startswith(password):
            return piece in _COMMON or size <= min(len(password) // 3, _LONGEST_PIECE)
    return False


def _is_walk(password: str) -> bool:
    """Tell whether all but a few keys are in rows of neighbours on a keyboard or keypad."""
    walks = spatial_match(password)  # type: ignore[no-untyped-call]  # zxcvbn has no types
    walked = {place for walk in walks for place in range(walk["i"], walk["j"] + 1)}
    return len(password) - len(walked) < _MIN_STEPS


def _is_words(letters: str, at_most: int) -> bool:
    """Tell whether the letters are common words joined, so many different ones at most."""
    found: list[set[frozenset[str]]] = [set() for _ in range(len(letters) + 1)]
    found[0].add(frozenset())
    for end in range(1, len(letters) + 1):
        for start in range(max(0, end - _LONGEST), end):
            word = letters[start:end]
            if word in _WORDS:
                joined = {used | {word} for used in found[start]}
                found[end] |= {used for used in joined if len(used) <= at_most}
    return bool(letters) and bool(found[-1])
