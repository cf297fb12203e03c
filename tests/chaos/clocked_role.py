"""`clocked_role.py FILE ROLE …`: `veristream ROLE …` with a clock that is FILE's seconds ahead."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

from app import wiring
from app.__main__ import main

ahead = Path(sys.argv.pop(1))
true_clock = wiring.now


def own_clock() -> datetime:
    """The moment by this process's clock; the file may change at any time."""
    return true_clock() + timedelta(seconds=float(ahead.read_text(encoding="ascii")))


if __name__ == "__main__":
    vars(wiring)["now"] = own_clock
    main()
