"""Faust's Kafka consumer, patched: a rebalance skips no record, and only settled records are committed.

Stock faust-streaming 0.15.3 resumes its partitions before it seeks them, so a batch fetched before the
seek overwrites the position set by it, and the records between are committed unseen (upstream issue
596). It also leaves partitions without a commit where they were, and acknowledges what it cancels.

0.15.4 no longer notes a failed commit as done (upstream pull 692), and that alone would be worse here: the
offsets of that commit are forgotten all the same, so the next ones seem to follow a gap and nothing of the
partition is committed until it is assigned anew. With 0.15.3 the next commit covers the failed one; without
a next one the records come again and are recognised. Issues 596 and 606 are open in both.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, ClassVar, Final, cast

import structlog
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import ConsumerStoppedError, IllegalStateError  # type: ignore[import-untyped]  # ships no types
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage, Message
from faust.types.transports import ConsumerT, ProducerT
from mode import Service, ServiceT
from typing_extensions import override

from streams.runtime.bookkeeping import UnwatchedConsumer, buffer_of, takes_at_once
from streams.runtime.consumer_thread import PatchedThread
from streams.runtime.fetch_waits import PATIENT_WAIT_MS
from streams.runtime.record_batches import append, send_at_once

log = structlog.get_logger(__name__)

_POLL_S: Final = 0.2
_REST_S: Final = 1.0
_IDLE_S: Final = 0.05


class PatchedConsumer(UnwatchedConsumer):
    """Deliver a batch wholly before or wholly after a seek, and commit what was acknowledged."""

    _drainer: asyncio.Task[Any] | None = None
    _last_taken: int = 0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self._seek_lock = asyncio.Lock()
        self._seek_wanted = asyncio.Event()
        self._cut_short = False
        self._found = False
        self._settled = asyncio.Event()
        self._uncommitted = asyncio.Event()
        self._records_wait = asyncio.Event()
        self._abandoned: set[TP] = set()

    @override
    def _new_consumer_thread(self) -> PatchedThread:
        return PatchedThread(self, loop=self.loop, beacon=self.beacon)

    @property
    def patient_wait_ms(self) -> int:
        """How long the broker may hold a fetch that leaves no partition out."""
        return cast("PatchedTransport", self.transport).patient_wait_ms

    def begin_stop(self) -> None:
        """Let the thread that talks to the broker end, after a stop that was cut short before that.

        It would stay in the group, and hold the partitions given to it.
        """
        cast("PatchedThread", self._thread).begin_stop()

    def is_steady(self) -> bool:
        """Return whether records flow, without rebalance and recovery. For the consumer's thread."""
        return self.flow_active and not (self.app.rebalancing or self.app.in_recovery)

    def is_left_alone(self, tp: TP) -> bool:
        """Return whether no records of the partition are taken now: a changelog's outside of a recovery."""
        return self._is_changelog_tp(tp) and self.is_steady()

    def note_records(self) -> None:
        """Wake the drain because records wait to be taken. For the consumer's thread."""
        if not self._records_wait.is_set():
            self.loop.call_soon_threadsafe(self._records_wait.set)

    def last_taken(self) -> int:
        """Return how many records were taken last. For the consumer's thread."""
        return self._last_taken

    @override
    def resume_partitions(self, tps: Iterable[TP]) -> None:
        super().resume_partitions(tps)
        self._records_wait.set()

    def acknowledge(self, message: Message) -> None:
        """Mark the record's offset for commit: it was answered or dead-lettered.

        A record delivered before the last rebalance is delivered again, so nothing is noted for it.
        """
        current = message.generation_id == self.app.consumer_generation_id
        if current and message.tp not in self._abandoned:
            super().ack(message)
        else:
            self.ack(message)
        self._settled.set()
        self._uncommitted.set()

    def abandon(self, message: Message) -> None:
        """Commit nothing more of the record's partition until it is assigned anew: it must come again.

        Faust would commit over a record that was left unsettled once the one after it is (issue 606). One
        that was delivered before the last rebalance comes again anyway.
        """
        if message.generation_id == self.app.consumer_generation_id:
            self._abandoned.add(message.tp)
        self.ack(message)

    @override
    @Service.task
    async def _commit_handler(self) -> None:
        """Commit a while after a record was acknowledged; stock Faust wakes whether any was or not."""
        while not self.should_stop:
            await self.wait(self._uncommitted.wait())
            self._uncommitted.clear()
            await self.sleep(self.commit_interval)
            await self.commit()

    @override
    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self._abandoned.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    @override
    def ack(self, message: Message) -> bool:
        """Forget a record Faust skipped or cancelled; its offset is not committed, it will come again."""
        self._unacked_messages.discard(message)
        message.acked = True
        return False

    @override
    def _get_active_partitions(self) -> set[TP]:
        """Return the partitions whose records are taken; stock Faust looks at the type of each every time."""
        active: set[TP] | None = self._active_partitions
        return self._set_active_tps(self.assignment()) if active is None else active

    def offsets(self) -> Mapping[TP, int | None]:
        """Return how far each assigned partition has been read."""
        return {tp: self._read_offset[tp] for tp in self.assignment()}

    def committed(self, tp: TP) -> int:
        """Return the first offset of the partition that is not committed, 0 when nothing is."""
        return self._committed_offset[tp] or 0

    @override
    async def perform_seek(self) -> None:
        if asyncio.current_task() is self._drainer:
            await self._seek_all()
            return
        self._seek_wanted.set()
        try:
            async with self._seek_lock:
                await self._seek_all()
        finally:
            self._seek_wanted.clear()

    async def _seek_all(self) -> None:
        await super().perform_seek()
        self._cut_short = False

    @override
    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek every partition to its committed offset, and one without a commit to its beginning.

        What the broker answered decides, for a commit may land before the answer is read: by what is noted
        here such a partition has a commit, but aiokafka left it where it was.
        """
        committed = await super().seek_to_committed()
        for tp, offset in committed.items():
            if not offset and not self._is_changelog_tp(tp):
                self._thread.seek(tp, 0)
        return committed

    @override
    async def _drain_messages(self, fetcher: ServiceT) -> None:
        self._drainer = asyncio.current_task()
        try:
            while not (self.should_stop or fetcher.should_stop):
                if not self.flow_active:
                    await self.wait(cast("Any", self.can_resume_flow))
                if not self._get_active_partitions():
                    await self.sleep(_IDLE_S)
                await asyncio.sleep(0)
                await self._rest()
                async with self._seek_lock:
                    if self.flow_active and self._get_active_partitions():
                        await self._drain_batch()
        except (ConsumerStoppedError, asyncio.CancelledError):
            if not self.transport.app.should_stop:
                raise

    async def _rest(self) -> None:
        """Wait until records wait to be taken, unless the last look found some; look now and then anyway.

        In a rebalance, and after a batch was cut short, nothing is waited for: a seek is to come first.
        """
        if self.is_steady() and not (self._cut_short or self._found):
            with suppress(TimeoutError):
                async with asyncio.timeout(_REST_S):
                    await self._records_wait.wait()
        self._records_wait.clear()  # before they are fetched: later records set it again

    async def _drain_batch(self) -> None:
        if self._cut_short:  # a batch was interrupted and no seek followed: its records must come again
            with suppress(IllegalStateError):  # revoked meanwhile; the next assignment seeks
                await self._seek_all()
        fetched, active = await self._wait_next_records(_POLL_S)
        self._found = bool(fetched)
        if self.should_stop:
            return
        generation = self.app.consumer_generation_id
        waiting = {TP(*tp): records for tp, records in (fetched or {}).items()}
        self._last_taken = sum(map(len, waiting.values()))
        for tp, records in waiting.items():
            if self._is_wanted(tp, active):
                waiting[tp] = records[self._fill(tp, records, generation) :]
        for tp, records in waiting.items():
            for record in records:
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    self._cut_short = True
                    return
                if self._is_wanted(tp, active) and not await self._pass_on(tp, record):
                    self._cut_short = True
                    return
        self._cut_short |= not self.flow_active

    def _is_wanted(self, tp: TP, active: AbstractSet[TP] | None) -> bool:
        """Return whether the partition's records are taken now, be it that its buffer was full."""
        return active is None or tp in active or tp in self._buffered_partitions

    def _fill(self, tp: TP, records: Sequence[Any], generation: int) -> int:
        """Put records into their stream's buffer in one turn; return how many nothing kept from it.

        Faust passes through five coroutines for each, and decodes what is bytes already. A full buffer, a
        gap between offsets and a changelog are left to it.
        """
        buffer = buffer_of(self.app, tp) if self.flow_active and not self._is_changelog_tp(tp) else None
        for number, record in enumerate(records):
            read, offset = self._read_offset[tp], record.offset
            if buffer is None or not buffer.has_room() or (read and offset - read > 1):
                return number
            if self.app.consumer_generation_id != generation:  # set by the thread, at any time
                return number
            if read is None or offset >= read:
                buffer.put(self._to_message(tp, record))
                self._read_offset[tp] = offset
        return len(records)

    async def _pass_on(self, tp: TP, record: Any) -> bool:
        """Pass the record to its stream; return False when the flow is suspended or a seek comes first."""
        read, offset = self._read_offset[tp], record.offset
        if read is not None and offset < read:
            return True
        if read and offset - read > 1 and self.app.topics.acks_enabled_for(tp.topic):
            await self._add_gap(tp, read + 1, offset)
        if not await self._deliver(tp, self._to_message(tp, record)):
            return False
        self._read_offset[tp] = offset
        return True

    async def _deliver(self, tp: TP, message: ConsumerMessage) -> bool:
        """Pass a message on as Faust does; return False when it was not, for something else comes first."""
        if takes_at_once(self.app, tp):
            await self.callback(message)  # nothing in it waits: a fetch of a recovery is one turn
            return True
        delivery = asyncio.ensure_future(self.callback(message))
        await asyncio.sleep(0)
        if delivery.done():  # the buffer had room
            delivery.result()
            return True
        suspended, wanted = self.suspend_flow.wait(), self._seek_wanted.wait()
        await self.wait_first(delivery, cast("Any", suspended), cast("Any", wanted))
        return delivery.done() and not delivery.cancelled()

    def take(self, message: Message) -> None:
        """Note a record that its agent took from the stream's buffer, as the stream does for the others."""
        if not message.tracked:
            message.tracked = True
            self.track_message(message)

    @override
    async def wait_empty(self) -> None:
        """Wait up to a limit until records in progress are settled, then commit."""
        until = self.loop.time() + cast("PatchedTransport", self.transport).drain_s
        while not self.should_stop and self._in_work():
            self._settled.clear()
            left = until - self.loop.time()
            if left <= 0:
                log.warning("consumer.drain_timed_out", records=self._in_work())
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), min(left, _POLL_S))
        await self.commit_and_end_transactions()

    def _in_work(self) -> int:
        return sum(1 for message in self._unacked_messages if not message.acked)


