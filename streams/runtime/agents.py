"""Attaches a handler to a topic: one actor per partition, one record at a time, acknowledged once settled."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import faust
from faust import Stream
from faust.types import EventT, StreamT
from pydantic import BaseModel

from schemas.topics import Topic
from streams.runtime.consumer import mended
from streams.runtime.delivery import Delivery
from streams.runtime.guard import Contract, Guard, Handle
from streams.runtime.tables import partitions_of
from streams.runtime.writer import headers_of

_LOG_APPEND_TIME: Final = 1

Wish = TypeVar("Wish", bound=BaseModel)

_HANDLING: Final = WeakKeyDictionary[faust.App, set[asyncio.Task[Any]]]()
"""The tasks of each app that have a record in work."""


def attach(
    app: faust.App, guard: Guard, topic: Topic, name: str, contract: Contract[Wish], handle: Handle[Wish]
) -> None:
    """Let an agent take every record of the topic through the guard to the handler.

    Partitions are handled side by side, the records of one partition in their order. A record whose
    handling is cut short by a stop or a rebalance is not acknowledged and comes again.
    """
    records = app.topic(
        topic,
        key_type=cast("Any", bytes),
        value_type=cast("Any", bytes),
        key_serializer="raw",
        value_serializer="raw",
        partitions=partitions_of(topic),
        allow_empty=True,
    )

    async def run(stream: StreamT[Any]) -> None:
        consumer = mended(app.consumer)
        async for event in cast("Stream[bytes]", stream).noack().events():
            settled = False
            try:
                with _handling(app):
                    await guard(delivered(event), contract, handle)
                settled = True
            finally:
                end = consumer.acknowledge if settled else consumer.abandon
                end(event.message)

    app.agent(records, name=name, isolated_partitions=True)(run)


@contextmanager
def _handling(app: faust.App) -> Iterator[None]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a record is handled in a task")
    tasks = _HANDLING.setdefault(app, set())
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


async def end_handlers(app: faust.App, within_s: float) -> int:
    """Cancel what a stopped app still has in work and wait until it ended; return how many did not.

    The next app is given the same records: beside a handler that was left over they would be done twice.
    """
    left = set(_HANDLING.get(app, ()))
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=within_s)
    return len(left)


def delivered(event: EventT[Any]) -> Delivery:
    """Return the record as it stands in the log."""
    message = cast("Any", event.message)
    return Delivery(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=headers_of(message.headers),
        appended_ms=round(message.timestamp * 1000) if message.timestamp_type == _LOG_APPEND_TIME else None,
    )
