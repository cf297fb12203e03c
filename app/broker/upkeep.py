"""Background house-keeping: retention now and then, compaction of tables' topics."""

import asyncio
from collections.abc import Callable

import structlog

from app.broker.log import PartitionLog
from app.broker.segments import Segment
from app.broker.settings import BrokerSettings
from app.broker.topics import Topic, TopicDirectory

log = structlog.get_logger()


class Upkeep:
    """Sweeps all topics every `upkeep_interval_s`; file work happens in threads."""

    def __init__(self, settings: BrokerSettings, topics: TopicDirectory, now_ms: Callable[[], int]) -> None:
        self._interval_s = settings.upkeep_interval_s
        self._topics = topics
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep in the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="broker-upkeep")

    async def aclose(self) -> None:
        """Stop; a sweep in progress is finished first by the threads it uses."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.sweep()

    async def sweep(self) -> None:
        """Apply retention and compaction to every topic once."""
        for topic in self._topics:
            async with topic.upkeep:
                for partition in topic.partitions:
                    await self._keep(topic, partition)

    async def _keep(self, topic: Topic, partition: PartitionLog) -> None:
        if partition.closed:
            return
        partition.sequences.forget(self._now_ms())
        try:
            retired = partition.retire(self._now_ms())
        except OSError as error:
            log.warning("broker.retention_failed", topic=topic.name, error=str(error))
            return
        if retired:
            await asyncio.to_thread(_unlink, retired)
            log.info("broker.segments_retired", topic=topic.name, segments=len(retired))


def _unlink(segments: list[Segment]) -> None:
    for segment in segments:
        segment.close()
        segment.unseal()
        segment.path.unlink(missing_ok=True)
