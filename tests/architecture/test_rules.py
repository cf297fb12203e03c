"""The rules hold: lint, form, types, and imports that point one way."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "streams", "app")
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as lint; lint()"
MACHINERY = {"faust", "aiohttp", "asyncio", "aiokafka", "sqlite3"}
MAY_CATCH_ALL = {
    "streams/runtime/guard.py",
    "app/http/middlewares.py",
    "app/adapters/webhooks/sender.py",
    "app/intake/admission.py",  # gives the place back and raises on
    "app/names/server.py",  # names are in whatever looking one up raises, and stay out of logs
    "app/vision/forker.py",  # ends the forker and raises on
    "app/vision/memory.py",  # closes the file and raises on
    "app/vision/serving.py",  # whatever a job on hostile pixels raises is its answer
    "app/vision/fork_server.py",  # nothing of the forker may go on in a child
}
LINES = 350
MEDIAN_LINES, NINE_OF_TEN_LINES = 120, 250
FEW_LINES, MOST_SHORT = 60, 40
FUNCTION_LINES = 45


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the rooms with its path from the root."""
    for room in rooms:
        yield from parsed(room)


@cache
def parsed(room: str) -> tuple[tuple[str, ast.Module], ...]:
    """The modules of a room, read once for all tests."""
    paths = sorted((ROOT / room).rglob("*.py"))
    return tuple((str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def imported(tree: ast.AST) -> set[str]:
    """The top-level packages a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.timeout(1_800)  # beside two busy loops mypy without its cache took over 900 s
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["-m", "ruff", "check", "."], id="ruff finds nothing"),
        pytest.param(["-m", "ruff", "format", "--check", "."], id="the formatter changes nothing"),
        pytest.param(["-m", "mypy"], id="mypy strict finds nothing"),
        pytest.param(["-c", LINT_IMPORTS], id="imports point one way"),
    ],
)
def test_the_tools_are_content(command: list[str]) -> None:
    run = [sys.executable, *command]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603

    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_schemas_know_no_machinery() -> None:
    pure = [*modules("schemas"), *((p, t) for p, t in modules("streams") if p.endswith("rules.py"))]

    assert {path: imported(tree) & MACHINERY for path, tree in pure if imported(tree) & MACHINERY} == {}


def test_the_root_of_app_holds_packages_and_the_settings() -> None:
    found = {path.name for path in (ROOT / "app").glob("*.py")}

    assert found == {"__init__.py", "__main__.py", "settings.py"}


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    assert [path for path, tree in modules(*ROOMS) if not ast.get_docstring(tree)] == []


def test_a_room_init_holds_its_rule_and_no_code() -> None:
    inits = [(path, tree) for path, tree in modules(*ROOMS) if path.endswith("__init__.py")]

    assert [path for path, tree in inits if len(tree.body) != 1] == []


def catches_all(node: ast.AST) -> bool:
    """Tell a handler that catches every exception."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    named = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(n is None or getattr(n, "id", "") in {"Exception", "BaseException"} for n in named)


def test_only_the_named_places_catch_everything() -> None:
    found = {path for path, tree in modules(*ROOMS) for node in ast.walk(tree) if catches_all(node)}

    assert found == MAY_CATCH_ALL


def module_lines() -> dict[str, int]:
    """The number of lines of each module."""
    paths = [path for path, _ in modules(*ROOMS)]
    return {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}


def test_no_module_outgrows_one_thing() -> None:
    assert {path: lines for path, lines in module_lines().items() if lines > LINES} == {}


def test_most_modules_are_read_at_a_glance() -> None:
    """Half of them within two screens; packages' own files count, for a reader opens them too."""
    lines = sorted(module_lines().values())

    assert median(lines) <= MEDIAN_LINES
    assert lines[len(lines) * 9 // 10] <= NINE_OF_TEN_LINES


def test_few_modules_are_so_short_that_they_could_join_another() -> None:
    own = {path: lines for path, lines in module_lines().items() if not path.endswith("__init__.py")}
    short = [path for path, lines in own.items() if lines < FEW_LINES]

    assert len(short) <= MOST_SHORT, short


def test_no_function_outgrows_one_thing_but_the_tables_of_routes() -> None:
    lengths = {
        f"{path} {node.name}": node.end_lineno - node.lineno + 1
        for path, tree in modules(*ROOMS)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }

    longer = {name for name, length in lengths.items() if length > FUNCTION_LINES}
    assert {name for name in longer if not name.endswith(("_endpoints", " endpoints_of"))} == set()


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    hosts = ("pypi.", "pythonhosted", "npmjs", "maven.org", "proxy.golang", "crates.io")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    this = Path(__file__)
    texts = {p: p.read_bytes() for n in listed.stdout.split("\n") if (p := ROOT / n).is_file() and p != this}

    assert [str(p) for p, raw in texts.items() if any(host.encode() in raw for host in hosts)] == []
