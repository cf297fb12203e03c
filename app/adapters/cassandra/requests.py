"""Requests to Cassandra: so many under way at most, each settled on the event loop, once."""

import asyncio
import threading
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cassandra.protocol import PreparedQueryNotFound

from app.adapters.cassandra.driver import REQUEST_S, OperationTimedOut, ResultSet
from app.adapters.cassandra.pooled_connections import Page, PooledConnections
from schemas.problems import StoreUnavailable

IN_FLIGHT: Final = 512
"""Requests under way at once; later ones wait. Far below the 32,768 streams of a connection."""

WAIT_S: Final = 4.0
"""How long a request waits for its turn before the store counts as unavailable, in seconds."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that is under way."""

    query: Any
    profile: str
    after: bytes | None
    answer: "asyncio.Future[Page]"
    timer: asyncio.TimerHandle | None = None
    """None where the driver gives up by itself."""
    is_settled: bool = False


class Requests:
    """Sends bound statements and batches; used from one event loop."""

    def __init__(self, driver: Any, loop: asyncio.AbstractEventLoop, turns: asyncio.Semaphore) -> None:
        """`turns` is how many may be under way."""
        self.loop = loop
        self.turns = turns
        self._driver = driver
        self._connections = PooledConnections(driver)
        self._thread_id = threading.get_ident()

    async def ask(self, query: Any, profile: str, after: bytes | None = None, *, again: bool = False) -> Page:
        """Send once, or `again` after a first try: by the driver, which knows the way around a failed node.

        The turn ends when the request does, not when nobody waits for it any more.
        """
        await self._take_turn()
        asked = _Asked(query, profile, after, self.loop.create_future())
        is_sent = False
        try:
            if again or not self._send_directly(asked):
                self._send_by_driver(asked)
            is_sent = True
        finally:
            if not is_sent:
                self.turns.release()
        return await asked.answer

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S) if self.turns.locked() else nullcontext():
                await self.turns.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(f"more than {IN_FLIGHT} requests wait for Cassandra") from error

    def _send_directly(self, asked: _Asked) -> bool:
        answered = partial(self._on_outcome, asked)
        is_sent = self._connections.send(asked.query, asked.profile, asked.after, answered)
        if is_sent:
            asked.timer = self.loop.call_later(REQUEST_S, self._settle, asked, OperationTimedOut())
        return is_sent

    def _send_by_driver(self, asked: _Asked) -> None:
        options = {"execution_profile": asked.profile, "paging_state": asked.after}
        future = self._driver.execute_async(asked.query, **options)
        future.add_callbacks(
            callback=self._on_rows,
            callback_args=(future, asked),
            errback=lambda error: self._settle_soon(asked, error),
        )

    def _on_outcome(self, asked: _Asked, outcome: Page | BaseException) -> None:
        """Take what came: on the loop, or on a thread of the driver's, as does `_on_rows`."""
        if isinstance(outcome, PreparedQueryNotFound) and not asked.is_settled:
            self._send_by_driver(asked)  # the node forgot the statement, and did nothing
        else:
            self._settle_soon(asked, outcome)

    def _on_rows(self, rows: list[Any] | None, future: Any, asked: _Asked) -> None:
        page = Page(rows or [], ResultSet(future, rows).paging_state)
        future.clear_callbacks()  # they lead back to it: all of it would be left to the garbage collector
        self._settle_soon(asked, page)

    def _settle_soon(self, asked: _Asked, outcome: Page | BaseException) -> None:
        """Settle at once on the thread of the loop; on another have the loop do it."""
        if threading.get_ident() == self._thread_id:
            self._settle(asked, outcome)
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._settle, asked, outcome)

    def _settle(self, asked: _Asked, outcome: Page | BaseException) -> None:
        if asked.is_settled:
            return  # it was given up before the answer came
        asked.is_settled = True
        if asked.timer is not None:
            asked.timer.cancel()
        self.turns.release()
        if asked.answer.done():
            return  # the caller was cancelled
        if isinstance(outcome, BaseException):
            asked.answer.set_exception(outcome)
        else:
            asked.answer.set_result(outcome)
