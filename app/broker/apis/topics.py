"""CreateTopics, DeleteTopics and CreatePartitions."""

from kio.schema.create_partitions.v3 import request as growth
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.delete_topics.v6 import request as deletion
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from app.broker.errors import Refused
from app.broker.node import NODE_ID, Call, Node
from app.broker.topics import Topic
from app.broker.wire import NO_THROTTLE

REPLICAS = 1
"""One node holds one copy."""


async def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or return an error for each; a topic named twice is created once."""
    topics = [await _create(call.node, topic, dry=request.validate_only) for topic in request.topics]
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _create(node: Node, asked: CreatableTopic, *, dry: bool) -> CreatableTopicResult:
    try:
        partitions = _placed(asked)
        configs = {config.name: config.value for config in asked.configs}
        if dry:
            stored = node.topics.check_new(asked.name, partitions, configs)
            return _created(asked.name, stored.partitions, None)
        topic = await node.topics.create(asked.name, partitions, configs)
    except Refused as refused:
        code, message = refused.code, refused.message
        return CreatableTopicResult(
            name=asked.name, topic_id=None, error_code=code, error_message=message, configs=None
        )
    return _created(topic.name, len(topic.partitions), topic)


def _placed(asked: CreatableTopic) -> int:
    """Return the partition count, checking that every replica can be here."""
    if asked.assignments:
        if any(set(place.broker_ids) != {NODE_ID} for place in asked.assignments):
            raise Refused(ErrorCode.invalid_replica_assignment, "this cluster has one broker, number 1")
        return len(asked.assignments)
    if asked.replication_factor not in {-1, REPLICAS}:
        raise Refused(ErrorCode.invalid_replication_factor, "this cluster has one broker, so one replica")
    return asked.num_partitions


def _created(name: str, partitions: int, topic: Topic | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=TopicName(name),
        topic_id=topic.id if topic else None,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=i32(partitions),
        replication_factor=i16(REPLICAS),
        configs=(),
    )


async def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Remove topics by name."""
    results = [await _delete(call.node, call.node.topics.get(name), name) for name in request.topic_names]
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(results))


async def delete_topics_by_name_or_id(
    call: Call, request: deletion.DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Remove topics by name or id (KIP-516)."""
    results = []
    for asked in request.topics:
        topic = (
            call.node.topics.get(asked.name)
            if asked.name is not None
            else call.node.topics.by_id(asked.topic_id)
        )
        results.append(await _delete(call.node, topic, asked.name))
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(results))


async def _delete(node: Node, topic: Topic | None, name: TopicName | None) -> DeletableTopicResult:
    error = ErrorCode.none
    if topic is None:
        error = ErrorCode.unknown_topic_or_partition if name is not None else ErrorCode.unknown_topic_id
    else:
        try:
            await node.topics.delete(topic.name)
        except Refused as refused:
            error = refused.code
        else:
            node.groups.forget_topic(topic.name)
    shown = TopicName(topic.name) if topic else name
    return DeletableTopicResult(name=shown, topic_id=topic.id if topic else None, error_code=error)


async def create_partitions(call: Call, request: growth.CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    results = [await _extend(call.node, topic, dry=request.validate_only) for topic in request.topics]
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


async def _extend(
    node: Node, asked: growth.CreatePartitionsTopic, *, dry: bool
) -> CreatePartitionsTopicResult:
    error, message = ErrorCode.none, None
    try:
        if not dry:
            await node.topics.extend(asked.name, asked.count)
    except Refused as refused:
        error, message = refused.code, refused.message
    return CreatePartitionsTopicResult(name=asked.name, error_code=error, error_message=message)
