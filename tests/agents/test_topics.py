"""The topics: created with their partitions, again without harm, and never with other ones."""

from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from schemas.problems import StoreUnavailable
from schemas.topics import TOPICS, Topic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.topics import TopicUnfit, changelog_of, ensure_topics

TABLES = {"verifications": Topic.VERIFICATION_COMMANDS}


async def test_every_topic_and_changelog_is_created_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(directory=tmp_path, auto_create_topics=False)) as broker:
        await ensure_topics(LogAccess(broker.address), "group", TABLES)
        await ensure_topics(LogAccess(broker.address), "group", TABLES)

        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        found = {t["topic"]: len(t["partitions"]) for t in await admin.describe_topics()}
        await admin.close()

    expected = {spec.topic.value: spec.partitions for spec in TOPICS}
    assert found == expected | {changelog_of("group", "verifications"): 8}


async def test_a_topic_with_other_partitions_is_refused(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(directory=tmp_path)) as broker:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        await admin.create_topics([NewTopic(Topic.AUDIT, 7, 1)])
        await admin.close()

        with pytest.raises(TopicUnfit, match=Topic.AUDIT):
            await ensure_topics(LogAccess(broker.address), "group", TABLES)


async def test_without_a_broker_topics_cannot_be_created() -> None:
    with pytest.raises(StoreUnavailable):
        await ensure_topics(LogAccess("127.0.0.1:1"), "group", TABLES)
