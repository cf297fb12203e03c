"""An actor's cache of its keys: a bounded Faust table, restored at a start."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

import faust
import structlog
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]  # ships no types
from faust.tables.manager import TableManager
from faust.tables.table import Table
from faust.types import TP, AppT, EventT
from pydantic import BaseModel
from typing_extensions import override

from schemas.topics import TOPICS, Topic
from streams.ports.stores import WorkingState
from streams.runtime.authentication import RecordKeys
from streams.runtime.consumer import PatchedProducer

log = structlog.get_logger(__name__)

Remembered = TypeVar("Remembered", bound=BaseModel)

MOST_PER_PARTITION: Final = 2_000
"""Keys remembered per partition; the store knows the others."""

MOST_BYTES_PER_PARTITION: Final = 16 * 1024 * 1024
"""Memory for the entries of a partition, as `size_of` counts it; short entries take less in all."""

_ENTRY_BYTES: Final = 300
"""What Python and Faust add to an entry."""


class Ages:
    """The keys of a partition, the one put last at the end, and how much memory their entries take."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._sizes = OrderedDict[bytes, int]()

    def renew(self, key: bytes, value: bytes) -> None:
        """Note that the value was put now."""
        self.forget(key)
        self._sizes[key] = size = size_of(key, value)
        self._bytes += size

    def forget(self, key: bytes) -> None:
        """Note that the key has no entry."""
        self._bytes -= self._sizes.pop(key, 0)

    def forget_excess(self) -> Iterator[bytes]:
        """Yield the keys beyond the limits, those put least recently; they have no entry from now on.

        The key put last stays, however long its entry is.
        """
        while len(self._sizes) > self._most or (self._bytes > self._most_bytes and len(self._sizes) > 1):
            key, size = self._sizes.popitem(last=False)
            self._bytes -= size
            yield key


class BytesTable(WorkingState[bytes]):
    """Cache the values put last, up to the limits of a partition, and write them to the changelog.

    A value written to the changelog without the key only removes the entry from the cache.

    `put` works only while an agent handles a record, whose partition the value then belongs to. After a
    restart or a rebalance the values come back from the changelog, the order of age with them.
    """

    def __init__(
        self,
        app: faust.App,
        name: str,
        source: Topic,
        keys: RecordKeys,
        most_per_partition: int = MOST_PER_PARTITION,
        most_bytes_per_partition: int = MOST_BYTES_PER_PARTITION,
    ) -> None:
        self._name = table_of(name)
        self._keys = keys
        self._ages: defaultdict[int, Ages] = defaultdict(
            partial(Ages, most_per_partition, most_bytes_per_partition)
        )
        self._table: Any = app.tables.add(
            BatchedTable(
                app,
                name=name,
                beacon=app.tables.beacon,
                key_type=cast("Any", bytes),
                value_type=cast("Any", bytes),
                partitions=partitions_of(source),
                on_changelog_event=self._restore_age,
            )
        )

    @override
    def get(self, key: str) -> bytes | None:
        raw_key = key.encode()
        sealed = self._table.get(raw_key)
        return None if sealed is None else self._keys.open_entry(self._name, raw_key, sealed)

    @override
    def put(self, key: str, value: bytes) -> None:
        raw_key = key.encode()
        sealed = self._keys.seal_entry(self._name, raw_key, value)
        self._table[raw_key] = sealed
        ages = self._ages[self._table.partition_for_key(raw_key)]
        ages.renew(raw_key, sealed)
        for oldest in ages.forget_excess():
            self._table.pop(oldest, None)

    def __len__(self) -> int:
        """Return how many keys this process remembers."""
        return len(self._table)

    async def _restore_age(self, event: EventT[Any]) -> None:
        ages, key = self._ages[event.message.partition], cast("bytes", event.key)
        if event.message.value is None:
            ages.forget(key)
        else:
            ages.renew(key, cast("bytes", event.value))


class ValueTable(WorkingState[Remembered], Generic[Remembered]):
    """A `BytesTable` of pydantic values."""

    def __init__(
        self,
        app: faust.App,
        name: str,
        source: Topic,
        model: type[Remembered],
        keys: RecordKeys,
        most_per_partition: int = MOST_PER_PARTITION,
        most_bytes_per_partition: int = MOST_BYTES_PER_PARTITION,
    ) -> None:
        self._model = model
        self._table = BytesTable(app, name, source, keys, most_per_partition, most_bytes_per_partition)

    @override
    def get(self, key: str) -> Remembered | None:
        raw = self._table.get(key)
        return None if raw is None else self._model.model_validate_json(raw)

    @override
    def put(self, key: str, value: Remembered) -> None:
        self._table.put(key, value.model_dump_json(exclude_none=True).encode())

    def __len__(self) -> int:
        """Return how many keys this process remembers."""
        return len(self._table)


class BatchedTable(Table[bytes, bytes]):
    """A table of bytes whose entries reach the changelog in the producer's batches, not one by one.

    Faust makes a message, a future and a task of each. As with Faust, a commit of offsets comes after the
    flush of the producer; an entry that the log did not take is forgotten at the next start.
    """

    def __init__(self, app: AppT, **options: Any) -> None:
        super().__init__(app, **options)
        self._last: dict[int, asyncio.Future[Any]] = {}
        """The batch of each partition that was noted last."""

    @override
    def on_key_set(self, key: bytes, value: bytes) -> None:
        self._append(key, value)

    @override
    def on_key_del(self, key: bytes) -> None:
        self._append(key, None)

    def _append(self, key: bytes, value: bytes | None) -> None:
        partition = self.partition_for_key(key)
        if partition is None:
            raise TypeError("a table follows the partitions of its topic")
        place = TP(self.changelog_topic_name, partition)
        try:
            delivered = cast("PatchedProducer", self.app.producer).append(place, key, value)
        except KafkaError as error:
            log.warning("table.changelog_failed", table=self.name, error=type(error).__name__)
            return
        if delivered is not self._last.get(partition):
            self._last[partition] = delivered
            delivered.add_done_callback(partial(self._note_offset, place))

    def _note_offset(self, place: TP, delivered: asyncio.Future[Any]) -> None:
        """Remember up to where the local store, if it outlives the process, has what the changelog has."""
        error = None if delivered.cancelled() else delivered.exception()
        if error is not None or delivered.cancelled():
            log.warning("table.changelog_failed", table=self.name, error=type(error).__name__)
        else:
            self.data.set_persisted_offset(place, delivered.result().offset)


class PromptTables(TableManager):
    """Faust's table manager without its second of waiting: every table is declared before the app starts."""

    @override
    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


def size_of(key: bytes, value: bytes) -> int:
    """Return about how many bytes of memory an entry takes."""
    return 2 * len(key) + len(value) + _ENTRY_BYTES


def table_of(name: str) -> str:
    """Return the name under which a table's entries are authenticated."""
    return f"table.{name}"


def partitions_of(topic: Topic) -> int:
    """Return how many partitions a topic is created with."""
    return next(spec.partitions for spec in TOPICS if spec.topic is topic)


def partition_of(topic: Topic, key: str) -> int:
    """Return the partition in which a command under a key is written."""
    partitions = range(partitions_of(topic))
    chosen: int = DefaultPartitioner()(key.encode(), partitions, partitions)
    return chosen
