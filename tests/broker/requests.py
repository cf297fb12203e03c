"""Requests as kio's classes, with everything a test does not care about filled in."""

from datetime import timedelta

from kio.schema.fetch.v11 import request as fetching
from kio.schema.produce.v8 import request as producing
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64


def milliseconds(number: int) -> i32Timedelta:
    """Return a duration as kio wants it."""
    return i32Timedelta.parse(timedelta(milliseconds=number))


def produce_request(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1
) -> producing.ProduceRequest:
    """Produce one batch."""
    data = producing.PartitionProduceData(index=i32(partition), records=Records.parse(records))
    return producing.ProduceRequest(
        acks=i16(acks),
        timeout=milliseconds(10_000),
        topic_data=(producing.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
) -> fetching.FetchRequest:
    """Fetch one partition."""
    wanted = fetching.FetchPartition(
        partition=i32(partition), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes)
    )
    return fetching.FetchRequest(
        replica_id=BrokerId(-1),
        max_wait=milliseconds(wait_ms),
        min_bytes=i32(min_bytes),
        max_bytes=i32(max_bytes),
        isolation_level=i8(0),
        session_id=i32(session_id),
        session_epoch=i32(session_epoch),
        topics=(fetching.FetchTopic(topic=TopicName(topic), partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id="",
    )
