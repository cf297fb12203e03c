"""Every security check has tests that bear its number, or SECURITY.md says what is missing and why."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"def test_((?:s\d+_)+)\w+\(")
LISTED = re.compile(r"^\| (S\d+(?:(?:, | to )S\d+)*) \|", re.MULTILINE)
RANGE = re.compile(r"S(\d+)(?: to S(\d+))?")

CONTROL_AREA = (*range(1, 34), 73, 74)
"""Tenants, people, keys, cursors."""

ATTACKS = (36, 42, 46, 51, 58, 59, 61, 62, 66, 67, 68, 69, 70, 71, 72, 75)
"""What was found by attacking the running service, and what stands against it."""

WITHOUT_TEST = frozenset({68, 69})
"""Of those, the ones that no test bears: each is to stand in the table of SECURITY.md with its reason."""


def numbers() -> set[int]:
    """The numbers that tests bear."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = (found[1] for text in texts for found in NAMED.finditer(text))
    return {int(number) for names in named for number in re.findall(r"\d+", names)}


def listed() -> set[int]:
    """The numbers in the table of SECURITY.md of what is not met."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What is not met")[2]
    ranges = (found for row in LISTED.findall(text) for found in RANGE.finditer(row))
    return {number for found in ranges for number in range(int(found[1]), int(found[2] or found[1]) + 1)}


@pytest.mark.parametrize("number", sorted({*CONTROL_AREA, *ATTACKS} - WITHOUT_TEST))
def test_a_check_has_a_test_of_its_number(number: int) -> None:
    assert number in numbers()


def test_a_check_without_a_test_stands_in_the_security_file() -> None:
    assert listed() >= WITHOUT_TEST


def test_the_security_file_lists_checks_by_their_numbers() -> None:
    assert listed() >= {8, 20, 54, 55, 63, 64, 65}
