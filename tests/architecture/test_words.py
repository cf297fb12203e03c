"""Names, docstrings, comments, log events and metrics use the terms of the field, no words of our own.

Each word below once named something here that a newcomer knows under another name, which stands beside it.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("app", "streams", "schemas", "tests")

STANDARD_TERMS: Final = {
    "burden": "library calls, overhead",
    "crowd": "load, clients",
    "crowded": "load, clients",
    "crowds": "load, clients",
    "doom": "crash",
    "doomed": "crashing",
    "gathering": "index, collect",
    "grave": "severity, dead letter",
    "graver": "severity",
    "graves": "dead letters",
    "gravest": "severity",
    "house": "deployment",
    "houses": "deployments",
    "lane": "thread, queue",
    "lanes": "threads, queues",
    "mended": "patched, fixed",
    "moody": "random",
    "pulse": "process metrics",
    "stranger": "outsider, unauthenticated caller",
    "strangers": "outsiders, unauthenticated callers",
    "stumbling": "failing",
    "telling": "events, publishing",
    "together": "batch, at once",
    "told": "response, published, reported",
    "whoever": "who, the caller",
    "wish": "command, request",
    "wished": "requested",
    "wishes": "commands, requests",
}
"""Not anywhere, with the word that is used instead."""

NAMES: Final = {
    "meeting": "verification of a factor",
    "placing": "position",
    "sight": "vision",
}
"""Not in a name; in a sentence, and a test's name is one, they are ordinary English."""

NOUNS: Final = {"held": "stored, locked, state", "kept": "stored"}
"""Not as the last part of a name: `kept`, but `kept_at`. A sentence may say "a lock is held"."""

PHRASES: Final = ("come to be", "comes to be", "came to be", "stands still", "what there is")
"""Not in a sentence."""

ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("tests/architecture/test_words.py", "*"): "lists the words",
    ("schemas/captures.py", "kept"): "the interface's own name (P5)",
    ("app/http/capture_view.py", "kept"): "the interface's own name (P5)",
}
"""Words that stay in one file, with the reason; `*` is every word."""

LOGGERS: Final = {"log", "logger", "_log"}
METRICS: Final = {"Counter", "Gauge", "Histogram", "Summary"}

Finding = tuple[int, str]


def parts(name: str) -> list[str]:
    """Split an identifier at underscores, dots and changes of case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def in_name(name: str) -> list[str]:
    """Return the words of the lists in an identifier; a test's name is a sentence."""
    words = parts(name)
    found = [word for word in words if word in STANDARD_TERMS]
    if not name.startswith("test_"):
        found += [word for word in words if word in NAMES] + [word for word in words[-1:] if word in NOUNS]
    return found


def in_sentence(text: str) -> list[str]:
    """Return the words and phrases of the lists in prose."""
    flat = re.sub(r"[\s#]+", " ", text.lower())
    return [
        *(word for word in re.findall(r"[a-z]+", flat) if word in STANDARD_TERMS),
        *(phrase for phrase in PHRASES if phrase in flat),
    ]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name a module defines or uses, with its line."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.keyword(arg=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield line, name
            case ast.ExceptHandler(name=str(name)):
                yield line, name
            case ast.alias(name=name, asname=other):
                yield line, name if other is None else f"{name}.{other}"
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if is_event_or_metric(node.func):
                yield line, name


def is_event_or_metric(called: ast.expr) -> bool:
    """Return whether a call writes a log event or makes a metric, so that its first argument is a name."""
    match called:
        case ast.Attribute(value=ast.Name(id=owner)) if owner in LOGGERS:
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in METRICS
        case _:
            return False


def sentences(source: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every docstring, of attributes too, and every comment, with its line."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def findings(source: str, path: str) -> list[Finding]:
    """Return each line of a module with a word of the lists, and the word."""
    tree = ast.parse(source)
    found = [(0, word) for word in in_name(path.rpartition("/")[2].removesuffix(".py"))]
    found += [(line, word) for line, name in names(tree) for word in in_name(name)]
    found += [(line, word) for line, text in sentences(source, tree) for word in in_sentence(text)]
    return sorted({(line, word) for line, word in found if not {(path, word), (path, "*")} & ALLOWED.keys()})


def modules(package: str) -> Iterator[tuple[str, str]]:
    """Yield the path from the root and the source of every module of a package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_uses_the_terms_of_the_field(package: str) -> None:
    found = [
        f"{path}:{line}: {word} (say: {(STANDARD_TERMS | NAMES | NOUNS).get(word, 'it plainly')})"
        for path, source in modules(package)
        for line, word in findings(source, path)
    ]

    assert found == []


def test_every_allowance_is_of_a_file_that_exists() -> None:
    assert [path for path, _ in ALLOWED if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("told = 1", [(1, "told")]),
        ("class OpenHouse: ...", [(1, "house")]),
        ("def take(bytes_kept, kept_at): ...", [(1, "kept")]),
        ("self._placing.take()", [(1, "placing")]),
        ("x.wish", [(1, "wish")]),
        ("call(lane=1)", [(1, "lane")]),
        ("from a import grave as b", [(1, "grave")]),
        ("match x:\n    case int() as stranger: ...", [(2, "stranger")]),
        ("try: ...\nexcept KeyError as doom: ...", [(2, "doom")]),
        ('log.info("house.opened")', [(1, "house")]),
        ('Gauge("crowd_size", "how many")', [(1, "crowd")]),
        ('"""What there\nis."""', [(1, "what there is")]),
        ("x = 1  # nobody is told", [(1, "told")]),
        ("def test_it_is_kept(): ...", []),
        ("def test_it_is_told(): ...", [(1, "told")]),
        ('"""A lock is held, a record kept."""', []),
        ("warehouse = recommended = amended = 1", []),
        ('x = "told"', []),
    ],
)
def test_a_word_is_found_where_it_stands(source: str, found: list[Finding]) -> None:
    assert findings(source, "app/example.py") == found


def test_a_word_is_found_in_the_name_of_a_file() -> None:
    assert findings("", "app/together.py") == [(0, "together")]
