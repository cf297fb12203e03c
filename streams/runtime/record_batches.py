"""Appends records to the open batch of their partition: one future for a batch, not one for each record.

aiokafka's own `send` makes a future, and passes through four coroutines, for every record.
"""

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import ProducerClosed  # type: ignore[import-untyped]  # ships no types

MAX_BATCH_BYTES: Final = 64 << 10
"""Size at which a batch is full; far below what brokers take, so that only a record can be too large."""


def append(
    producer: AIOKafkaProducer,
    place: TopicPartition,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
) -> asyncio.Future[Any]:
    """Add a record to the last batch of its partition; return the batch's future, shared by its records.

    It never waits: behind a full batch a new one begins, sent after it. A caller that may be cancelled
    awaits the future shielded. The producer must know the topic already.

    Raises:
        ProducerClosed: The producer takes no more records.
    """
    accumulator: Any = producer._message_accumulator  # noqa: SLF001  # `send_batch` takes whole batches only
    if accumulator._closed or accumulator._exception is not None:  # noqa: SLF001
        raise ProducerClosed
    waiting = accumulator._batches.get(place)  # noqa: SLF001
    if waiting and _is_taken(waiting[-1], key, value, headers):
        batch = waiting[-1]
    else:
        batch = accumulator._append_batch(accumulator.create_builder(), place)  # noqa: SLF001
        batch.future.add_done_callback(_note_seen)
        _is_taken(batch, key, value, headers)  # the first record of a batch may have any size
    delivered: asyncio.Future[Any] = batch.future
    return delivered


async def send_at_once(producer: AIOKafkaProducer) -> None:
    """Send the batches that linger, and return once every batch begun before was delivered or failed."""
    await producer._message_accumulator.flush_for_commit()  # noqa: SLF001  # `flush` would let them linger


def _is_taken(batch: Any, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> bool:
    """Add the record to the batch; False when it is full, or was sent once and is to be sent again."""
    taken = batch._builder.append(timestamp=None, key=key, value=value, headers=headers)  # noqa: SLF001
    return taken is not None


def _note_seen(delivered: asyncio.Future[Any]) -> None:
    """Let asyncio not complain of a failure for which nobody waits any more."""
    if not delivered.cancelled():
        delivered.exception()
