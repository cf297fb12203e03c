"""Background tasks that are restarted when they end unexpectedly, and that readiness checks."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import structlog

from streams.runtime.guard import trace

log = structlog.get_logger(__name__)

FIRST_PAUSE_S: Final = 0.1
"""Between the first unexpected end and the restart; every further pause is twice as long."""

LONGEST_PAUSE_S: Final = 30.0

STABLE_S: Final = 60.0
"""Work that ran so long before it ended is restarted after the first pause again."""

CANCEL_AGAIN_S: Final = 10.0
"""Work that has not ended so long after it was cancelled is cancelled again.

A cancellation that comes in the wrong moment is lost in `asyncio.wait_for` of Python 3.11 and in libraries.
"""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Makes the coroutine of one run; it is called again for every restart."""

_SUPERVISED: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet["BackgroundTask"]]()


async def sleep_aligned(every_s: float) -> None:
    """Sleep until a multiple of the interval by the machine's clock.

    Tasks that look for work each second then look at the same moment, for less processor time than waking
    the process for each of them: what it needs is in the processor's caches.
    """
    await asyncio.sleep(aligned_pause_s(asyncio.get_running_loop().time(), every_s))


def aligned_pause_s(now_s: float, every_s: float) -> float:
    """Return how long it is to a multiple of the interval, half an interval to one and a half."""
    passed_s = now_s % every_s
    return every_s - passed_s if passed_s <= every_s / 2 else 2 * every_s - passed_s


class BackgroundTask:
    """Run work until it is stopped, restarting it after a pause whenever it ends before that.

    An unexpected end is logged with its kind and place, never with the words of the error. Without work that
    is `needed` the process cannot answer: readiness is denied from its end to its restart.
    """

    def __init__(
        self,
        work: Work,
        name: str,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        longest_pause_s: float = LONGEST_PAUSE_S,
        cancel_again_s: float = CANCEL_AGAIN_S,
        needed: bool = False,
    ) -> None:
        self.name = name
        self.needed = needed
        self.running = False
        """False before the start, after the stop, and between an unexpected end and the restart."""
        self._work = work
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._cancel_again_s = cancel_again_s
        self._finishing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run in the running loop."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._supervise(), name=self.name)
        self.running = True
        _SUPERVISED.setdefault(loop, WeakSet()).add(self)

    async def stop(self) -> None:
        """Cancel the work and return when it has ended."""
        if self._task is not None:
            self._forget()
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def finish(self) -> None:
        """Wait until the work has ended on request; it is not started again."""
        if self._task is not None:
            self._forget()
            self._finishing.set()
            await self._task

    def _forget(self) -> None:
        _SUPERVISED[asyncio.get_running_loop()].discard(self)

    async def _supervise(self) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while not self._finishing.is_set():
            began = loop.time()
            error = await self._run_once()
            if error is not None or not self._finishing.is_set():
                ended = {} if error is None else trace(error)
                log.error("background.task_ended", task=self.name, failures=failures, **ended)
            failures = 0 if loop.time() - began > STABLE_S else failures
            pause_s = min(self._longest_pause_s, self._first_pause_s * 2 ** min(failures, 16))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._finishing.wait(), pause_s)
            failures += 1

    async def _run_once(self) -> BaseException | None:
        run = asyncio.create_task(self._work(), name=f"{self.name}-run")
        self.running = True
        try:
            await asyncio.wait({run})
        finally:
            self.running = False
            while not run.done():
                run.cancel()
                await asyncio.wait({run}, timeout=self._cancel_again_s)
        return None if run.cancelled() else run.exception()


async def probe_background_tasks() -> str | None:
    """Return which needed tasks of the running loop have ended and wait for their restart, or None."""
    tasks = _SUPERVISED.get(asyncio.get_running_loop(), ())
    ended = sorted(task.name for task in tasks if task.needed and not task.running)
    return f"ended unexpectedly and is about to be restarted: {', '.join(ended)}" if ended else None
