"""Vision forkers from one process that has loaded the models: a service of a test starts in no time.

Loading takes 2.5 s of a processor, and the tests start far more than a hundred services and workers. What
one gets is what it would have started: the product's own forker loop, in a process that forks confined
children and ends when the service does. Only the default models in its memory were loaded once for all.
"""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, cast

from app.vision import fork_server, forker
from app.vision.engines import EngineChoice
from app.vision.forker import Greeting
from app.vision.serving import Loaded

VARIABLE: Final = "PRELOADED_FORKER"
"""Tells the processes of a fleet the name of the socket."""

QUEUED: Final = 64
"""Workers that may wait while the models load; a fleet starts a few at once."""


@cache
def open_preloaded_forker() -> str:
    """Start the forker of this process and return the name of its socket; it ends with this process."""
    name = f"veristream-preloaded-forker-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0{name}")  # in the abstract name space: no file is left behind
        listening.listen(QUEUED)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "tests.preloaded_forker", str(listening.fileno())],
            pass_fds=(listening.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=forker._environment(),
            start_new_session=True,
        )
    atexit.register(process.kill)
    return name


def use_preloaded_forker() -> None:
    """Let forkers of this process come from the preloaded one that the environment names."""
    if VARIABLE in os.environ:
        cast("Any", forker).subprocess = SimpleNamespace(Popen=PreloadedForker, DEVNULL=subprocess.DEVNULL)


class PreloadedForker:
    """A forker's process, with the manners of `subprocess.Popen` as far as `Forker` needs them."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int], **others: object) -> None:
        del others  # what the start of the preloaded one has settled
        assert command[1:3] == ["-m", "app.vision.fork_server"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.connect(f"\0{os.environ[VARIABLE]}")
            socket.send_fds(link, [b"a forker, please"], pass_fds)
            _, (self._pidfd,), _, _ = socket.recv_fds(link, 16, 1)

    def poll(self) -> int | None:
        """Return None while it lives."""
        return -signal.SIGKILL if select.select([self._pidfd], [], [], 0)[0] else None

    def kill(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self) -> int:
        """Return once it has ended."""
        select.select([self._pidfd], [], [])
        return -signal.SIGKILL


def main(descriptor: int) -> None:
    """Load the default models; then fork a forker for each who asks, until the test run's process ends."""
    greeting, engines = fork_server._load(EngineChoice(workers=1, waiting=1).model_dump_json().encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need not be waited for
    listening = socket.socket(fileno=descriptor)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        link, _ = listening.accept()
        with link:
            _, (control,), _, _ = socket.recv_fds(link, 16, 1)
            pid = os.fork()
            if pid == 0:
                listening.close()
                link.close()
                _live(control, greeting, engines)
            os.close(control)
            pidfd = os.pidfd_open(pid)
            socket.send_fds(link, [b"here"], [pidfd])
            os.close(pidfd)


def _live(control: int, greeting: Greeting, engines: Loaded) -> None:
    """Be a forker as any other, but for what is loaded already. Never returns."""
    genuine = fork_server._load

    def loaded(chosen: bytes) -> tuple[Greeting, Loaded]:
        if chosen == b"null":
            return Greeting(), Loaded()
        choice = EngineChoice.model_validate_json(chosen)
        return (greeting, engines) if (choice.faces, choice.liveness) == (None, None) else genuine(chosen)

    try:
        os.setsid()
        os.close(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        fork_server._load = loaded
        fork_server.main(control)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
