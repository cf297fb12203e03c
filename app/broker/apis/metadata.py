"""Metadata, DescribeCluster and FindCoordinator; on one node the answer is always this one."""

import uuid

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.find_coordinator.v4 import request as many
from kio.schema.find_coordinator.v4 import response as found
from kio.schema.metadata.v10.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from app.broker.errors import Refused
from app.broker.node import LEADER_EPOCH, NODE_ID, Call
from app.broker.topics import Topic
from app.broker.wire import NO_THROTTLE

_THIS_NODE = BrokerId(NODE_ID)
_GROUP_KEY = 0


async def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Describe the requested topics; create unknown ones when both sides allow it."""
    everything = request.topics is None or (call.version == 0 and not request.topics)
    if everything:
        topics = [_described(topic) for topic in call.node.topics if call.access.may_read(topic.name)]
    else:
        may_create = request.allow_auto_topic_creation and call.node.settings.auto_create_topics
        topics = [await _asked(call, topic, may_create=may_create) for topic in request.topics or ()]
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(MetadataResponseBroker(node_id=_THIS_NODE, host=call.host, port=i32(call.port)),),
        cluster_id=call.node.cluster_id,
        controller_id=_THIS_NODE,
        topics=tuple(topics),
    )


async def _asked(call: Call, asked: MetadataRequestTopic, *, may_create: bool) -> MetadataResponseTopic:
    node, access = call.node, call.access
    if asked.name is None:
        topic = node.topics.by_id(asked.topic_id)
        if topic is None or not access.may_read(topic.name):
            return _unknown("", ErrorCode.unknown_topic_id, asked.topic_id)
        return _described(topic)
    if not access.may_read(asked.name):
        return _unknown(asked.name, ErrorCode.topic_authorization_failed)
    topic = node.topics.get(asked.name)
    if topic is None and may_create and access.unlimited:
        try:
            topic = await node.topics.create(asked.name, -1, {})
        except Refused as refused:
            topic = node.topics.get(asked.name)
            if topic is None:
                return _unknown(asked.name, refused.code)
    return _described(topic) if topic else _unknown(asked.name, ErrorCode.unknown_topic_or_partition)


def _unknown(name: str, error: ErrorCode, topic_id: uuid.UUID | None = None) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=TopicName(name), topic_id=topic_id, partitions=())


def _described(topic: Topic) -> MetadataResponseTopic:
    partitions = tuple(
        MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=i32(index),
            leader_id=_THIS_NODE,
            leader_epoch=i32(LEADER_EPOCH),
            replica_nodes=(_THIS_NODE,),
            isr_nodes=(_THIS_NODE,),
            offline_replicas=(),
        )
        for index in range(len(topic.partitions))
    )
    name = TopicName(topic.name)
    return MetadataResponseTopic(
        error_code=ErrorCode.none, name=name, topic_id=topic.id, partitions=partitions
    )


def describe_cluster(call: Call, _request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Name the cluster and its one broker."""
    broker = DescribeClusterBroker(broker_id=_THIS_NODE, host=call.host, port=i32(call.port))
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        cluster_id=call.node.cluster_id,
        controller_id=_THIS_NODE,
        brokers=(broker,),
    )


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return this node for groups; transactions are not supported."""
    error, message = _coordinates(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        node_id=_THIS_NODE,
        host=call.host,
        port=i32(call.port),
    )


def find_coordinators(call: Call, request: many.FindCoordinatorRequest) -> found.FindCoordinatorResponse:
    """The same for several keys at once (KIP-699)."""
    answers = ((key, *_coordinates(call, request.key_type, key)) for key in request.coordinator_keys)
    coordinators = tuple(
        found.Coordinator(
            key=key,
            node_id=_THIS_NODE,
            host=call.host,
            port=i32(call.port),
            error_code=error,
            error_message=message,
        )
        for key, error, message in answers
    )
    return found.FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


def _coordinates(call: Call, key_type: int, key: str) -> tuple[ErrorCode, str | None]:
    if key_type == _GROUP_KEY:
        return call.group_error(key), None
    message = "transactions are not served by the embedded broker"
    return ErrorCode.transactional_id_authorization_failed, message
