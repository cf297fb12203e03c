"""Measure the consumer lag of the agents, the age of the oldest command, and the dead letters."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime.app import GROUP
from streams.runtime.dead_letters import LETTERS, REDRIVE_GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.topics import open_admin

CONSUMED: Final = (
    Topic.VERIFICATION_COMMANDS,
    Topic.FLOW_COMMANDS,
    Topic.POLICY_COMMANDS,
    Topic.SESSION_COMMANDS,
    Topic.REVIEW_COMMANDS,
    Topic.TRANSACTION_COMMANDS,
    Topic.SCREENING_COMMANDS,
    Topic.TRANSACTION_KEYS,
    Topic.RETENTION_COMMANDS,
    Topic.DECISIONS,
    Topic.WEBHOOK_DELIVERIES,
    Topic.AUDIT,
)
"""What agents take records from."""

COMMANDS: Final = (
    Topic.VERIFICATION_COMMANDS,
    Topic.FLOW_COMMANDS,
    Topic.POLICY_COMMANDS,
    Topic.SESSION_COMMANDS,
    Topic.REVIEW_COMMANDS,
    Topic.TRANSACTION_COMMANDS,
    Topic.SCREENING_COMMANDS,
)
"""What somebody waits for the decision of."""

_FIRST_BYTES: Final = 64 * 1024
"""Read of a partition to see when its first record came: as a rule one batch."""
_FIRST_S: Final = 5.0
"""How long the first records may take; a partition whose has not come by then is left out."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The records that no agent has settled."""

    records: Mapping[str, int]
    """How many, by topic."""
    commands_since: Mapping[str, datetime]
    """When the broker took the oldest undecided command, by topic; without topics that have none."""
    dead_letters: int = 0
    """How many dead letters `redrive` has not processed yet."""


async def measure_waiting(access: LogAccess) -> Waiting:
    """Return what is in the log that no agent has settled, of commands also since when; and dead letters.

    Raises:
        StoreUnavailable: No broker answers.
    """
    async with aclosing(LagMeter(access)) as meter:
        return await meter.measure()


class LagMeter:
    """Measures what waits, again and again, over clients that stay open until a measurement fails."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._clients = AsyncExitStack()
        self._admin: Any = None
        self._reader: Any = None

    async def measure(self) -> Waiting:
        """Measure once, as `measure_waiting`.

        Raises:
            StoreUnavailable: No broker answers.
        """
        try:
            if self._reader is None:
                self._admin = await self._clients.enter_async_context(open_admin(self._access))
                self._reader = await self._clients.enter_async_context(_open_reader(self._access))
            return await self._measure()
        except StoreUnavailable:
            await self.aclose()
            raise
        except (TimeoutError, KafkaError, OSError) as error:
            await self.aclose()
            raise StoreUnavailable(f"no broker answers: {type(error).__name__}") from error

    async def aclose(self) -> None:
        """Close the clients."""
        clients, self._clients = self._clients, AsyncExitStack()
        self._admin = self._reader = None
        await clients.aclose()

    async def _measure(self) -> Waiting:
        admin, reader = self._admin, self._reader
        partitions = [
            TopicPartition(topic["topic"], one["partition"])
            for topic in await admin.describe_topics()
            if topic["topic"] in CONSUMED
            for one in topic["partitions"]
        ]
        committed = await admin.list_consumer_group_offsets(GROUP, partitions=partitions)
        redriven = await admin.list_consumer_group_offsets(REDRIVE_GROUP, partitions=[LETTERS])
        asked = [*partitions, LETTERS]
        # All topics at once: the reader would learn them one by one, each in a tenth of a second.
        await reader._client.set_topics({place.topic for place in asked})  # noqa: SLF001  # no method leads there
        begins, ends = await reader.beginning_offsets(asked), await reader.end_offsets(asked)
        settled = {
            place: max(committed[place].offset if place in committed else 0, begins[place])
            for place in partitions
        }
        undecided = {
            place: offset
            for place, offset in settled.items()
            if place.topic in COMMANDS and offset < ends[place]
        }
        since = await _since(reader, undecided)
        records = Counter[str]()
        for place, offset in settled.items():
            records[place.topic] += max(0, ends[place] - offset)
        redriven_to = redriven[LETTERS].offset if LETTERS in redriven else 0
        return Waiting(dict(records), since, ends[LETTERS] - max(begins[LETTERS], redriven_to))


async def _since(reader: Any, offsets: Mapping[Any, int]) -> dict[str, datetime]:
    """Return when the broker took the oldest of the records at these offsets, by topic."""
    found: dict[str, datetime] = {}
    if not offsets:
        return found
    reader.assign(list(offsets))
    try:
        for place, offset in offsets.items():
            reader.seek(place, offset)
        unread, loop = set(offsets), asyncio.get_running_loop()
        until = loop.time() + _FIRST_S
        while unread and (left_s := until - loop.time()) > 0:
            for place, records in (await reader.getmany(*unread, timeout_ms=int(left_s * 1000))).items():
                unread.discard(place)
                taken_at = datetime.fromtimestamp(records[0].timestamp / 1000, UTC)
                found[place.topic] = min(found.get(place.topic, taken_at), taken_at)
    finally:
        reader.unsubscribe()
    return found


@asynccontextmanager
async def _open_reader(access: LogAccess) -> AsyncIterator[Any]:
    """Open a consumer that commits nothing; an `AIOKafkaConsumer`."""
    reader = AIOKafkaConsumer(
        **access.client(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=_FIRST_BYTES,
    )
    async with started(reader):
        yield reader