class PatchedProducer(driver.Producer):
    """Flushes what was sent before the flush; stock Faust waits for a lull, and no commit comes before it."""

    @override
    async def flush(self) -> None:
        await self.buffer.flush_atmost(self.buffer.size)
        if self._producer is not None:
            await send_at_once(self._producer)

    def append(self, place: TP, key: bytes, value: bytes | None) -> asyncio.Future[Any]:
        """Add a record to the open batch of its partition; return the future of the batch.

        Raises:
            KafkaError: The producer is closed, or died.
        """
        producer = self._ensure_producer()
        producer.client.add_topic(place.topic)  # asks for its leaders the first time
        return append(producer, TopicPartition(*place), key, value, [])


class PatchedTransport(driver.Transport):
    """Faust's aiokafka transport with the patched consumer and producer."""

    drain_s: float = 4.0
    """How long a stop or a rebalance waits for what is in work; what takes longer is delivered again."""

    patient_wait_ms: int = PATIENT_WAIT_MS
    """How long the broker may hold a fetch that leaves no partition out."""

    Consumer: ClassVar[type[ConsumerT]] = PatchedConsumer
    Producer: ClassVar[type[ProducerT]] = PatchedProducer


def patched(consumer: ConsumerT) -> PatchedConsumer:
    """Return the consumer of an app built by `build_app` under its own name."""
    return cast("PatchedConsumer", consumer)
