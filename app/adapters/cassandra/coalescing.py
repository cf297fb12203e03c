"""Coalesce concurrent calls of one kind into requests that serve many of them."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar, cast

from schemas.problems import StoreUnavailable, VeristreamError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

SLOW_S: Final = 0.1
"""A request that takes longer no longer holds back the next one, in seconds."""


@dataclass(slots=True, eq=False)
class _Call(Generic[Item, Answer]):
    item: Item
    answer: "asyncio.Future[Answer]"


class Coalescer(Generic[Item, Answer]):
    """Calls made while `at_once` requests are under way share the next one; a lone call is sent at once.

    So an answer is always that of a request sent after the call. When a request for several calls finds the
    store unavailable, each is made by itself: one unreachable partition fails no other's call.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int,
        at_once: int = 1,
        size_of: Callable[[Item], int] = lambda _: 1,
        group_of: Callable[[Item], Hashable] = lambda _: None,
    ) -> None:
        """`run` answers items of one group, in their order; `most` is what their sizes may add up to."""
        self._run = run
        self._most = most
        self._at_once = at_once
        self._size_of = size_of
        self._group_of = group_of
        self._waiting: list[_Call[Item, Answer]] = []
        self._is_due = False
        """Whether what waits is looked at in the next turn of the loop."""
        self._under_way: set[asyncio.Future[Sequence[Answer]]] = set()
        self._slow: set[asyncio.Future[Sequence[Answer]]] = set()
        """Those that take too long to be waited for."""

    def __call__(self, item: Item) -> "asyncio.Future[Answer]":
        """Return a future of the item's answer, or of what `run` raised for it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(item, answer))
        self._send_soon()
        return answer

    def _send_soon(self) -> None:
        """Send what waits in the next turn of the loop: calls made in this one are part of it."""
        if self._waiting and not self._is_due and len(self._under_way) < self._at_once:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        """Send what waits, as far as requests may be under way."""
        self._is_due = False
        while self._waiting and len(self._under_way) < self._at_once:
            calls = self._take()
            if calls:
                self._begin(calls)

    def _begin(self, calls: Sequence[_Call[Item, Answer]]) -> None:
        request = asyncio.ensure_future(self._run([call.item for call in calls]))
        self._under_way.add(request)
        slow = request.get_loop().call_later(SLOW_S, self._pass_over, request)
        request.add_done_callback(partial(self._end, calls, slow))

    def _pass_over(self, request: "asyncio.Future[Sequence[Answer]]") -> None:
        self._under_way.discard(request)
        self._slow.add(request)
        self._send_soon()

    def _end(
        self,
        calls: Sequence[_Call[Item, Answer]],
        slow: asyncio.TimerHandle,
        request: "asyncio.Future[Sequence[Answer]]",
    ) -> None:
        slow.cancel()
        self._under_way.discard(request)
        self._slow.discard(request)
        if request.cancelled():  # the loop is about to end
            for call in calls:
                call.answer.cancel()
        else:
            self._settle(calls, request)
            self._send_soon()

    def _take(self) -> list[_Call[Item, Answer]]:
        """Take the first call and those of its group that fit beside it; callers that left are forgotten."""
        taken, left, room = list[_Call[Item, Answer]](), list[_Call[Item, Answer]](), self._most
        for call in self._waiting:
            if call.answer.done():
                continue  # its caller was cancelled
            own = self._size_of(call.item)
            if taken and (own > room or self._group_of(call.item) != self._group_of(taken[0].item)):
                left.append(call)
            else:
                taken.append(call)
                room -= own
        self._waiting = left
        return taken

    def _settle(
        self, calls: Sequence[_Call[Item, Answer]], request: "asyncio.Future[Sequence[Answer]]"
    ) -> None:
        error = request.exception()
        if isinstance(error, StoreUnavailable) and len(calls) > 1:
            for call in calls:
                self._begin([call])
            return
        answers = itertools.repeat(None) if error is not None else request.result()
        for call, answer in zip(calls, answers, strict=False):
            if call.answer.done():
                continue
            if error is not None:
                call.answer.set_exception(error)
            else:
                call.answer.set_result(cast("Answer", answer))


async def run_in_thread(works: Sequence[Callable[[], Answer]]) -> Sequence[Answer | Exception]:
    """Do blocking work in one thread, and return the result of each, or its error of the system or a port.

    To wake a thread for each takes longer than to read a small file.
    """
    return await asyncio.to_thread(lambda: [_outcome(work) for work in works])


def _outcome(work: Callable[[], Answer]) -> Answer | Exception:
    try:
        return work()
    except (OSError, VeristreamError) as error:
        return error
