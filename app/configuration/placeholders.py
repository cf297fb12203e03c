"""Recognise secrets that were chosen and not drawn at random: placeholders, repetitions, runs (S70).

Each rule passes over what a random generator makes: the chance that one of `openssl rand` is refused is
below one in a million.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

LEAST_DISTINCT: Final = 8
"""Different symbols in a secret of 32; 32 random digits have fewer once in ten million times."""

LEAST_LEFT: Final = 20
"""Letters and digits left of a token without the words of placeholders; 80 random bits in hexadecimal."""

_WORDS: Final = re.compile(
    r"(?:change|replace)[-_ ]?(?:this|it|me)?"
    "|placeholder|example|sample|default|insert|please|dummy|todo|fixme|demo|test|value|enter"
    "|password|passwd|secret|token|operator|platform|admin|root|service|veristream"
    "|production|staging|development|your|this|here|some|long|super|very|random|string|characters?"
    "|with|must|should|qwerty(?:uiop)?|letmein|welcome|deadbeef|cafebabe|(?:0?123456789)+0?|(?:abcdef)+",
    re.IGNORECASE,
)
"""What stands in examples, templates and on keyboards."""

_APART: Final = re.compile(r"[^0-9A-Za-z]+")


def repeats(symbols: Sequence[object]) -> bool:
    """Return whether the sequence is a repetition of one pattern of at most half its length."""
    half = len(symbols) // 2
    return any(symbols[length:] == symbols[:-length] for length in range(1, half + 1))


def counts_up(numbers: Sequence[int], modulus: int) -> bool:
    """Return whether each number follows the one before by the same step, as in 00 01 02."""
    return len({(after - before) % modulus for before, after in pairwise(numbers)}) == 1


def fault_of_bytes(secret: bytes) -> str | None:
    """Return why the bytes of a key were not drawn at random, or None."""
    if repeats(secret):
        return "repeats a pattern"
    if counts_up(secret, 256):
        return "counts up or down"
    if len(set(secret)) < LEAST_DISTINCT:
        return f"has fewer than {LEAST_DISTINCT} different bytes"
    return fault_of_token(secret.decode("ascii")) if secret.isascii() else None


def fault_of_token(token: str) -> str | None:
    """Return why a token can be guessed whatever its length, or None."""
    if repeats(token):
        return "repeats a pattern"
    if len(set(token)) < LEAST_DISTINCT:
        return f"has fewer than {LEAST_DISTINCT} different characters"
    left = _APART.sub("", _WORDS.sub(" ", token))
    return "is a placeholder" if len(left) < LEAST_LEFT else None
