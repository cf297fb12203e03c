"""Confine a vision child before it receives pixels: system calls, files and resource limits."""

import ctypes
import os
import resource
import signal
import time
from math import ceil
from pathlib import Path
from typing import Final

from app.vision import seccomp

MEMORY_BYTES: Final = 384 * 2**20
"""What a child may take of addresses beyond those it has after warming: reading a page takes up to 290 MiB of
them, for the models keep room for what they met, and a third of that of memory (S41)."""
FILES_MAX: Final = 16
"""Descriptors: its socket, its output, and those of one message."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
"""prctl(2)."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def enter(parent: int) -> None:
    """Limit this process for good: it dies with its parent, holds bounded memory, and opens nothing.

    Where the kernel has no system call filters only the limits hold.
    """
    end_with(parent)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # the kernel's first choice
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    for what, most in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES_MAX),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))
    seccomp.confine()


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however that ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def allow_cpu(seconds: int) -> None:
    """Limit this process to so many more seconds of processor time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time()) + seconds, hard))


def give_back_memory() -> None:
    """Give memory the allocator holds but does not use back to the kernel: malloc_trim(3), of glibc."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
