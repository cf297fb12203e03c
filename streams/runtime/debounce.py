"""Gathers what is told one by one within a short window and passes it on together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Debouncer(Generic[Item]):
    """Passes items on in batches, in order, one batch at a time.

    `flush` must not raise: what it cannot do it logs, and the reconciler does it later.
    """

    def __init__(self, window_s: float, flush: Callable[[list[Item]], Awaitable[None]]) -> None:
        self._window_s = window_s
        self._flush = flush
        self._items: list[Item] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, items: Iterable[Item]) -> None:
        """Take items; they are passed on when the window closes."""
        self._items.extend(items)
        if self._items and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on(), context=Context())  # a batch is of many tenants

    async def aclose(self) -> None:
        """Pass on what is left without waiting for the window."""
        self._window_s = 0.0
        if self._task is not None:
            await self._task

    async def _pass_on(self) -> None:
        while self._items:
            await asyncio.sleep(self._window_s)
            items, self._items = self._items, []
            await self._flush(items)
