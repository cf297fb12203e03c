"""Directory of topics: names, configurations and partition logs."""

import asyncio
import re
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import structlog
from kio.schema.errors import ErrorCode

from app.adapters.files.data_dir import make_private
from app.broker.configs import TopicPolicy, check_configs, read_policy
from app.broker.errors import Refused
from app.broker.flusher import Flusher
from app.broker.log import PartitionLog
from app.broker.settings import BrokerSettings
from app.broker.store import Store, StoredTopic

log = structlog.get_logger()

MAX_PARTITIONS: Final = 1000
"""Per topic; each partition holds at least one open file."""

MAX_PARTITIONS_IN_ALL: Final = 10_000
"""Of all topics in sum; a client that invents names must not use up the descriptors."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Topic:
    """A topic and its open logs."""

    def __init__(self, stored: StoredTopic, policy: TopicPolicy, partitions: list[PartitionLog]) -> None:
        self.stored = stored
        self.policy = policy
        self.partitions = partitions
        self.upkeep = asyncio.Lock()
        """Lock taken while segments are replaced in the background, and to delete the topic."""

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.stored.name

    @property
    def id(self) -> uuid.UUID:
        """Distinguishes this topic from an earlier one of its name."""
        return self.stored.id


class TopicDirectory:
    """All topics of one broker directory; changes are stored before they are visible."""

    def __init__(
        self, settings: BrokerSettings, store: Store, flusher: Flusher, now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._root = settings.directory / "topics"
        self._store = store
        self._flusher = flusher
        self._now_ms = now_ms
        self._topics: dict[str, Topic] = {}
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Open every log, repair what a crash left, and remove what belongs to no topic."""
        stored = await self._store.topics()
        make_private(self._root)
        known = {topic.id.hex for topic in stored}
        for path in self._root.iterdir():
            if path.name not in known:
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        for topic in stored:
            self._topics[topic.name] = await asyncio.to_thread(self._load, topic)

    async def aclose(self) -> None:
        """Sync and close every log."""
        async with self._changing:
            for topic in self._topics.values():
                async with topic.upkeep:
                    for partition in topic.partitions:
                        await asyncio.to_thread(partition.close)

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str | None) -> Topic | None:
        """Return the topic of this name."""
        return self._topics.get(name) if name is not None else None

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """Return the topic of this id."""
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def partition(self, name: str, index: int) -> PartitionLog | None:
        """Return one log, or None for an unknown topic or partition."""
        topic = self._topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> StoredTopic:
        """Return what `create` would keep, or raise `Refused`; -1 partitions means the default."""
        if not _NAME.fullmatch(name) or name in {".", ".."}:
            message = "a topic name has 1 to 249 letters, digits, dots, underscores and hyphens"
            raise Refused(ErrorCode.invalid_topic_exception, message)
        if name in self._topics:
            raise Refused(ErrorCode.topic_already_exists, f"topic {name!r} already exists")
        count = self._settings.default_partitions if partitions == -1 else partitions
        self._check_partitions(count)
        return StoredTopic(name, uuid.uuid4(), count, check_configs(configs))

    async def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Make a topic, or raise `Refused`: exists, bad name, bad count, bad configuration, disk."""
        async with self._changing:
            stored = self.check_new(name, partitions, configs)
            topic = self._topics[name] = await self._keep(stored)
        log.debug("broker.topic_created", topic=name, partitions=stored.partitions)
        return topic

    async def extend(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, or raise `Refused`."""
        async with self._changing:
            topic = self._require(name)
            if partitions <= len(topic.partitions):
                raise Refused(ErrorCode.invalid_partitions, "a topic can only be given more partitions")
            self._check_partitions(partitions - len(topic.partitions))
            stored = StoredTopic(name, topic.id, partitions, topic.stored.configs)
            topic.partitions.extend((await self._keep(stored, len(topic.partitions))).partitions)
            topic.stored = stored

    async def configure(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Replace a topic's configurations, or raise `Refused`."""
        checked = check_configs(configs)
        async with self._changing:
            topic = self._require(name)
            stored = StoredTopic(name, topic.id, topic.stored.partitions, checked)
            await self._save(stored)
            topic.stored, topic.policy = stored, read_policy(self._settings, checked)
            for partition in topic.partitions:
                partition.limits = topic.policy.limits

    async def delete(self, name: str) -> None:
        """Remove a topic, its records and what groups committed for it, or raise `Refused`."""
        async with self._changing:
            topic = self._require(name)
            try:
                await self._store.drop_topic(name)
            except sqlite3.Error as error:
                raise Refused(ErrorCode.kafka_storage_error, str(error)) from error
            del self._topics[name]
        for partition in topic.partitions:
            self._flusher.forget(partition)
            partition.abandon()
        async with topic.upkeep:
            await asyncio.to_thread(shutil.rmtree, self._root / topic.id.hex, ignore_errors=True)
        log.info("broker.topic_deleted", topic=name)

    def _check_partitions(self, more: int) -> None:
        if not 1 <= more <= MAX_PARTITIONS:
            raise Refused(ErrorCode.invalid_partitions, f"a topic has 1 to {MAX_PARTITIONS} partitions")
        if sum(len(topic.partitions) for topic in self._topics.values()) + more > MAX_PARTITIONS_IN_ALL:
            message = f"this broker holds at most {MAX_PARTITIONS_IN_ALL} partitions"
            raise Refused(ErrorCode.policy_violation, message)

    def _require(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}")
        return topic

    async def _keep(self, stored: StoredTopic, first: int = 0) -> Topic:
        try:
            topic = await asyncio.to_thread(self._load, stored, first)
        except OSError as error:
            raise Refused(ErrorCode.kafka_storage_error, f"the topic cannot be made: {error}") from error
        await self._save(stored)
        return topic

    async def _save(self, stored: StoredTopic) -> None:
        try:
            await self._store.put_topic(stored)
        except sqlite3.Error as error:
            raise Refused(ErrorCode.kafka_storage_error, f"the topic cannot be stored: {error}") from error

    def _load(self, stored: StoredTopic, first: int = 0) -> Topic:
        policy = read_policy(self._settings, stored.configs)
        directory = self._root / stored.id.hex
        indexes = range(first, stored.partitions)
        logs = [PartitionLog.open(_of(directory, index), policy.limits, self._now_ms) for index in indexes]
        return Topic(stored, policy, logs)


def _of(directory: Path, index: int) -> Path:
    return directory / str(index)
