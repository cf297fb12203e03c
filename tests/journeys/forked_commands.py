"""Runs the `veristream` of a shell script in processes forked from one that has imported everything.

In its place stands a small program that hands its words, folder, environment and streams to the test, which
forks the process, passes signals on to it and hands its exit status back.
"""

import ast
import asyncio
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.prefork import PRELOADED, run_veristream
from tests.preloaded_forker import use_preloaded_forker

LONGEST: Final = 1 << 16
"""Bytes of a command's words, folder and environment."""

WAITING: Final = 16
"""Commands that may wait to be forked; a pipe in a block has a few."""

PROGRAM: Final = """#!{interpreter} -IS
import os, signal, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
    link.connect({address!r})
    said = repr((sys.argv[1:], os.getcwd(), dict(os.environ)))
    socket.send_fds(link, [said.encode()], [0, 1, 2])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: link.send(bytes([number])))
    ended = link.recv(1)
os._exit(ended[0] if ended else 1)
"""
"""What stands in the command's place; it imports nothing that takes time."""


@asynccontextmanager
async def forked_commands(program: Path) -> AsyncIterator[None]:
    """Write the program and serve it; what it started and still runs at the end is killed."""
    address = f"\0veristream-commands-{uuid4().hex}"  # in the abstract name space: no file is left behind
    _write(program, address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen(WAITING)
        listening.setblocking(False)
        serving = asyncio.create_task(_serve(listening))
        try:
            yield
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


def _write(program: Path, address: str) -> None:
    program.write_text(PROGRAM.format(interpreter=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o700)


async def _serve(listening: socket.socket) -> None:
    async with asyncio.TaskGroup() as commands:
        while True:
            link, _ = await asyncio.get_running_loop().sock_accept(listening)
            commands.create_task(_run(link))


async def _run(link: socket.socket) -> None:
    """Run one command to its end, or until who asked for it has gone."""
    with link:
        await _until_readable(link.fileno())
        said, streams, _, _ = socket.recv_fds(link, LONGEST, 3)
        if not said:  # the program was killed before it said anything
            return
        process = await asyncio.to_thread(_start, said, streams)
        ending = asyncio.create_task(_until_readable(process.sentinel))
        passing = asyncio.create_task(_pass_signals(link, process))
        try:
            await asyncio.wait({ending, passing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            passing.cancel()
            if process.is_alive():
                process.kill()
            process.join()
        with suppress(OSError):  # the program was killed
            link.send(bytes([_status(process)]))


async def _until_readable(descriptor: int) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


async def _pass_signals(link: socket.socket, process: ForkServerProcess) -> None:
    while number := await asyncio.get_running_loop().sock_recv(link, 1):
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, number[0])


def _status(process: ForkServerProcess) -> int:
    """Return the exit status as a shell says it."""
    code = process.exitcode or 0
    return code if code >= 0 else 128 - code


def _start(said: bytes, streams: Sequence[int]) -> ForkServerProcess:
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    words, folder, environment = ast.literal_eval(said.decode())
    ends = [Connection(stream) for stream in streams]
    process = context.Process(target=_live, args=(words, folder, environment, ends), daemon=True)
    process.start()
    for end in ends:
        end.close()
    return process


def _live(
    words: Sequence[str], folder: str, environment: Mapping[str, str], ends: Sequence[Connection]
) -> None:
    """Be the command, with its words, folder, environment and streams."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = ["veristream", *words]
    random.seed()
    use_preloaded_forker()
    run_veristream(words)
