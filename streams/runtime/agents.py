"""Attach a handler to a topic: one actor per partition, with a bounded window of records in progress."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import faust
from faust import Stream
from faust.types import EventT, StreamT, TopicT
from pydantic import BaseModel

from schemas.topics import Topic
from streams.runtime.consumer import patched
from streams.runtime.guard import Contract, Guard, Handle, Idle
from streams.runtime.message import Delivery
from streams.runtime.producer import headers_of
from streams.runtime.tables import partitions_of
from streams.runtime.window import Window

_LOG_APPEND_TIME: Final = 1

Command = TypeVar("Command", bound=BaseModel)

_AT_WORK: Final = WeakKeyDictionary[faust.App, set[asyncio.Task[Any]]]()
"""The actors of each app and the tasks that execute its records."""


def attach(
    app: faust.App,
    guard: Guard,
    topic: Topic,
    name: str,
    contract: Contract[Command],
    handle: Handle[Command],
    is_idle: Idle[Command] | None = None,
) -> None:
    """Attach an agent that passes every record of the topic through the guard to the handler.

    Partitions are handled side by side, and so are the records of one partition that have different keys;
    records of one key are handled in their order. A record whose handling is cut short by a stop or a
    rebalance is not acknowledged and comes again, with what was handled behind it. One of which `is_idle`
    tells that nothing is to be done is settled without a task of its own.
    """

    async def run(stream: StreamT[Any]) -> None:
        tasks, actor = _AT_WORK.setdefault(app, set()), asyncio.current_task()
        if actor is None:
            raise RuntimeError("an actor runs in a task")
        tasks.add(actor)
        consumer = patched(app.consumer)
        window = Window(consumer.acknowledge, consumer.abandon, tasks)
        try:
            async for first in cast("Stream[bytes]", stream).noack().events():
                for event in buffered(app, stream, first):
                    entry, delivery = window.take(event), delivered(event)
                    command = await guard.admit(delivery, contract)
                    if command is None or (is_idle is not None and await guard.passes_over(command, is_idle)):
                        window.settle(entry)
                    else:
                        window.start(entry, partial(guard.carry_out, delivery, command, handle))
                    await window.wait_for_room()
        finally:
            tasks.discard(actor)
            await window.cut_short()

    run.__module__, run.__qualname__ = "veristream", name  # the agent's name in Faust's log lines
    app.agent(_records(app, topic), name=name, isolated_partitions=True)(run)


def _records(app: faust.App, topic: Topic) -> TopicT:
    """Return the topic whose records are taken as bytes."""
    return app.topic(
        topic,
        key_type=cast("Any", bytes),
        value_type=cast("Any", bytes),
        key_serializer="raw",
        value_serializer="raw",
        partitions=partitions_of(topic),
        allow_empty=True,
    )


def buffered(app: faust.App, stream: StreamT[Any], first: EventT[Any]) -> Iterator[EventT[Any]]:
    """Yield the event a stream gave and those that wait in its buffer.

    The stream itself lets the loop turn once for each event, so that no two records would begin at once.
    As the stream does, it passes over what was delivered before a rebalance: that comes again.
    """
    yield first
    queue = cast("Any", stream).channel.queue
    while not queue.empty():
        event = queue.get_nowait()
        current = event.message.generation_id == app.consumer_generation_id
        if current and app.flow_control.is_active():
            patched(app.consumer).take(event.message)
            cast("Any", stream)._set_current_event(event)  # noqa: SLF001  # what the tables ask for
            yield event


async def end_handlers(app: faust.App, within_s: float) -> int:
    """Cancel the running handlers of a stopped app and wait for them; return how many did not end.

    The next app gets the same records: beside a handler that still runs they would be executed twice.
    """
    app.flow_control.suspend()  # an actor that Faust starts in place of a cancelled one takes nothing
    left = set(_AT_WORK.get(app, ()))
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
