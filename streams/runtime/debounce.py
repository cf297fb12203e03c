"""Collect items within a short window and flush them in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import Context
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Debouncer(Generic[Item]):
    """Flush items in batches, in order, one batch at a time.

    `flush` must not raise: what it cannot do it logs, and the outbox relay does it later.
    """

    def __init__(self, window_s: float, flush: Callable[[list[Item]], Awaitable[None]]) -> None:
        self._window_s = window_s
        self._flush = flush
        self._items: list[Item] = []
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, items: Iterable[Item]) -> None:
        """Add items; they are flushed when the window closes."""
        self._items.extend(items)
        if self._items and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on(), context=Context())  # a batch is of many tenants

    async def aclose(self) -> None:
        """Flush what is left without waiting for the window."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _pass_on(self) -> None:
        while self._items:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._window_s):
                    await self._closing.wait()
            items, self._items = self._items, []
            await self._flush(items)
