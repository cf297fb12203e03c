"""Prints how each benchmark is started: the `--help` of all, in one process that imports once."""

import runpy
import sys
import warnings
from typing import Final

NAMES: Final = (
    "backtests",
    "backup",
    "own_past",
    "page_loads",
    "page_traffic",
    "policy_rules",
    "profiles",
    "removal",
    "removal_beside_decisions",
    "sandbox",
    "second_worker",
    "soak",
    "transactions",
    "year",
)


def print_help(name: str) -> int:
    """Run a benchmark with `--help`; its exit status."""
    sys.argv = [f"python -m tests.bench.{name}", "--help"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # another one has imported it
            runpy.run_module(f"tests.bench.{name}", run_name="__main__")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 1


def main() -> int:
    """Print the help of all; 1 if one has none."""
    return max(print_help(name) for name in NAMES)


if __name__ == "__main__":
    sys.exit(main())
