"""One writer per directory: a lock the kernel releases with the process that holds it."""

import fcntl
import os
from pathlib import Path

from app.adapters.files.private_files import make_private
from app.broker.errors import BrokerLocked


class DirectoryLock:
    """Locked from `acquire` to `release` or the death of the process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._fd: int | None = None

    def acquire(self) -> None:
        """Make the directory if need be and take its lock, or raise `BrokerLocked`, naming the owner."""
        make_private(self._directory)
        fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise BrokerLocked(self._directory, owner) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Let the next process in."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
