"""Error responses to read-only users for the APIs that change or reveal more."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.create_partitions.v3 import request as growth
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse, DescribeConfigsResult
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from app.broker.apis.describe import TOPIC_RESOURCE
from app.broker.apis.produce import Produced, ProducedPartition, ProducedTopic
from app.broker.wire import NO_THROTTLE

_TOPIC: Final = ErrorCode.topic_authorization_failed
_GROUP: Final = ErrorCode.group_authorization_failed
_CLUSTER: Final = ErrorCode.cluster_authorization_failed


def _produce(request: ProduceRequest) -> Produced | None:
    topics = (
        ProducedTopic(
            topic.name, tuple(ProducedPartition(part.index, _TOPIC) for part in topic.partition_data)
        )
        for topic in request.topic_data
    )
    return Produced(tuple(topics)) if request.acks else None


def _create_topics(request: CreateTopicsRequest) -> CreateTopicsResponse:
    topics = (
        CreatableTopicResult(
            name=topic.name, topic_id=None, error_code=_TOPIC, error_message=None, configs=None
        )
        for topic in request.topics
    )
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _create_partitions(request: growth.CreatePartitionsRequest) -> CreatePartitionsResponse:
    results = (CreatePartitionsTopicResult(name=topic.name, error_code=_TOPIC) for topic in request.topics)
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _delete_topics(request: Any) -> DeleteTopicsResponse:
    """Answer both forms of the request: a list of names, and since version 6 of names or ids."""
    asked = getattr(request, "topics", None)
    named = [(name, None) for name in request.topic_names] if asked is None else [
        (topic.name, topic.topic_id) for topic in asked
    ]  # fmt: skip
    responses = (
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=_TOPIC) for name, topic_id in named
    )
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


def _init_producer_id(_request: object) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=_CLUSTER, producer_id=ProducerId(-1), producer_epoch=i16(-1)
    )


def _describe_configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = (
        DescribeConfigsResult(
            error_code=_of_resource(resource.resource_type),
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
        for resource in request.resources
    )
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _alter_configs(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    responses = (
        AlterConfigsResourceResponse(
            error_code=_of_resource(resource.resource_type),
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    )
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


def _of_resource(resource_type: int) -> ErrorCode:
    return _TOPIC if resource_type == TOPIC_RESOURCE else _CLUSTER


def _describe_log_dirs(_request: object) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=_CLUSTER, results=())


def _delete_groups(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = (DeletableGroupResult(group_id=name, error_code=_GROUP) for name in request.groups_names)
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _offset_delete(_request: object) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=_GROUP, throttle_time=NO_THROTTLE, topics=())


REFUSALS: Final[Mapping[int, Callable[[Any], object]]] = {
    0: _produce,
    19: _create_topics,
    20: _delete_topics,
    22: _init_producer_id,
    32: _describe_configs,
    35: _describe_log_dirs,
    37: _create_partitions,
    42: _delete_groups,
    44: _alter_configs,
    47: _offset_delete,
}
"""By API key; these do nothing for a user who may only read."""

READER_KEYS: Final = frozenset({1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 23, 36, 60})
"""The APIs that look themselves at what the user may read; no other is served to it."""
