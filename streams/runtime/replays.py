"""Detect copies of a record in a partition, also when another process settled the first."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from schemas.problems import StoreUnavailable
from streams.runtime.authentication import FRESH_MS, RecordKeys, Stamp, Unauthentic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.message import Delivery
from streams.runtime.producer import headers_of

REMEMBERED_MS: Final = 2 * FRESH_MS
"""Two copies of a record that are both fresh lie no further apart, in milliseconds by the broker's clock."""

READ_S: Final = 10.0
"""How long reading back may take before it counts as failed."""

_POLL_MS: Final = 200
_LOG_APPEND_TIME: Final = 1


@dataclass(slots=True)
class _Seen:
    """What is known of one partition: every record of the last while before `until`."""

    until: int
    first: dict[bytes, int] = field(default_factory=dict)
    """The offset at which each id stood first."""
    ages: deque[tuple[int, bytes]] = field(default_factory=deque)

    def note(self, record_id: bytes, offset: int, appended_ms: int) -> bool:
        """Add a record; return whether its id was at an earlier offset."""
        earlier = self.first.get(record_id)
        if earlier is not None and earlier < offset:
            return True
        self.first[record_id] = offset
        if earlier is None:
            self.ages.append((appended_ms, record_id))
        while self.ages and self.ages[0][0] < appended_ms - REMEMBERED_MS:
            self.first.pop(self.ages.popleft()[1], None)
        return False


class Replays:
    """Remembers the ids of each partition's latest records.

    The first record after a start or a rebalance is preceded by ones that another process settled: those are
    read from the log, so a copy of one of them is recognised as well. Redeliveries, which have the offset of
    the first, are no replays.
    """

    def __init__(self, access: LogAccess, keys: RecordKeys) -> None:
        self._access = access
        self._keys = keys
        self._seen: dict[TopicPartition, _Seen] = {}
        self._locks: dict[TopicPartition, asyncio.Lock] = {}

    async def is_replay(self, delivery: Delivery, stamp: Stamp) -> bool:
        """Return whether an authentic, fresh record stands at an earlier offset of its partition already.

        Raises:
            StoreUnavailable: What came before it cannot be read now; nothing was noted.
        """
        place, offset = TopicPartition(delivery.topic, delivery.partition), delivery.offset
        appended_ms = delivery.appended_ms or 0
        seen = self._seen.get(place)
        if seen is None or seen.until < offset:
            async with self._locks.setdefault(place, asyncio.Lock()):
                seen = await self._caught_up(place, offset, appended_ms)
        seen.until = max(seen.until, offset + 1)
        return seen.note(stamp.id, offset, appended_ms)

    def passed(self, delivery: Delivery) -> None:
        """Note that a record which is not authentic was seen: there is nothing to remember of it."""
        seen = self._seen.get(TopicPartition(delivery.topic, delivery.partition))
        if seen is not None and seen.until == delivery.offset:
            seen.until += 1

    async def _caught_up(self, place: TopicPartition, offset: int, appended_ms: int) -> _Seen:
        """Return what is known of a partition, complete up to the offset."""
        seen = self._seen.setdefault(place, _Seen(0))
        if seen.until < offset:
            try:
                async with asyncio.timeout(READ_S):
                    await self._read_back(seen, place, offset, appended_ms - REMEMBERED_MS)
            except (KafkaError, OSError, TimeoutError) as error:
                raise StoreUnavailable("what came before a record cannot be read") from error
        return seen

    async def _read_back(self, seen: _Seen, place: TopicPartition, offset: int, since_ms: int) -> None:
        reader = AIOKafkaConsumer(
            **self._access.client(), enable_auto_commit=False, auto_offset_reset="earliest"
        )
        async with started(reader):
            reader.assign([place])
            found = (await reader.offsets_for_times({place: max(since_ms, 0)}))[place]
            end = min((await reader.end_offsets([place]))[place], offset)
            start = end if found is None else max(found.offset, seen.until)
            if start < end:
                reader.seek(place, start)
                await self._note_until(reader, seen, place, end)
        seen.until = offset

    async def _note_until(self, reader: Any, seen: _Seen, place: TopicPartition, end: int) -> None:
        while await reader.position(place) < end:
            for record in (await reader.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
                if record.offset >= end:
                    return
                self._note(seen, record)

    def _note(self, seen: _Seen, record: Any) -> None:
        delivery = delivery_of(record)
        try:
            stamp = self._keys.check(delivery)
        except Unauthentic:
            return  # it was dead-lettered: a copy of it is as well
        seen.note(stamp.id, delivery.offset, delivery.appended_ms or 0)


def delivery_of(record: Any) -> Delivery:
    """Return a record as aiokafka delivered it."""
    return Delivery(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=headers_of(record.headers),
        appended_ms=record.timestamp if record.timestamp_type == _LOG_APPEND_TIME else None,
    )
