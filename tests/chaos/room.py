"""Takes the room on the disk away from processes.

A full disk is played by a limit on the size of files: writing fails in the same calls, and the limit can
be put on one process from outside and taken off again, without being root.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_room(*processes: int, limit: int = 0) -> Iterator[None]:
    """Let these processes (0: this one) write no file beyond the limit, for the length of the context."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes}
    try:
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
