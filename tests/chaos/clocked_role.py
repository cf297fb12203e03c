"""A role like any other, with a clock that is some seconds ahead and a time zone of its own."""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from app.__main__ import main
from app.composition import front, stores, worker


def run(arguments: Sequence[str]) -> None:
    """Be `FILE ROLE …`: `veristream ROLE …` whose clock is FILE's seconds ahead, whenever they change."""
    file, *rest = arguments
    time.tzset()
    ahead = _ahead(stores.now, Path(file))
    for module in (stores, front, worker):
        vars(module)["now"] = ahead
    sys.argv = ["veristream", *rest]
    main()


def _ahead(true_clock: Callable[[], datetime], file: Path) -> Callable[[], datetime]:
    return lambda: true_clock() + timedelta(seconds=float(file.read_text(encoding="ascii")))
