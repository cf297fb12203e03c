"""An actor's cache of its keys: a bounded Faust table of pydantic values, restored at a start."""

from collections import OrderedDict, defaultdict
from typing import Any, Final, Generic, TypeVar, cast

import faust
from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]  # ships no types
from faust.tables.manager import TableManager
from faust.types import EventT
from pydantic import BaseModel
from typing_extensions import override

from schemas.topics import TOPICS, Topic
from streams.ports.stores import WorkingState
from streams.runtime.authentication import RecordKeys

Remembered = TypeVar("Remembered", bound=BaseModel)

MOST_PER_PARTITION: Final = 2_000
"""Keys remembered per partition; the store knows the others."""


class ValueTable(WorkingState[Remembered], Generic[Remembered]):
    """Cache the values put last, up to a limit per partition, and write them to the changelog.

    A value written to the changelog without the key only removes the entry from the cache.

    `put` works only while an agent handles a record, whose partition the value then belongs to. After a
    restart or a rebalance the values come back from the changelog, the order of age with them.
    """

    def __init__(
        self,
        app: faust.App,
        name: str,
        source: Topic,
        model: type[Remembered],
        keys: RecordKeys,
        most_per_partition: int = MOST_PER_PARTITION,
    ) -> None:
        self._model = model
        self._name = table_of(name)
        self._keys = keys
        self._most = most_per_partition
        self._ages: defaultdict[int, OrderedDict[bytes, None]] = defaultdict(OrderedDict)
        self._table: Any = app.Table(
            name,
            key_type=cast("Any", bytes),
            value_type=cast("Any", bytes),
            partitions=partitions_of(source),
            on_changelog_event=self._restore_age,
        )

    @override
    def get(self, key: str) -> Remembered | None:
        raw_key = key.encode()
        sealed = self._table.get(raw_key)
        raw = None if sealed is None else self._keys.open_entry(self._name, raw_key, sealed)
        return None if raw is None else self._model.model_validate_json(raw)

    @override
    def put(self, key: str, value: Remembered) -> None:
        raw_key = key.encode()
        raw = value.model_dump_json(exclude_none=True).encode()
        self._table[raw_key] = self._keys.seal_entry(self._name, raw_key, raw)
        ages = self._ages[self._table.partition_for_key(raw_key)]
        ages[raw_key] = None
        ages.move_to_end(raw_key)
        while len(ages) > self._most:
            oldest, _ = ages.popitem(last=False)
            self._table.pop(oldest, None)

    def __len__(self) -> int:
        """Return how many keys this process remembers."""
        return len(self._table)

    async def _restore_age(self, event: EventT[Any]) -> None:
        ages, key = self._ages[event.message.partition], cast("bytes", event.key)
        ages.pop(key, None)
        if event.message.value is not None:
            ages[key] = None


class PromptTables(TableManager):
    """Faust's table manager without its second of waiting: every table is declared before the app starts."""

    @override
    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


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
