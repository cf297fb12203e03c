"""Attaches a handler to a topic: one actor per partition, one record at a time, acknowledged once settled."""

from typing import Any, Final, TypeVar, cast

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
                await guard(delivered(event), contract, handle)
                settled = True
            finally:
                end = consumer.acknowledge if settled else consumer.abandon
                end(event.message)

    app.agent(records, name=name, isolated_partitions=True)(run)


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
