"""How large a run is and by which seed: small by default, scaled by the environment for long runs."""

import os
import random
import secrets


def commands(default: int) -> int:
    """Return how many commands a run sends: `CHAOS_COMMANDS`, or the default."""
    return int(os.environ.get("CHAOS_COMMANDS", default))


def seconds(default: float) -> float:
    """Return how long a fault lasts: `CHAOS_SECONDS`, or the default."""
    return float(os.environ.get("CHAOS_SECONDS", default))


def seeded(name: str) -> random.Random:
    """Return the dice of a run, its seed said aloud: `CHAOS_SEED`, or a fresh one."""
    seed = int(os.environ.get("CHAOS_SEED", secrets.randbits(32)))
    print(f"{name}: CHAOS_SEED={seed}")  # noqa: T201 - a failing run is repeated by its seed
    return random.Random(seed)
