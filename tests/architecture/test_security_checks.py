"""Every security check has tests that bear its number, or the threat model says what is missing and why."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "app" / "docs"
NAMED = re.compile(r"test_((?:s\d+_)+)\w+")
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


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def asserts(function: Function) -> bool:
    """Return whether the function itself asserts something, or expects an error."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pytest.raises", "pytest.fail"}:
            return True
    return False


def called(function: Function) -> set[str]:
    """The names of what the function calls."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    return names | {call.attr for call in calls if isinstance(call, ast.Attribute)}


def is_left_out(function: Function) -> bool:
    """Return whether the test is never run, or may fail."""
    return any(re.search(r"\b(skip|skipif|xfail)\b", ast.unparse(one)) for one in function.decorator_list)


def checking_tests(text: str, helpers: frozenset[str] = frozenset()) -> set[str]:
    """The names of the tests of a module that are run and assert something, themselves or in a helper."""
    return {
        function.name
        for function in functions(ast.parse(text))
        if function.name.startswith("test_")
        and not is_left_out(function)
        and (asserts(function) or called(function) & helpers)
    }


@cache
def asserting_helpers() -> frozenset[str]:
    """The names of the functions beside the tests that assert something."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    known = (function for text in texts for function in functions(ast.parse(text)))
    return frozenset(one.name for one in known if not one.name.startswith("test_") and asserts(one))


@cache
def checked_by(path: Path) -> frozenset[str]:
    """The names of the tests of a file that check something."""
    return frozenset(checking_tests(path.read_text(encoding="utf-8"), asserting_helpers()))


def numbers() -> set[int]:
    """The numbers that tests bear which check something."""
    names = (name for path in (ROOT / "tests").rglob("test_*.py") for name in checked_by(path))
    named = (found[1] for name in names if (found := NAMED.fullmatch(name)))
    return {int(number) for some in named for number in re.findall(r"\d+", some)}


def listed() -> set[int]:
    """The numbers in the table of the threat model of what is not met."""
    text = (DOCS / "threats.md").read_text(encoding="utf-8").partition("## What is not met")[2]
    ranges = (found for row in LISTED.findall(text) for found in RANGE.finditer(row))
    return {number for found in ranges for number in range(int(found[1]), int(found[2] or found[1]) + 1)}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("def test_s1_x(): assert found == 1", True),
        ("async def test_s1_x():\n    with pytest.raises(Refused): await ask()", True),
        ("def test_s1_x(): require_refused(answer)", True),
        ("def test_s1_x(): ...", False),
        ("def test_s1_x(): ask('/v1/audit')", False),
        ("@pytest.mark.skip('later')\ndef test_s1_x(): assert found == 1", False),
        ("@pytest.mark.xfail\ndef test_s1_x(): assert found == 1", False),
        ("# def test_s1_x(): assert found == 1", False),
        ("TEXT = 'def test_s1_x(): assert found == 1'", False),
    ],
)
def test_a_test_counts_only_if_it_is_run_and_checks_something(text: str, *, counts: bool) -> None:
    assert checking_tests(text, frozenset({"require_refused"})) == ({"test_s1_x"} if counts else set())


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
    missing = [f"{file.name}::{test}" for file, test in cited() if test not in checked_by(file)]

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


def test_the_threat_model_lists_checks_by_their_numbers() -> None:
    assert listed() >= {8, 20, 54, 55, 63, 64, 65}
