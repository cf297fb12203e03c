"""OffsetCommit, OffsetFetch and OffsetDelete."""

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
from app.broker.node import Call
from app.broker.store import Committed
from app.broker.wire import NO_THROTTLE

NOTHING = Committed(-1, -1, "")
"""What a partition shows that was never committed."""

Key = tuple[str, int]


async def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Store the offsets that are valid; each partition has its own error code."""
    errors: dict[Key, ErrorCode] = {
        (topic.name, part.partition_index): _fault(call, topic.name, part)
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
    refusal = await _commit(call, request, accepted)
    if refusal is not ErrorCode.none:
        errors = dict.fromkeys(errors, refusal)
    return _answer(request, errors)


async def _commit(call: Call, request: OffsetCommitRequest, accepted: Mapping[Key, Committed]) -> ErrorCode:
    node = call.node
    try:
        call.check_group(request.group_id)
        node.groups.check_room(call.access, request.group_id, 0)
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


def _fault(call: Call, topic: str, part: OffsetCommitRequestPartition) -> ErrorCode:
    if not call.access.may_read(topic):
        return ErrorCode.topic_authorization_failed
    if call.node.topics.partition(topic, part.partition_index) is None:
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
    """Return the committed offsets of one group, for the requested partitions or for all."""
    error, wanted = _visible(call, request.group_id, request.topics)
    topics = (
        OffsetFetchResponseTopic(
            name=TopicName(name),
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=i32(index),
                    committed_offset=i64(at.offset),
                    committed_leader_epoch=i32(at.epoch),
                    metadata=at.metadata or "",
                    error_code=error,
                )
                for index, at in partitions
            ),
        )
        for name, partitions in wanted
    )
    return OffsetFetchResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), error_code=error)


def offset_fetch_of_groups(call: Call, request: many.OffsetFetchRequest) -> fetched.OffsetFetchResponse:
    """The same for several groups at once (KIP-709)."""
    groups = (_fetched_group(call, group) for group in request.groups)
    return fetched.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


def _fetched_group(call: Call, group: many.OffsetFetchRequestGroup) -> fetched.OffsetFetchResponseGroup:
    error, wanted = _visible(call, group.group_id, group.topics)
    topics = (
        fetched.OffsetFetchResponseTopics(
            name=TopicName(name),
            partitions=tuple(
                fetched.OffsetFetchResponsePartitions(
                    partition_index=i32(index),
                    committed_offset=i64(at.offset),
                    committed_leader_epoch=i32(at.epoch),
                    metadata=at.metadata or "",
                    error_code=error,
                )
                for index, at in partitions
            ),
        )
        for name, partitions in wanted
    )
    return fetched.OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(topics), error_code=error)


Asked = Iterable[OffsetFetchRequestTopic | many.OffsetFetchRequestTopics] | None


Positions = list[tuple[str, list[tuple[int, Committed]]]]


def _visible(call: Call, group: str, asked: Asked) -> tuple[ErrorCode, Positions]:
    """Return what the client may see of a group's offsets; nothing of a group that is not its own."""
    error = call.group_error(group)
    committed = call.node.groups.committed(group) if error is ErrorCode.none else {}
    return error, _wanted(asked, committed)


def _wanted(asked: Asked, committed: Mapping[Key, Committed]) -> Positions:
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
