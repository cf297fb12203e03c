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

FINDINGS = ROOT / "tests" / "security" / "FINDINGS.md"
CITED = re.compile(r"`([\w/]+\.py|…)::(test_\w+)`")

SHOWN = "## What each test shows"
"""Begins the table of what was switched off."""

ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
PLACE = re.compile(r"`([\w/.-]+\.[a-z]+)(?::(\w+))?`")
"""A file, and a name that stands in it."""


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


@pytest.mark.parametrize("number", sorted({*CONTROL_AREA, *ATTACKS}))
def test_a_check_has_a_test_of_its_number(number: int) -> None:
    assert number in numbers()


def cited(*, shown: bool | None = None) -> list[tuple[Path, str]]:
    """File and name of every test that is named; an ellipsis stands for the file before it.

    `shown` chooses the table of what was switched off, or the one before it.
    """
    text = FINDINGS.read_text(encoding="utf-8")
    parts = text.partition(SHOWN)
    found: list[tuple[Path, str]] = []
    for name, test in CITED.findall(text if shown is None else parts[2] if shown else parts[0]):
        file = found[-1][0] if name == "…" else ROOT / name if "/" in name else FINDINGS.parent / name
        found.append((file, test))
    return found


def test_every_test_that_a_finding_names_is_there() -> None:
    missing = [
        f"{file.name}::{test}"
        for file, test in cited()
        if f"def {test}(" not in file.read_text(encoding="utf-8")
    ]

    assert (missing, len(cited()) > 60) == ([], True)


def test_every_finding_has_a_test() -> None:
    rows = re.findall(
        r"^\| (\d+)(?:, (\d+))?(?:, S\d+)* \|.*\|(.*)\|$", FINDINGS.read_text("utf-8"), re.MULTILINE
    )

    assert {int(number) for row in rows for number in row[:2] if number} == {*range(1, 23)}
    assert [row for row in rows if ".py" not in row[2] and "::test_" not in row[2]] == []


def switched_off() -> list[tuple[int, str, str]]:
    """Number of a finding, what was switched off, and which tests failed without it."""
    rows = ROW.findall(FINDINGS.read_text(encoding="utf-8").partition(SHOWN)[2])
    return [(int(number), what, fails) for number, what, fails in rows]


def test_every_finding_was_switched_off_and_every_test_of_it_seen_to_fail() -> None:
    rows = switched_off()

    assert {number for number, _, _ in rows} == {*range(1, 23)}
    assert [row for row in rows if not PLACE.search(row[1]) or not CITED.search(row[2])] == []
    assert {*cited(shown=False)} - {*cited(shown=True)} == set()


def test_what_was_switched_off_is_still_there() -> None:
    places = [place for _, what, _ in switched_off() for place in PLACE.findall(what)]
    missing = [
        (file, name)
        for file, name in places
        if not (ROOT / file).is_file()
        or not re.search(rf"\b{name}\b", (ROOT / file).read_text(encoding="utf-8"))
    ]

    assert (missing, len(places) > 80) == ([], True)


def test_the_security_file_lists_checks_by_their_numbers() -> None:
    assert listed() >= {8, 20, 54, 55, 63, 64, 65}
