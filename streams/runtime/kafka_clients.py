"""Start and stop the clients of aiokafka, in tasks that may be cancelled at any moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """Start a consumer or an admin client, and stop it at the end, whatever happens.

    Raises:
        KafkaError, OSError: It could not start, or what was done with it failed.
    """
    try:
        await client.start()
        yield client
    finally:
        with suppress(KafkaError, OSError):  # what was asked of it has been answered
            await stop_client(client)


async def stop_client(client: Any) -> None:
    """Stop a client; a cancellation that comes meanwhile is raised once it has stopped, and no other.

    aiokafka 0.14 keeps it to itself (`Fetcher.close`, `AIOKafkaClient.close`): a task that reads again and
    again would go on, and a stop of the service that waits for the task would wait for ever. The cancellation
    of its own tasks it lets through, past the closing of its connections.
    """
    task = asyncio.current_task()
    asked = task.cancelling() if task else 0
    try:
        await (client.close() if hasattr(client, "close") else client.stop())
    except asyncio.CancelledError:
        await (client._client if hasattr(client, "_client") else client.client).close()  # noqa: SLF001
    if task and task.cancelling() > asked:
        raise asyncio.CancelledError
