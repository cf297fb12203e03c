"""How large a run is and by which seed: small by default, scaled by the environment for long runs.

`pytest tests/chaos` runs every fault on the embedded engines, and on a real Kafka and Cassandra those that
say something else there (marked `on_engines`, or asking for `engines`). Larger runs:

    CHAOS_PROFILES=all pytest tests/chaos              # every fault on both profiles
    CHAOS_PROFILES=engines pytest tests/chaos          # every fault on the real engines only
    CHAOS_COMMANDS=1500 CHAOS_PROFILES=embedded pytest -n 0 tests/chaos -m "not engines"
    CHAOS_COMMANDS=1500 CHAOS_PROFILES=engines pytest -n 0 tests/chaos -m engines

Each of the last two sends more than 20,000 commands, one test after the other, so that the rate means
something. A run ends with a line for each profile: commands, decisions, how many were lost, decided twice,
audited twice or never, and how long it took. `CHAOS_SECONDS` makes faults last longer; `CHAOS_SEED` repeats
the dice of a run that failed, which said its seed. The full run of webhooks, its size in events:

    CHAOS_EVENTS=10000 CHAOS_KILLS=10 pytest -n 0 tests/chaos/test_webhooks.py
"""

import os
import random
import secrets


def commands(default: int) -> int:
    """Return how many commands a run sends: `CHAOS_COMMANDS`, or the default."""
    return int(os.environ.get("CHAOS_COMMANDS", default))


def seconds(default: float) -> float:
    """Return how long a fault lasts: `CHAOS_SECONDS`, or the default."""
    return float(os.environ.get("CHAOS_SECONDS", default))


def is_thorough() -> bool:
    """Return whether somebody asked for a profile, and so for all that can be done on it."""
    return os.environ.get("CHAOS_PROFILES", "") in {"all", "engines"}


def is_scaled() -> bool:
    """Return whether the runs are larger than they are by default."""
    return "CHAOS_COMMANDS" in os.environ or "CHAOS_EVENTS" in os.environ


def patience(seconds: float) -> float:
    """Return how long to wait for what takes so many seconds by default."""
    return seconds * max(1.0, commands(0) / 200)


def seeded(name: str) -> random.Random:
    """Return the dice of a run, its seed said aloud: `CHAOS_SEED`, or a fresh one."""
    seed = int(os.environ.get("CHAOS_SEED", secrets.randbits(32)))
    print(f"{name}: CHAOS_SEED={seed}")  # noqa: T201 - a failing run is repeated by its seed
    return random.Random(seed)


def events(default: int) -> int:
    """Return about how many decision events a run of webhooks makes: `CHAOS_EVENTS`, or the default."""
    return int(os.environ.get("CHAOS_EVENTS", default))


def kills(default: int) -> int:
    """Return how often a run kills its worker: `CHAOS_KILLS`, or the default."""
    return int(os.environ.get("CHAOS_KILLS", default))
