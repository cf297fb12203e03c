"""Do without what Faust does for every record and nobody needs, each part with its reason.

The service measures its lag, its records and its stalls itself (`supervisor`, `guard`), and fills the buffers
of the streams without the coroutines of Faust's conductor.
"""

from dataclasses import dataclass
from typing import Any, Self, cast

import faust
from faust.sensors.base import Sensor, SensorDelegate
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, AppT, Message
from faust.types.sensors import SensorT
from mode import Service
from typing_extensions import override


class NoMonitor(Sensor):
    """Replace Faust's monitor, which counts and times every event, send, commit and table access.

    It takes samples of itself every second, and keeps them where only Faust's web server would show them,
    which is off.
    """

    def on_tp_commit(self, tp_offsets: Any) -> None:
        """Note nothing: the consumer knows what it committed."""

    def track_tp_end_offset(self, tp: TP, offset: int) -> None:
        """Note nothing: the worker asks the broker for the ends of the log."""


class NoSensors(SensorDelegate):
    """Call no sensor: not even the empty ones of `NoMonitor`, seven times per record."""

    @override
    def add(self, sensor: SensorT) -> None:
        """Ignore the sensor."""

    @override
    def on_rebalance_start(self, app: AppT) -> dict[SensorT, Any]:
        """Return a state that is not empty: Faust warns of a missing one at every rebalance."""
        return {app.monitor: None}


class UnwatchedConsumer(driver.Consumer):
    """Faust's consumer without its search for stalled streams.

    That compares two clocks that have nothing to do with one another and so never finds any (streams.md,
    1.4), yet wakes the event loop once per partition and 1.25 seconds. `worker.Progress` finds them.
    """

    @override
    @Service.task
    async def _commit_livelock_detector(self) -> None:
        """Look for nothing."""


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
