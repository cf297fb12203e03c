"""The buffers of Faust's streams, filled without the coroutines of its conductor."""

from dataclasses import dataclass
from typing import Any, Self, cast

import faust
from faust.types import TP, AppT, Message


@dataclass(frozen=True, slots=True)
class StreamBuffer:
    """What waits for the agent of a partition."""

    app: AppT
    queue: Any

    def has_room(self) -> bool:
        """Return whether one more leaves it below where Faust stops to fetch the partition."""
        return bool(self.queue.qsize() < self.queue.pressure_high_size)

    def put(self, message: Message) -> None:
        """Add a record of bytes."""
        message.incref()
        event = faust.Event(self.app, message.key, message.value, message.headers, message)
        self.queue.force_put_nowait(event)

    @classmethod
    def of(cls, app: AppT, channel: Any) -> Self | None:
        """Return the buffer of a topic whose records are taken as bytes."""
        is_raw = channel.key_type is bytes and channel.value_type is bytes
        return cls(app, channel.queue) if is_raw else None


def buffer_of(app: AppT, tp: TP) -> StreamBuffer | None:
    """Return the buffer that nothing keeps the partition's records from; None when they have to wait.

    They wait during a rebalance, while too much is being sent, and while topics are subscribed to.
    """
    channels = _channels(app, tp)
    updated = cast("Any", app.topics)._tp_to_callback_lock.locked()  # noqa: SLF001  # has no accessor
    if len(channels) != 1 or updated or not takes_at_once(app, tp):
        return None
    return StreamBuffer.of(app, channels[0])


def takes_at_once(app: AppT, tp: TP) -> bool:
    """Return whether nothing keeps a record of the partition from its streams' buffers."""
    sent = app.producer.buffer
    if not app.flow_control.is_active() or sent.size > sent.max_messages:
        return False
    return not any(channel.queue.full() for channel in _channels(app, tp))


def _channels(app: AppT, tp: TP) -> list[Any]:
    return list(cast("Any", app.topics)._tp_index.get(tp, ()))  # noqa: SLF001  # has no accessor
