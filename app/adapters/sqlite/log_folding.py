"""Fold the write-ahead log into the file beside the commits, and empty it when erased rows stand in it.

SQLite folds the log inside the commit that fills it: 4,000 pages and a sync were seen to hold up everybody
for 60 to 160 ms. A checkpoint of the passive kind waits for nobody and nobody waits for it
(https://www.sqlite.org/wal.html, 2.1 and 3.2); the next commit after a complete one begins the log anew. One
that takes long is never complete under load, so what was committed meanwhile is folded right afterwards.
"""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

FOLD_COMMITS: Final = 64
"""The log is folded after so many commits: a page that is changed often is written once for all of them."""

FOLD_PAUSE_S: Final = 0.5
"""At least between two times."""

FOLDS_MAX: Final = 5
"""How often the log is folded at one time: each takes what was committed during the one before, which is ever
less."""

EMPTY_TIMEOUT_MS: Final = 200
"""How long emptying the log waits for readers; the next checkpoint comes anyway."""


class LogFolder:
    """Folds the log of a database after commits; its thread begins when there is something to do."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._commits = 0
        self._folding = threading.Lock()
        self._due = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def note_commit(self) -> None:
        """Count a commit; only one thread may call it."""
        self._commits += 1
        if self._commits >= FOLD_COMMITS:
            self._commits = 0
            self._due.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-folder", daemon=True)
                self._thread.start()

    def empty(self) -> None:
        """Fold the log and empty it, unless somebody is reading just now."""
        self._checkpoint("TRUNCATE", 1)

    def close(self) -> None:
        """Return when nothing is folded any more; called after the last commit."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            if not self._closing.is_set():
                self._checkpoint("PASSIVE", FOLDS_MAX)
                self._closing.wait(FOLD_PAUSE_S)

    def _checkpoint(self, mode: str, times: int) -> None:
        """Fold until nothing was committed meanwhile, so many times at most.

        An error, as of a full disk, is met by the commits too, and the next time tries again.
        """
        with self._folding, suppress(sqlite3.Error), closing(self._connect()) as own:
            own.execute(f"PRAGMA busy_timeout = {EMPTY_TIMEOUT_MS}")
            folded = 0
            for _ in range(times):
                before = folded
                _, _, folded = own.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
                if folded <= before:
                    break
