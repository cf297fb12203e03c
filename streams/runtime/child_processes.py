"""What every child process of the service is started with, and what it has used."""

import os
import sys
import time
from typing import Final

_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONHOME")
"""Variables a child gets; settings hold secrets, and a child must not know them."""

_CPU_CLOCK: Final = 2
"""CPUCLOCK_SCHED of Linux: what clock_getcpuclockid(3) makes of a process id."""


def child_environment() -> dict[str, str]:
    """Return the variables of a child, which imports what this process can."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed_on, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def cpu_s(pid: int) -> float:
    """Return the processor seconds a process has taken; 0 when it is not there any more."""
    try:
        return time.clock_gettime((~pid << 3) | _CPU_CLOCK)
    except OSError:
        return 0.0
