"""Background tasks of the broker: retention of segments and compaction."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final

import structlog

from app.broker.compaction import CompactionTask, Rewritten, compact
from app.broker.flusher import Flusher
from app.broker.log import PartitionLog
from app.broker.segments import Segment
from app.broker.settings import BrokerSettings
from app.broker.topics import Topic, TopicDirectory
from streams.runtime.background import BackgroundTask

log = structlog.get_logger()

FIRST_SWEEP_S: Final = 1.0
"""Soon after the start, for the broker may have been down for long."""


class Upkeep:
    """Sweeps all topics every `upkeep_interval_s`; reading and writing of old segments happens in threads."""

    def __init__(
        self, settings: BrokerSettings, topics: TopicDirectory, flusher: Flusher, now_ms: Callable[[], int]
    ) -> None:
        self._interval_s = settings.upkeep_interval_s
        self._topics = topics
        self._flusher = flusher
        self._now_ms = now_ms
        self._stopping = asyncio.Event()
        self._stop_thread = threading.Event()
        self._task = BackgroundTask(self._run, "broker-upkeep")

    def start(self) -> None:
        """Begin to sweep in the running loop."""
        self._task.start()

    async def aclose(self) -> None:
        """Stop after the step in hand; a compaction is abandoned, which leaves the old segments."""
        self._stopping.set()
        self._stop_thread.set()
        await self._task.finish()

    async def _run(self) -> None:
        pause_s = min(FIRST_SWEEP_S, self._interval_s)
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            except TimeoutError:
                await self.sweep()
            pause_s = self._interval_s

    async def sweep(self) -> None:
        """Apply retention and compaction to every topic once; a disk error ends only that log's turn."""
        for topic in self._topics:
            async with topic.upkeep:
                for partition in topic.partitions:
                    if partition.closed or self._stopping.is_set():
                        break
                    try:
                        await self._keep(topic, partition)
                    except OSError as error:
                        log.warning("broker.upkeep_failed", topic=topic.name, error=str(error))

    async def _keep(self, topic: Topic, partition: PartitionLog) -> None:
        now_ms = self._now_ms()
        partition.sequences.forget(now_ms)
        if partition.roll_if_old(now_ms):
            self._flusher.mark(partition)
        retired = partition.retire(now_ms)
        if retired:
            self._flusher.mark(partition)
            await asyncio.to_thread(_unlink, retired)
            log.info("broker.segments_retired", topic=topic.name, segments=len(retired))
        if topic.policy.compacted:
            await self._compact(topic, partition, now_ms)
        partition.rest()

    async def _compact(self, topic: Topic, partition: PartitionLog, now_ms: int) -> None:
        closed = partition.closed_segments()
        dirty = sum(segment.size for segment in closed if segment.next_offset > partition.compact_to)
        if not dirty or dirty < topic.policy.dirty_ratio * sum(segment.size for segment in closed):
            return
        task = CompactionTask(
            sources=[segment.path for segment in closed],
            dirty_from=partition.compact_to,
            tombstone_ms=topic.policy.tombstone_ms,
            now_ms=now_ms,
            segment_bytes=topic.policy.limits.segment_bytes,
        )
        outcome = await asyncio.to_thread(compact, task, self._stop_thread)
        if outcome is None:
            return
        await self._install(partition, outcome.rewritten)
        partition.compact_to = outcome.compact_to
        log.info("broker.compacted", topic=topic.name, before_bytes=dirty, after_bytes=partition.size)

    async def _install(self, partition: PartitionLog, made: list[Rewritten]) -> None:
        """Swap oldest first; what cannot be swapped any more is discarded."""
        waiting = list(made)
        try:
            while waiting and not partition.closed:
                await asyncio.to_thread(waiting[0].take_name)
                rewritten = waiting.pop(0)
                if partition.swap(rewritten.sources, rewritten.segment):
                    await asyncio.to_thread(rewritten.remove_sources)
                else:
                    rewritten.segment.close()
        finally:
            for rewritten in waiting:
                rewritten.discard()


def _unlink(segments: list[Segment]) -> None:
    for segment in segments:
        segment.close()
        segment.unseal()
        segment.path.unlink(missing_ok=True)
