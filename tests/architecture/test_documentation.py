"""What the pages say of files, names, settings, commands and numbers is true, and nothing is missing."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from app.cli.main import app
from app.settings import PREFIX, Settings
from tests.documentation import DOCS, ROOT, SHELLS, anchors, blocks, links, name_of, pages, prose

RUN_ELSEWHERE: Final = frozenset({
    "run", "test", "backup", "root key", "secrets", "receiver", "vectors",
    "watch", "upgrade", "restore", "disk full",
})  # fmt: skip
"""Marks of blocks that have a test of their own, or that `.ci/run` executes."""

NOT_RUN: Final = "needs docker"
"""The mark of blocks that no test executes."""

NUMBER: Final = re.compile(r"(?<![\w.-])(?:[GS][1-9]\d{0,2}|[PR][1-9]\d?)(?![\w.-])")
"""A rule or a check, as code and tests cite it."""

EXPLAINED: Final = re.compile(r"^\| ([GSPR]\d+(?:, [GSPR]\d+)*) \|", re.MULTILINE)
"""The first cell of a row that says what one or more of them ask for."""

TREES: Final = ("app", "streams", "schemas", "tests", "deploy")
FILE: Final = re.compile(rf"`((?:{'|'.join(TREES)})/[\w./-]*)`")
ROW: Final = re.compile(r"^\| `([\w/.-]+\.py)` \| (.+?) \|", re.MULTILINE)


def test_the_readme_and_every_page_are_checked() -> None:
    assert {path.name for path in pages()} >= {"README.md", "architecture.md", "configuration.md"}


def test_every_page_is_part_of_the_package_and_listed_in_the_readme() -> None:
    packaged = {entry.name for entry in (files("app") / "docs").iterdir() if entry.name.endswith(".md")}
    listed = {Path(link).name for link in links(ROOT / "README.md") if link.startswith("app/docs/")}

    assert packaged == listed == {path.name for path in DOCS.iterdir()}
    assert '"*.md"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if not file.is_file() or (anchor and anchor not in anchors(file)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_file_a_page_names_exists(page: Path) -> None:
    named = FILE.findall(page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_shell_block_is_run_or_says_that_it_is_not() -> None:
    marks = [block.mark for block in blocks() if block.mark is not None]
    docker = [block for block in blocks() if "docker " in block.text and block.language in SHELLS]

    assert {*marks} == RUN_ELSEWHERE | {NOT_RUN}
    assert [mark for mark in marks if mark != NOT_RUN and marks.count(mark) != 1] == []
    assert [block for block in docker if block.mark != NOT_RUN] == []
    assert {block.language for block in blocks()} <= SHELLS | {"text", "python", "json", "csv"}


def settings() -> set[str]:
    """Every variable that sets something."""
    return {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


def named_variables(page: Path) -> set[str]:
    """Every variable that a page names; one with `_FILE` behind it is the setting it reads."""
    named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+\b", page.read_text(encoding="utf-8")))
    return {name if name in settings() else name.removesuffix("_FILE") for name in named}


def test_the_configuration_page_has_a_row_for_every_setting_and_no_other() -> None:
    rows = re.findall(r"^\| (`SERVICE_.+?) \|", (DOCS / "configuration.md").read_text("utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert sorted(listed) == sorted(settings())


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_variable_a_page_names_is_a_setting(page: Path) -> None:
    assert named_variables(page) - settings() == set()


def commands(command: Any, name: str = "") -> Iterator[str]:
    """Every command by its full name; typer carries a click of its own, without types."""
    inner = getattr(command, "commands", None)
    if inner is None or getattr(command, "invoke_without_command", False):
        yield name
    for part, one in (inner or {}).items():
        yield from commands(one, f"{name} {part}".strip())


def test_the_operations_page_has_every_command_in_its_table_and_no_other() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8").partition("## Commands")[2]
    rows = re.findall(r"^\| (`veristream .+?) \|", text, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(?:veristream )?([\w -]+)`", row)]

    assert sorted(listed) == sorted(commands(get_command(app)))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_command_a_page_names_exists(page: Path) -> None:
    known = {*commands(get_command(app))} | {"backup"}
    groups = {name.split()[0] for name in known if " " in name}
    wrong = []
    for said in re.findall(r"`veristream ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
        first, *more = said.split()
        two = f"{first} {more[0]}" if more else first
        if two not in known and (first not in known or (first in groups and first != "backup")):
            wrong.append(said)

    assert wrong == []


@cache
def defined(path: Path) -> frozenset[str]:
    """Every class, function, constant and method that a module defines."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.ClassDef():
                inner = [n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
                found |= {node.name, *(f"{node.name}.{name}" for name in inner)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return frozenset(found)


def steps() -> list[tuple[str, list[str]]]:
    """The files of the architecture page in their order, with the names beside them."""
    rows = ROW.findall((DOCS / "architecture.md").read_text(encoding="utf-8"))
    return [(path, re.findall(r"`([\w.]+)`", names)) for path, names in rows]


@pytest.mark.parametrize(("path", "names"), steps(), ids=[path for path, _ in steps()])
def test_a_step_of_the_architecture_is_defined_where_the_page_says(path: str, names: list[str]) -> None:
    assert names
    assert {*names} - defined(ROOT / path) == set()


def test_the_architecture_page_follows_a_verification_from_the_socket_to_the_webhook() -> None:
    rooms = {"/".join(Path(path).parts[:2]) for path, _ in steps()}

    assert rooms >= {"app/http", "app/adapters", "app/vision", "streams/runtime", "streams/verification"}
    assert len(steps()) >= 40


def cited() -> dict[str, str]:
    """Every number that code, tests or a page cites, with one file that does."""
    sources = [path for tree in ("app", "streams", "schemas") for path in (ROOT / tree).rglob("*.py")]
    sources += list((ROOT / "tests").rglob("*.py"))
    sources += [DOCS / "threats.md", ROOT / "tests" / "security" / "FINDINGS.md"]
    found = {}
    for path in sources:
        for line in path.read_text(encoding="utf-8").splitlines():
            for number in NUMBER.findall(line.partition("# noqa")[0]):
                found[number] = name_of(path)
    return found


def explained() -> set[str]:
    """Every number that begins a row of the pages of rules and checks."""
    texts = [(DOCS / name).read_text(encoding="utf-8") for name in ("interface.md", "security-checks.md")]
    rows = [row for text in texts for row in EXPLAINED.findall(text)]
    return {number for row in rows for number in row.split(", ")}


def test_every_number_that_is_cited_is_explained() -> None:
    unexplained = {number: path for number, path in cited().items() if number not in explained()}

    assert unexplained == {}


def test_the_pages_do_not_cite_a_number_that_is_not_explained() -> None:
    said = {number for page in sorted(DOCS.glob("*.md")) for number in NUMBER.findall(prose(page))}

    assert said - explained() == set()


CLAIM = (
    "stops a flat photo, print or screen that is held up or turned; does not stop a print bent tightly "
    "round an object, several photos of the person, a recorded or made video, a mask, or pictures "
    "injected in place of the camera; no PAD level is claimed."
)
"""What may be said of active liveness (P16), word for word."""


@pytest.mark.parametrize("page", ["README.md", "app/docs/concepts.md"])
def test_active_liveness_is_claimed_word_for_word(page: str) -> None:
    assert CLAIM in " ".join((ROOT / page).read_text(encoding="utf-8").split())
