"""Every security check of the control area has tests that bear its number."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"def test_s(\d+)_\w+\(")


def numbers() -> set[int]:
    """The numbers that tests bear."""
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {int(found[1]) for text in texts for found in NAMED.finditer(text)}


@pytest.mark.parametrize("number", [*range(1, 34), 73, 74])
def test_a_check_has_a_test_of_its_number(number: int) -> None:
    assert number in numbers()
