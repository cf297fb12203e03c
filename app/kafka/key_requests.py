"""Ask the actors of keys for features; replies are read from the first question on, for many never ask."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from typing_extensions import override

from app.kafka.request_reply import RequestReply
from schemas.keyed_features import ComputeFeatures, FeaturesComputed
from schemas.topics import Topic
from streams.transactions.keyed.asking import AskKey


class KeyRequests(AskKey):
    """Sends questions to the topic of keys; an async context."""

    def __init__(self, build: Callable[[], RequestReply]) -> None:
        self._build = build
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._opened: RequestReply | None = None

    async def __aenter__(self) -> Self:
        """Return itself; nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading replies."""
        await self._stack.aclose()

    @override
    async def __call__(self, command: ComputeFeatures, timeout_s: float, /) -> FeaturesComputed:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(self._build())
        topic = Topic.TRANSACTION_KEYS
        return await self._opened.request(topic, command.key, command, FeaturesComputed, timeout_s)
