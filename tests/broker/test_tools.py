"""What operators' tools ask beyond the clients' needs: offsets forgotten, disk shown."""

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0 import request as deletion
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from tests.broker.builders import Talk, one
from tests.broker.conftest import create_topic
from tests.broker.requests import produce_request


def forget(topic: str, *partitions: int) -> deletion.OffsetDeleteRequest:
    """The command that group g forgets these partitions."""
    parts = tuple(deletion.OffsetDeleteRequestPartition(partition_index=i32(p)) for p in partitions)
    asked = deletion.OffsetDeleteRequestTopic(name=TopicName(topic), partitions=parts)
    return deletion.OffsetDeleteRequest(group_id=GroupId("g"), topics=(asked,))


async def ask(broker: Broker, request: deletion.OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Ask on a connection of its own."""
    async with await Talk.to(broker.port) as talk:
        answer: OffsetDeleteResponse = await talk.ask(request)
        return answer


async def commit(broker: Broker, **offsets: int) -> AIOKafkaConsumer:
    """Join group g and commit these offsets of the partitions of t; the keywords are p0, p1, ..."""
    consumer = AIOKafkaConsumer("t", bootstrap_servers=broker.address, group_id="g", enable_auto_commit=False)
    await consumer.start()
    await consumer.commit({TopicPartition("t", int(name[1:])): at for name, at in offsets.items()})
    return consumer


async def committed(broker: Broker) -> list[int | None]:
    """What group g committed for the two partitions of t."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, group_id="g")
    await consumer.start()
    try:
        return [await consumer.committed(TopicPartition("t", partition)) for partition in (0, 1)]
    finally:
        await consumer.stop()


async def test_a_forgotten_offset_stays_forgotten_over_a_restart(settings: BrokerSettings) -> None:
    async with Broker(settings) as broker:
        await create_topic(broker.address, "t", partitions=2)
        await (await commit(broker, p0=5, p1=7)).stop()
        answer = await ask(broker, forget("t", 1))
    async with Broker(settings) as broker:
        left = await committed(broker)

    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    assert left == [5, None]


async def test_a_group_with_members_forgets_nothing(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=2)
    consumer = await commit(broker, p0=5)
    answer = await ask(broker, forget("t", 0))
    await consumer.stop()

    assert answer.error_code is ErrorCode.non_empty_group
    assert await committed(broker) == [5, None]


async def test_a_group_that_forgets_everything_is_gone(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=2)
    await (await commit(broker, p0=5)).stop()
    await ask(broker, forget("t", 0))

    assert (await ask(broker, forget("t", 0))).error_code is ErrorCode.group_id_not_found


async def test_an_unknown_partition_is_named_and_the_others_are_forgotten(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=2)
    await (await commit(broker, p0=5, p1=7)).stop()
    answer = await ask(broker, forget("t", 1, 2))

    assert [part.error_code for part in answer.topics[0].partitions] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert await committed(broker) == [5, None]


async def test_the_size_of_every_partition_is_reported(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=2)
    batch = one(b"value")
    async with await Talk.to(broker.port) as talk:
        await talk.ask(produce_request("t", batch))
        answer = await talk.ask(DescribeLogDirsRequest(topics=None))

    (disk,) = answer.results
    sizes = {part.partition_index: part.partition_size for part in disk.topics[0].partitions}
    assert sizes == {0: len(batch), 1: 0}
    assert disk.total_bytes >= disk.usable_bytes > 0
