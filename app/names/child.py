"""One run of the names process: its start, requests side by side over a socket pair, and its end."""

import asyncio
import os
import resource
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from app.names import messages
from app.names.messages import LENGTH_BYTES, MESSAGE_BYTES, Answer, Message, Ping
from streams.lists.listed_names import NamesUnavailable
from streams.runtime.child_processes import child_environment, cpu_s

MODULE: Final = "app.names.server"

START_S: Final = 60.0
"""It starts within a second; on a laden machine it can take many times as long."""

PATIENCE_S: Final = 1.0
"""How long a question waits for a process that does no work; half a decision's deadline (G134)."""

_WAITS: Final = 4
"""Waits within that time: one alone would also end when this process, or its machine, had been stopped."""

LOOK_EVERY_S: Final = 1.0

STUCK_LOOKS: Final = 5
"""So many looks after another without any work, while a request waits, and the process is stuck."""

HANG_CPU_S: Final = 10.0
"""A request that costs more processor time never ends: the dearest takes a few seconds."""

_ANSWERED: Final = msgspec.msgpack.Decoder(Answer)

_BROKEN: Final = (OSError, EOFError, msgspec.MsgspecError, ValueError)
"""What receiving may raise: the process ended, or what it sent is no answer."""


class _Waiting(NamedTuple):
    """A request that has no answer yet."""

    answer: "asyncio.Future[Answer]"
    """Cancelled when there will be none."""
    cpu_s: float
    """What the process had used when it was asked."""


class Child:
    """A names process. Every request is answered by its number, in any order."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid: Final = process.pid
        self.late = False
        """It let a question wait in vain, and has answered nothing since."""
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._unsent: list[bytes] = []
        self._ended = asyncio.Event()
        self._receiving = asyncio.create_task(self._receive(), name="names-answers")

    @classmethod
    async def start(cls) -> Self:
        """Start a process and return it once it answers.

        Raises:
            NamesUnavailable: It does not.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", MODULE, str(theirs.fileno()), str(os.getpid())),
                    pass_fds=(theirs.fileno(),),
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    env=child_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise NamesUnavailable("the names process cannot be started") from error
        child = cls(process, *await asyncio.open_connection(sock=ours))
        async with AsyncExitStack() as unless_answered:
            unless_answered.push_async_callback(child.end)
            await child._greeted()
            unless_answered.pop_all()
        return child

    async def _greeted(self) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self.ask(Ping)
        except TimeoutError:
            raise NamesUnavailable("the names process does not answer") from None

    async def ask(self, request: Callable[[int], Message]) -> Answer:
        """Return the answer to what a number makes a request, however long it takes.

        Raises:
            NamesUnavailable: There will be none: the process ended.
            TooLong: The request is.
        """
        answer = self._send(request)
        await asyncio.wait({answer})
        return _of(answer)

    async def question(self, request: Callable[[int], Message]) -> Answer:
        """Return the answer as `ask` does, but wait only as long as the process works.

        Raises:
            NamesUnavailable: It has done nothing for `PATIENCE_S`, for this question or an earlier one.
            TooLong: The request is.
        """
        if self.late:
            raise NamesUnavailable("the names process does not answer")
        answer, used_s, idle = self._send(request), self.cpu_s, 0
        while not (await asyncio.wait({answer}, timeout=PATIENCE_S / _WAITS))[0]:
            before_s, used_s = used_s, self.cpu_s
            idle = idle + 1 if used_s <= before_s else 0
            if idle >= _WAITS:
                self.late = True
                raise NamesUnavailable("the names process does not answer")
        return _of(answer)

    def post(self, message: Message) -> None:
        """Send what needs no answer."""
        self._write(messages.framed(message))

    async def watch(self) -> str:
        """Return why the process has to be replaced, as soon as it has: `ended` or `stuck`."""
        idle, used_s = 0, self.cpu_s
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), LOOK_EVERY_S)
                return "ended"
            before_s, used_s = used_s, self.cpu_s
            idle = idle + 1 if self._waiting and used_s <= before_s else 0
            if idle >= STUCK_LOOKS or any(used_s - one.cpu_s > HANG_CPU_S for one in self._waiting.values()):
                return "stuck"

    async def end(self) -> None:
        """Kill the process, and return when it has ended; requests have no answer then."""
        self._receiving.cancel()
        await asyncio.wait({self._receiving})
        self._writer.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    @property
    def cpu_s(self) -> float:
        """The processor seconds it has used."""
        return cpu_s(self.pid)

    @property
    def memory_bytes(self) -> int:
        """The memory it has, as far as it is resident; 0 when it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):
            return 0
        return pages * resource.getpagesize()

    def _send(self, request: Callable[[int], Message]) -> "asyncio.Future[Answer]":
        if self._ended.is_set():
            raise NamesUnavailable("the names process ended")
        message = request(next(self._numbers))
        packed = messages.framed(message)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[message.number] = _Waiting(answer, self.cpu_s)
        self._write(packed)
        return answer

    def _write(self, packed: bytes) -> None:
        """Send in one write what is asked at one moment."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(packed)

    def _flush(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"".join(self._unsent))
        self._unsent.clear()

    async def _receive(self) -> None:
        try:
            with suppress(*_BROKEN):
                while True:
                    length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
                    if length > MESSAGE_BYTES:
                        return
                    self._take(_ANSWERED.decode(await self._reader.readexactly(length)))
        finally:
            self._ended.set()
            for one in self._waiting.values():
                one.answer.cancel()

    def _take(self, answer: Answer) -> None:
        self.late = False
        waiting = self._waiting.pop(answer.number, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(answer)


def _of(answer: "asyncio.Future[Answer]") -> Answer:
    if answer.cancelled():
        raise NamesUnavailable("the names process ended")
    return answer.result()
