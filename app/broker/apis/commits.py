"""OffsetCommit, OffsetFetch and OffsetDelete: how far a group has read."""

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.offset_commit.v8.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v7.response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kio.schema.offset_fetch.v8 import request as many
from kio.schema.offset_fetch.v8 import response as fetched
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from app.broker.coordinator import MAX_METADATA_LENGTH
from app.broker.errors import Refused
from app.broker.node import Call, Node
from app.broker.store import Committed
from app.broker.wire import NO_THROTTLE

NOTHING = Committed(-1, -1, "")
"""What a partition shows that was never committed."""

Key = tuple[str, int]


async def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Keep the offsets that can be kept; each partition is answered on its own."""
    errors: dict[Key, ErrorCode] = {
        (topic.name, part.partition_index): _fault(call.node, topic.name, part)
        for topic in request.topics
        for part in topic.partitions
    }
    accepted: dict[Key, Committed] = {
        (topic.name, part.partition_index): Committed(
            part.committed_offset, part.committed_leader_epoch, part.committed_metadata
        )
        for topic in request.topics
        for part in topic.partitions
        if errors[topic.name, part.partition_index] is ErrorCode.none
    }
    refusal = await _commit(call.node, request, accepted)
    if refusal is not ErrorCode.none:
        errors = dict.fromkeys(errors, refusal)
    return _answer(request, errors)


async def _commit(node: Node, request: OffsetCommitRequest, accepted: Mapping[Key, Committed]) -> ErrorCode:
    try:
        node.groups.check_commit(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            request.group_instance_id,
        )
        if accepted:
            await node.groups.commit(request.group_id, accepted)
    except Refused as refused:
        return refused.code
    return ErrorCode.none


def _fault(node: Node, topic: str, part: OffsetCommitRequestPartition) -> ErrorCode:
    if node.topics.partition(topic, part.partition_index) is None:
        return ErrorCode.unknown_topic_or_partition
    if len(part.committed_metadata or "") > MAX_METADATA_LENGTH:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def _answer(request: OffsetCommitRequest, errors: Mapping[Key, ErrorCode]) -> OffsetCommitResponse:
    topics = (
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetCommitResponsePartition(
                    partition_index=part.partition_index, error_code=errors[topic.name, part.partition_index]
                )
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Tell what one group committed, for the partitions asked for or for all."""
    committed = call.node.groups.committed(request.group_id)
    wanted = _wanted(request.topics, committed)
    topics = (
        OffsetFetchResponseTopic(
            name=TopicName(name),
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=i32(index),
                    committed_offset=i64(at.offset),
                    committed_leader_epoch=i32(at.epoch),
                    metadata=at.metadata or "",
                    error_code=ErrorCode.none,
                )
                for index, at in partitions
            ),
        )
        for name, partitions in wanted
    )
    return OffsetFetchResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), error_code=ErrorCode.none)


def offset_fetch_of_groups(call: Call, request: many.OffsetFetchRequest) -> fetched.OffsetFetchResponse:
    """The same for several groups at once (KIP-709)."""
    groups = (_fetched_group(call.node, group) for group in request.groups)
    return fetched.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


def _fetched_group(node: Node, group: many.OffsetFetchRequestGroup) -> fetched.OffsetFetchResponseGroup:
    wanted = _wanted(group.topics, node.groups.committed(group.group_id))
    topics = (
        fetched.OffsetFetchResponseTopics(
            name=TopicName(name),
            partitions=tuple(
                fetched.OffsetFetchResponsePartitions(
                    partition_index=i32(index),
                    committed_offset=i64(at.offset),
                    committed_leader_epoch=i32(at.epoch),
                    metadata=at.metadata or "",
                    error_code=ErrorCode.none,
                )
                for index, at in partitions
            ),
        )
        for name, partitions in wanted
    )
    return fetched.OffsetFetchResponseGroup(
        group_id=group.group_id, topics=tuple(topics), error_code=ErrorCode.none
    )


Asked = Iterable[OffsetFetchRequestTopic | many.OffsetFetchRequestTopics] | None


def _wanted(
    asked: Asked, committed: Mapping[Key, Committed]
) -> list[tuple[str, list[tuple[int, Committed]]]]:
    if asked is not None:
        return [
            (topic.name, [(i, committed.get((topic.name, i), NOTHING)) for i in topic.partition_indexes])
            for topic in asked
        ]
    by_topic: dict[str, list[tuple[int, Committed]]] = {}
    for (name, index), at in sorted(committed.items()):
        by_topic.setdefault(name, []).append((index, at))
    return list(by_topic.items())


async def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Forget offsets of a group (KIP-496); one with members is refused whole, read the topic or not."""
    known = call.node.topics.partition
    asked = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    errors: dict[Key, ErrorCode] = {
        at: ErrorCode.none if known(*at) else ErrorCode.unknown_topic_or_partition for at in asked
    }
    try:
        await call.node.groups.forget(request.group_id, {at for at in asked if known(*at)})
    except Refused as refused:
        return OffsetDeleteResponse(error_code=refused.code, throttle_time=NO_THROTTLE, topics=())
    topics = (
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetDeleteResponsePartition(
                    partition_index=part.partition_index, error_code=errors[topic.name, part.partition_index]
                )
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetDeleteResponse(error_code=ErrorCode.none, throttle_time=NO_THROTTLE, topics=tuple(topics))
