"""Coalesce concurrent calls of one kind into requests that serve many of them."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from schemas.problems import StoreUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

SLOW_S: Final = 0.1
"""A request that takes longer no longer holds back the next one, in seconds."""


@dataclass(slots=True, eq=False)
class _Call(Generic[Item, Answer]):
    item: Item
    answer: "asyncio.Future[Answer]"


@dataclass(slots=True, eq=False)
class _Sender:
    """Sends what waits, request after request."""

    task: "asyncio.Task[None] | None" = None
    """A strong reference, for as long as it sends."""


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
        self._senders: set[_Sender] = set()
        self._slow: set[_Sender] = set()
        """Those whose requests take too long to be waited for."""

    async def __call__(self, item: Item) -> Answer:
        """Return the item's answer, or raise what `run` raised for it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(item, answer))
        self._send_soon()
        return await answer

    def _send_soon(self) -> None:
        """Begin to send what waits, in the next turn of the loop: calls made in this one are part of it."""
        if len(self._senders) < self._at_once and self._waiting:
            sender = _Sender()
            self._senders.add(sender)
            sender.task = asyncio.create_task(self._send(sender))

    async def _send(self, own: _Sender) -> None:
        try:
            while self._waiting and own in self._senders:
                calls = self._take()
                self._send_soon()  # what does not fit beside them
                slow = asyncio.get_running_loop().call_later(SLOW_S, self._pass_over, own)
                try:
                    await self._settle(calls)
                finally:
                    slow.cancel()
        finally:
            self._senders.discard(own)
            self._slow.discard(own)

    def _pass_over(self, sender: _Sender) -> None:
        if sender in self._senders:
            self._senders.discard(sender)
            self._slow.add(sender)
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

    async def _settle(self, calls: Sequence[_Call[Item, Answer]]) -> None:
        if not calls:
            return
        request = asyncio.ensure_future(self._run([call.item for call in calls]))
        await asyncio.wait([request])
        error = request.exception()
        if isinstance(error, StoreUnavailable) and len(calls) > 1:
            await asyncio.gather(*(self._settle([call]) for call in calls))
            return
        answers = itertools.repeat(None) if error is not None else request.result()
        for call, answer in zip(calls, answers, strict=False):
            if call.answer.done():
                continue
            if error is not None:
                call.answer.set_exception(error)
            else:
                call.answer.set_result(cast("Answer", answer))
