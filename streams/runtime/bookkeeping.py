"""Disable Faust's unused monitoring, each part with its reason.

The service measures its lag, its records and its stalls itself (`supervisor`, `guard`).
"""

from typing import Any

from faust.sensors.base import Sensor, SensorDelegate
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, AppT
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
