"""ListOffsets and OffsetForLeaderEpoch."""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7 import request as asked
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4 import request as epochs
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from app.broker.log import PartitionLog
from app.broker.node import LEADER_EPOCH, Call
from app.broker.wire import NO_THROTTLE

LATEST: Final = -1
"""Asks for the offset after the last visible record."""

EARLIEST: Final = -2
"""Requests the log start offset."""

NEWEST_TIMESTAMP: Final = -3
"""Asks for the record with the greatest timestamp (KIP-734)."""


def list_offsets(call: Call, request: asked.ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each question from the partition's index."""
    topics = (
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(_offset(call, topic.name, part) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _offset(call: Call, topic: str, part: asked.ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    partition, error = _partition(call, topic, part.partition_index)
    if partition is None:
        return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=error)
    timestamp, offset = _find(partition, part.timestamp)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        error_code=ErrorCode.none,
        timestamp=i64(timestamp),
        offset=i64(offset),
        leader_epoch=i32(LEADER_EPOCH if offset >= 0 else -1),
    )


def _partition(call: Call, topic: str, index: int) -> tuple[PartitionLog | None, ErrorCode]:
    if not call.access.may_read(topic):
        return None, ErrorCode.topic_authorization_failed
    return call.node.topics.partition(topic, index), ErrorCode.unknown_topic_or_partition


def _find(partition: PartitionLog, timestamp: int) -> tuple[int, int]:
    match timestamp:
        case _ if timestamp == LATEST:
            return -1, partition.high_watermark
        case _ if timestamp == EARLIEST:
            return -1, partition.start_offset
        case _ if timestamp == NEWEST_TIMESTAMP:
            return partition.latest_record() or (-1, -1)
        case _:
            return partition.find_time(timestamp) or (-1, -1)


def offsets_for_epochs(
    call: Call, request: epochs.OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Every epoch ends where the log ends: leadership never changed hands."""
    topics = (
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(_epoch_end(call, topic.topic, part) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _epoch_end(call: Call, topic: str, part: epochs.OffsetForLeaderPartition) -> EpochEndOffset:
    partition, error = _partition(call, topic, part.partition)
    if partition is None:
        return EpochEndOffset(error_code=error, partition=part.partition)
    return EpochEndOffset(
        error_code=ErrorCode.none,
        partition=part.partition,
        leader_epoch=i32(LEADER_EPOCH),
        end_offset=i64(partition.high_watermark),
    )
