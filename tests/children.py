"""Vision children for tests: one forker without models a process of tests, started by who first needs it."""

import atexit
from functools import cache

from app.vision.forker import Forker


@cache
def shared_forker() -> Forker:
    """Return the forker; it ends with the process."""
    forker = Forker()
    atexit.register(forker.close)
    forker.wait_until_loaded()
    return forker
