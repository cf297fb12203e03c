"""Produce: append one batch per partition, and answer when it is durable; and InitProducerId."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from app.broker.errors import Refused
from app.broker.log import PartitionLog
from app.broker.node import Call, Node
from app.broker.wire import NO_THROTTLE


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """The result of a batch: its offset or error; the field names are the wire's."""

    index: int
    error_code: ErrorCode
    base_offset: int = -1
    log_append_time: datetime | None = None
    log_start_offset: int = -1
    record_errors: tuple[()] = ()
    error_message: str | None = None


class ProducedTopic(NamedTuple):
    """The partitions of one topic."""

    name: str
    partition_responses: tuple[ProducedPartition, ...]


class Produced(NamedTuple):
    """The answer to a Produce request."""

    responses: tuple[ProducedTopic, ...]
    throttle_time: timedelta = NO_THROTTLE


Durable = list[tuple[asyncio.Future[None], tuple[str, int]]]


def produce(call: Call, request: ProduceRequest) -> object:
    """Append; with acks 0 there is no response, and a failure does not close the connection."""
    durable: Durable = []
    topics = []
    for topic in request.topic_data:
        partitions = tuple(_append(call.node, topic.name, part, durable) for part in topic.partition_data)
        topics.append(ProducedTopic(topic.name, partitions))
    if not request.acks:
        return None
    answer = Produced(tuple(topics))
    return _when_durable(answer, durable) if durable else answer


def _append(node: Node, topic: str, part: PartitionProduceData, durable: Durable) -> ProducedPartition:
    partition = node.topics.partition(topic, part.index)
    if partition is None:
        return ProducedPartition(part.index, ErrorCode.unknown_topic_or_partition)
    try:
        base_offset = partition.append(part.records or b"")
    except Refused as refused:
        return ProducedPartition(part.index, refused.code, error_message=refused.message)
    synced = node.flusher.written(partition)
    if synced is not None:
        durable.append((synced, (topic, part.index)))
    appended = _appended(partition)
    return ProducedPartition(part.index, ErrorCode.none, base_offset, appended, _start(partition))


def _appended(partition: PartitionLog) -> datetime | None:
    """Return the time the records carry when it is the append's; None: they carry their producer's."""
    at = partition.appended_ms
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


def _start(partition: PartitionLog) -> int:
    return partition.start_offset


async def _when_durable(answer: Produced, durable: Durable) -> Produced:
    outcomes = await asyncio.gather(*(synced for synced, _ in durable), return_exceptions=True)
    failed = {
        place: outcome
        for (_, place), outcome in zip(durable, outcomes, strict=True)
        if isinstance(outcome, Refused)
    }
    return _with_failures(answer, failed) if failed else answer


def _with_failures(answer: Produced, failed: dict[tuple[str, int], Refused]) -> Produced:
    def with_hint(topic: str, part: ProducedPartition) -> ProducedPartition:
        refused = failed.get((topic, part.index))
        if refused is None:
            return part
        return ProducedPartition(part.index, refused.code, error_message=refused.message)

    topics = (
        topic._replace(partition_responses=tuple(with_hint(topic.name, p) for p in topic.partition_responses))
        for topic in answer.responses
    )
    return answer._replace(responses=tuple(topics))


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give an idempotent producer its id; a transactional one is refused."""
    if request.transactional_id is not None:
        return _producer(-1, -1, ErrorCode.transactional_id_authorization_failed)
    try:
        return _producer(await call.node.producer_ids.fresh(), 0, ErrorCode.none)
    except Refused as refused:
        return _producer(-1, -1, refused.code)


def _producer(producer_id: int, epoch: int, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
