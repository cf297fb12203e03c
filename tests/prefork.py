"""Starts the service's processes by forking one that has imported everything, which is most of a start.

Each is a process of its own with its own memory, files and environment, and can be killed like any other.
"""

import asyncio
import faulthandler
import fcntl
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

from app.__main__ import main
from tests.preloaded_forker import VARIABLE, open_preloaded_forker, use_preloaded_forker

PRELOADED: Final = (
    "app.cli.main",
    "app.cli.roles",
    "app.composition.wiring",
    "app.kafka.diagnostics",
    "app.observability.logging",
    "streams.runtime.dead_letters",
    "app.doctor.checks",
    "app.doctor.invariants.check",
    "aiokafka.admin",
    "tests.prefork",
    "tests.broker.runner",
    "tests.chaos.faulty_worker",
    "tests.preload_end",
)

ALL_TASKS: Final = "these were all tasks"
"""The last line of what SIGUSR1 makes a process print."""

F_SETSIG: Final = 10
"""Of fcntl(2) on Linux: which signal tells that a file can be read."""

Run = Callable[[Sequence[str]], object]
"""What the process does with its arguments."""


class Forked:
    """A process with the manners of `asyncio.subprocess.Process`, as far as the tests need them."""

    def __init__(
        self, process: ForkServerProcess, stdout: asyncio.StreamReader, pipe: asyncio.BaseTransport
    ) -> None:
        assert process.pid is not None
        self.pid: int = process.pid
        self.stdout = stdout
        self._pipe = pipe
        self._process = process
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._ended.set()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode if self._ended.is_set() else None

    async def wait(self) -> int:
        """Return the exit status once it has ended; what it said and nobody read is gone then."""
        await self._ended.wait()
        self._pipe.close()
        return self._process.exitcode or 0

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it ended, and this loop has not heard of it yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it the hard way."""
        self.send_signal(signal.SIGKILL)


async def fork(
    run: Run, arguments: Sequence[str], environment: Mapping[str, str], stderr: Path, *, vision: bool = True
) -> Forked:
    """Start a process that runs this with the arguments, what it says on stderr appended to the file.

    Without vision its environment names no preloaded forker, and none is started for it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    receiver, sender = context.Pipe(duplex=False)
    known = {**environment, VARIABLE: open_preloaded_forker()} if vision else environment
    process = await asyncio.to_thread(_start, context, run, arguments, known, stderr, sender)
    sender.close()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(receiver.fileno()), "rb", buffering=0)
    receiver.close()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return Forked(process, reader, transport)


def _start(
    context: ForkServerContext,
    run: Run,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stderr: Path,
    sender: Connection,
) -> ForkServerProcess:
    process = context.Process(
        target=_live, args=(run, tuple(arguments), dict(environment), str(stderr), sender), daemon=True
    )
    process.start()
    return process


def _live(
    run: Run, arguments: Sequence[str], environment: Mapping[str, str], stderr: str, sender: Connection
) -> None:
    """Be the process: its own environment, output, arguments and dice; then run to the exit status."""
    _end_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    said = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(sender.fileno(), 1)
    os.dup2(said, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = ["veristream", *arguments]
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    signal.signal(signal.SIGUSR1, lambda *_: _print_tasks())
    random.seed()
    use_preloaded_forker()
    run(arguments)


def _end_with_parent() -> None:
    """Let the kernel kill this process when the one that started it ends, however that ends (fcntl(2))."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    read_end = parent.sentinel
    fcntl.fcntl(read_end, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(read_end, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():  # it ended before this was said
        os.kill(os.getpid(), signal.SIGKILL)


def _print_tasks() -> None:
    """Print what each task of the running event loop waits for, and that these are all."""
    with suppress(RuntimeError):  # there is no event loop
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)
    sys.stderr.write(f"{ALL_TASKS}\n")


def run_veristream(arguments: Sequence[str]) -> None:
    """Be `veristream <arguments>`."""
    del arguments  # they stand in sys.argv
    main()
