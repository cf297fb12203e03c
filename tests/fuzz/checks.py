"""What is asked of every fuzz target: no exception, and no input that takes long."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

HANG_CPU_S: Final = 1.0
"""CPU seconds one input may take; wall time would count the neighbours of a busy machine."""

TRIES: Final = 3
"""An input that takes long does so each time; what a virtual machine waits for counts as CPU time, too."""

TARGETS: Final = Path(__file__).parent / "targets"
"""Where the targets are."""


class Hang(Exception):
    """An input took too long."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A target and the inputs a search begins with."""

    target: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def load(name: str) -> Loaded:
    """Import a target; raises ImportError when there is none of this name."""
    module = import_module(f"tests.fuzz.targets.{name}")
    return Loaded(module.target, tuple(module.SEEDS))


def names() -> list[str]:
    """Return the names of all targets."""
    return sorted(path.stem for path in TARGETS.glob("*.py") if not path.stem.startswith("_"))


def checked(target: Callable[[bytes], None], limit_s: float) -> Callable[[bytes], None]:
    """Return the target, raising `Hang` after an input that takes more than `limit_s` of CPU time."""

    def run(data: bytes) -> None:
        for _ in range(TRIES):
            before = time.process_time()
            target(data)
            taken = time.process_time() - before
            if taken <= limit_s:
                return
        raise Hang(f"{taken:.2f} s of CPU time for {len(data)} bytes")

    return run
