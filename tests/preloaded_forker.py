"""Vision forkers from one process that has loaded the models: a service of a test starts in no time.

Loading takes 2.5 s of a processor, and the tests start far more than a hundred services and workers. What
one gets is what it would have started: the product's own forker loop, in a process that forks confined
children and ends when the service does. Only the default models in its memory were loaded once for all
processes of a test run.
"""

import errno
import gc
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
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


RUN: Final = "PYTEST_XDIST_TESTRUNUID"
"""Tells the processes of a test run which run it is."""

ASK: Final = b"a forker, please"
STAY: Final = b"stay until this is closed"

ALONE_S: Final = 3.0
"""How long it stays while nobody asks it to."""

_staying: list[socket.socket] = []
"""What makes the forker of the run stay for this process."""
_started: list[subprocess.Popen[bytes]] = []


def open_preloaded_forker() -> str:
    """Return the name of the socket of the run's forker, which stays as long as this process does.

    The first process of a run that asks starts it.
    """
    name = f"veristream-preloaded-forker-{os.environ.get(RUN, os.getpid())}"
    if select.select(_staying, [], [], 0)[0]:
        _staying.pop().close()  # it ended
    while not _staying:
        try:
            _staying.append(_ask_to_stay(name))
        except ConnectionRefusedError:
            _start(name)
    return name


def _ask_to_stay(name: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.connect(f"\0{name}")  # in the abstract name space: no file is left behind
        link.send(STAY)
    except BaseException:
        link.close()
        raise
    return link


def _start(name: str) -> None:
    """Start the forker, unless another process does at the same time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        try:
            listening.bind(f"\0{name}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return
            raise
        listening.listen(QUEUED)
        _started.append(
            subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "tests.preloaded_forker", str(listening.fileno())],
                pass_fds=(listening.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=forker._environment(),
                start_new_session=True,
            )
        )


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
            socket.send_fds(link, [ASK], pass_fds)
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
    """Load the default models; then fork a forker for each who asks, while a process of the run stays."""
    greeting, engines = fork_server._load(EngineChoice(workers=1, waiting=1).model_dump_json().encode())
    gc.collect()
    gc.freeze()  # each forked one collects, and would look through all of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need not be waited for
    listening = socket.socket(fileno=descriptor)
    staying: list[socket.socket] = []
    while ready := select.select([listening, *staying], [], [], None if staying else ALONE_S)[0]:
        for link in ready:
            if link is not listening:
                staying.remove(link)
                link.close()
                continue
            asking, _ = listening.accept()
            said, descriptors, _, _ = socket.recv_fds(asking, 64, 1)
            if said == STAY:
                staying.append(asking)
                continue
            with asking:
                for control in descriptors:
                    _fork(control, asking, [listening, *staying], greeting, engines)


def _fork(
    control: int, asking: socket.socket, own: Sequence[socket.socket], greeting: Greeting, engines: Loaded
) -> None:
    """Fork a forker with this control socket, and hand who asked for it its process."""
    pid = os.fork()
    if pid == 0:
        for one in (asking, *own):
            one.close()
        _live(control, greeting, engines)
    os.close(control)
    pidfd = os.pidfd_open(pid)
    with suppress(ConnectionError):  # who asked was killed meanwhile
        socket.send_fds(asking, [b"here"], [pidfd])
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
