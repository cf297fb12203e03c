"""Fuzz one target with atheris for a time: `python -m tests.fuzz wire --seconds 600`.

A target is a module `tests/fuzz/targets/<name>.py` with a function `target(data: bytes) -> None` and a tuple
`SEEDS` of inputs to begin with. Whatever leaves `target` as an exception is a crash, and so is an input that
takes more than `HANG_CPU_S`. Atheris is not in the lock: install the extra `fuzz` to run this.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.fuzz.checks import HANG_CPU_S, checked, load

MAX_LENGTH_BYTES: Final = 64 * 1024
"""Longer inputs cost time and find little; a target that needs more repeats its data itself."""

HARD_LIMIT_S: Final = 60
"""Wall time after which libFuzzer ends a process that hangs in native code."""

FUZZED_PACKAGES: Final = ("app", "streams", "schemas")
"""Whose branches guide the search; libraries would slow it down."""


def main() -> int:
    """Run the fuzzer in a child process, since it may be aborted, and report how it ended."""
    wanted = _arguments().parse_args()
    if wanted.corpus is not None:
        return _fuzz(wanted.target, wanted.seconds, wanted.corpus)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as corpus:
        command = [sys.executable, "-m", "tests.fuzz", wanted.target, "--seconds", str(wanted.seconds)]
        ended = subprocess.run([*command, "--corpus", corpus], check=False)  # noqa: S603 - this file itself
        found = [*Path(corpus).glob("crash-*"), *Path(corpus).glob("timeout-*"), *Path(corpus).glob("oom-*")]
        for path in found:
            print(f"{wanted.target}: {path.name}: {path.read_bytes().hex()}")  # noqa: T201 - a command's answer
        print(f"{wanted.target}: exit {ended.returncode}, {len(found)} findings")  # noqa: T201
    return 1 if ended.returncode or found else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", help="name of a module in tests/fuzz/targets")
    parser.add_argument("--seconds", type=int, default=60, help="how long to search (default: 60)")
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    return parser


def _fuzz(name: str, seconds: int, corpus: Path) -> int:
    try:
        atheris: Any = import_module("atheris")  # an extra of its own, which mypy need not find
    except ImportError:
        print("atheris is not installed; install the extra: pip install '.[fuzz]'", file=sys.stderr)  # noqa: T201
        return 2
    with atheris.instrument_imports(include=list(FUZZED_PACKAGES)):
        loaded = load(name)
    seeds = corpus / "seeds"
    seeds.mkdir()
    for number, seed in enumerate(loaded.seeds):
        (seeds / str(number)).write_bytes(seed)
    options = {
        "max_total_time": seconds,
        "max_len": max(MAX_LENGTH_BYTES, *map(len, loaded.seeds)),
        "timeout": HARD_LIMIT_S,
        "rss_limit_mb": 2048,
        "artifact_prefix": f"{corpus}/",
        "print_final_stats": 1,
    }
    words = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *words, str(seeds)], checked(loaded.target, HANG_CPU_S))
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
