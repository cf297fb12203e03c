"""Control of the forker: the process that loads the models once and forks vision children."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from app.vision.jobs import PACKET_BYTES, Facts
from schemas.base import Frozen
from schemas.problems import EngineFailed, VeristreamError
from streams.runtime.child_processes import child_environment

START_TIMEOUT_S: Final = 120.0
"""Models load and warm in a few seconds; on a laden machine it can take many times as long."""
ANSWER_TIMEOUT_S: Final = 30.0
"""Forking and ending take milliseconds."""
_MESSAGE_BYTES: Final = 64 * 1024

_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A process that forks may have no other threads, and as many children as cores are the best throughput."""
_KEEPING_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}
"""What glibc's allocator comes to by itself in a busy process (mallopt(3)); a child of few jobs would give
memory back after each of them, and every page it takes again costs a fault. With half as much free memory at
the end of the heap every search for text gave 100 MB back and took them again: 22 ms of 117."""
_LARGE_PAGES: Final = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Ask the kernel for pages of 2 MB (glibc 2.35; ignored elsewhere): one search for text takes 560 faults
instead of 10,800, and a line is read in a tenth less of processor time."""

READY: Final = b"ready"
"""A child's first message."""


class CannotFork(VeristreamError):
    """This system cannot run vision children; the message says what they need."""


class ForkerRefused(VeristreamError):
    """The forker could not load its models; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child as the forker gave it."""

    pid: int
    link: socket.socket
    """Of packets, and non-blocking."""
    room: bytearray = field(default_factory=lambda: bytearray(PACKET_BYTES), repr=False)
    """Where its answers are received: fresh memory for each would cost more than the answer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    cause: str
    """`cpu`, `killed`, the name of another signal, or its exit status."""
    cpu_s: float


class Greeting(Frozen):
    """The forker's first message: ready, or why not."""

    refused: str = ""
    failed: str = ""
    facts: Facts | None = None


class Forker:
    """A running forker. It and all its children end with this process. Methods block; any thread may call."""

    def __init__(self, choice: str | None = None) -> None:
        """Start it; `choice` is the JSON of an `EngineChoice`, None for children without models.

        It loads them meanwhile: `wait_until_loaded` before the first `fork`.

        Raises:
            CannotFork: This system cannot run them.
        """
        self.facts: Facts | None = None
        self._choice = choice
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        if not hasattr(os, "memfd_create"):
            raise CannotFork(
                "images are decoded in processes that only Linux can confine; run veristream on Linux, "
                "on other systems in a container (docker compose up)"
            )
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "app.vision.fork_server", str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        self._control.settimeout(START_TIMEOUT_S)
        with suppress(OSError):  # one that ended at once does not greet either
            self._control.send((self._choice or "").encode() or b"null")

    def wait_until_loaded(self) -> None:
        """Return once its models are loaded and warm; `facts` tells of them.

        Raises:
            ForkerRefused: A model cannot be used; the message says how to fix it.
            EngineFailed: It broke while it warmed.
        """
        try:
            self.facts = self._greeted()
        except BaseException:
            self.close()
            raise

    def _greeted(self) -> Facts | None:
        try:
            greeting = Greeting.model_validate_json(self._control.recv(_MESSAGE_BYTES))
        except (OSError, ValidationError) as error:
            raise EngineFailed("the vision forker did not start") from error
        if greeting.refused:
            raise ForkerRefused(greeting.refused)
        if greeting.failed:
            raise EngineFailed(greeting.failed)
        self._control.settimeout(ANSWER_TIMEOUT_S)
        return greeting.facts

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def fork(self) -> Child:
        """Return a new child; a forker that ended is started again first.

        Raises:
            EngineFailed: None could be made.
        """
        with self._lock:
            if not self.alive:
                self.close()
                self._start()
                self.wait_until_loaded()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    child = Child(int(self._asked({"fork": 1}, theirs)["pid"]), ours)
                except EngineFailed:
                    ours.close()
                    raise
        return self._born(child)

    def _born(self, child: Child) -> Child:
        """Wait until a new child reports that it is confined."""
        child.link.settimeout(ANSWER_TIMEOUT_S)
        try:
            ready = child.link.recv(len(READY)) == READY
        except OSError:
            ready = False
        if not ready:
            raise EngineFailed(f"a vision child ended at once: {self.end(child).cause}")
        child.link.setblocking(False)
        return child

    def end(self, child: Child) -> Ended:
        """Kill a child unless it ended already, and return how it ended."""
        child.link.close()
        try:
            with self._lock:
                answer = self._asked({"end": child.pid})
        except EngineFailed:
            return Ended("unknown", 0.0)
        status = int(answer["status"])
        if not os.WIFSIGNALED(status):
            return Ended(f"exit {os.waitstatus_to_exitcode(status)}", float(answer["cpu_s"]))
        number = os.WTERMSIG(status)
        names = {signal.SIGXCPU: "cpu", signal.SIGKILL: "killed"}
        return Ended(names.get(signal.Signals(number), signal.Signals(number).name), float(answer["cpu_s"]))

    def close(self) -> None:
        """End it and all its children."""
        self.process.kill()
        self.process.wait()
        self._control.close()

    def _asked(self, question: Mapping[str, int], end: socket.socket | None = None) -> dict[str, Any]:
        packet = json.dumps(question).encode()
        try:
            if end is None:
                self._control.send(packet)
            else:
                socket.send_fds(self._control, [packet], [end.fileno()])
            answer: dict[str, Any] = json.loads(self._control.recv(_MESSAGE_BYTES))
        except (OSError, ValueError) as error:
            self.process.kill()  # its answers can no longer be matched; the next fork starts it again
            raise EngineFailed("the vision forker does not answer") from error
        return answer


def _environment() -> dict[str, str]:
    return {**child_environment(), **_ONE_THREAD, **_KEEPING_MEMORY, **_LARGE_PAGES}
