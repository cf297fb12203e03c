"""Every version of every API the broker claims to serve is answered in that version's own bytes."""

import dataclasses
from datetime import timedelta
from typing import Any, get_args, get_origin

import pytest
from kio.index import load_request_schema
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.offset_commit.v8 import request as committing
from kio.schema.offset_fetch.v7 import request as fetching
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName, TransactionalId
from kio.static.primitive import i8, i32, i64

from app.broker.apis.table import build_table
from app.broker.server import Broker
from app.broker.wire import reword
from tests.broker.builders import Talk, one
from tests.broker.conftest import create_topic
from tests.broker.requests import fetch_request, milliseconds, produce_request

TABLE = build_table()
KEYS = sorted({key for key, _ in TABLE.by_version})


def versions(key: int) -> list[int]:
    """Return the versions served of an API."""
    return sorted(version for served, version in TABLE.by_version if served == key)


def smallest(words: type[Any]) -> Any:
    """Return a request with nothing in it."""
    return words(**{field.name: _nothing(field) for field in dataclasses.fields(words)})


def _nothing(field: "dataclasses.Field[Any]") -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    kind = field.type
    if get_origin(kind) is tuple or any(get_origin(option) is tuple for option in get_args(kind)):
        return ()
    if type(None) in get_args(kind):
        return None
    known: dict[Any, object] = {bool: False, bytes: b""}
    if isinstance(kind, type) and issubclass(kind, timedelta):
        return timedelta(0)
    if isinstance(kind, type) and issubclass(kind, str):
        return "x"
    return known.get(kind, 0)


def spoken(request: Any, version: int) -> Any:
    """Return the same request in another version."""
    return reword(request, load_request_schema(request.__api_key__, version))


@pytest.mark.parametrize("key", KEYS)
async def test_an_empty_request_of_every_version_is_answered(broker: Broker, key: int) -> None:
    for version in versions(key):
        async with await Talk.to(broker.port) as talk:
            request = smallest(load_request_schema(key, version))
            if key == 0:
                request = dataclasses.replace(request, acks=1)
            assert await talk.ask(request) is not None


async def test_api_versions_are_reported_in_every_version_and_claim_produce_from_0(broker: Broker) -> None:
    async with await Talk.to(broker.port) as talk:
        for version in versions(18):
            words = load_request_schema(18, version)
            answer = await talk.ask(smallest(words))
            result = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            assert result[0] == (0, 9)
            assert result[1] == (4, 12)


async def test_an_unknown_version_of_api_versions_is_answered_with_what_is_known(broker: Broker) -> None:
    async with await Talk.to(broker.port) as talk:
        talk.send(smallest(load_request_schema(18, 4)))
        answer = await talk.receive(load_request_schema(18, 0)())

    assert answer.error_code is ErrorCode.unsupported_version
    assert len(answer.api_keys) == len(KEYS)


@pytest.mark.parametrize("version", versions(0))
async def test_every_version_of_produce_writes(broker: Broker, version: int) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        answer = await talk.ask(spoken(produce_request("t", one(b"v")), version))

    outcome = answer.responses[0].partition_responses[0]
    assert (outcome.error_code, outcome.base_offset) == (ErrorCode.none, 0)


@pytest.mark.parametrize("version", versions(1))
async def test_every_version_of_fetch_reads(broker: Broker, version: int) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        await talk.ask(produce_request("t", one(b"value")))
        answer = await talk.ask(spoken(fetch_request("t", 0), version))

    fetched = answer.responses[0].partitions[0]
    assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.none, 1)
    assert b"value" in fetched.records


@pytest.mark.parametrize("version", versions(11))
async def test_a_group_works_in_every_version_of_its_protocol(broker: Broker, version: int) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        member = await _joined(talk, version)
        assert member.leader == member.member_id
        given = SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all of it")
        sync = SyncGroupRequest(
            group_id=GroupId("g"),
            generation_id=i32(1),
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(given,),
        )
        synced = await talk.ask(spoken(sync, min(version, 5)))
        beat = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id=member.member_id)
        beaten = await talk.ask(spoken(beat, min(version, 4)))
        committed = await talk.ask(spoken(_commit(member.member_id), min(version + 2, 8)))
        fetched = await talk.ask(spoken(_committed(), min(version + 1, 7)))
        left = await _left(talk, member.member_id, min(version, 5))

    assert synced.assignment == b"all of it"
    assert {beaten.error_code, left.error_code} == {ErrorCode.none}
    assert committed.topics[0].partitions[0].error_code is ErrorCode.none
    assert fetched.topics[0].partitions[0].committed_offset == 7


async def _joined(talk: Talk, version: int) -> Any:
    join = JoinGroupRequest(
        group_id=GroupId("g"),
        session_timeout=milliseconds(6000),
        rebalance_timeout=milliseconds(6000),
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"subscription"),),
    )
    answer = await talk.ask(spoken(join, version))
    if answer.error_code is ErrorCode.member_id_required:
        assert version >= 4
        again = dataclasses.replace(join, member_id=answer.member_id)
        answer = await talk.ask(spoken(again, version))
    assert answer.error_code is ErrorCode.none
    return answer


def _commit(member_id: str) -> committing.OffsetCommitRequest:
    partition = committing.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(7), committed_metadata="m"
    )
    topic = committing.OffsetCommitRequestTopic(name=TopicName("t"), partitions=(partition,))
    return committing.OffsetCommitRequest(
        group_id=GroupId("g"), generation_id_or_member_epoch=i32(1), member_id=member_id, topics=(topic,)
    )


def _committed() -> fetching.OffsetFetchRequest:
    topic = fetching.OffsetFetchRequestTopic(name=TopicName("t"), partition_indexes=(i32(0),))
    return fetching.OffsetFetchRequest(group_id=GroupId("g"), topics=(topic,), require_stable=False)


async def _left(talk: Talk, member_id: str, version: int) -> Any:
    if version < 3:
        words: Any = load_request_schema(13, version)
        return await talk.ask(words(group_id=GroupId("g"), member_id=member_id))
    leave = LeaveGroupRequest(group_id=GroupId("g"), members=(MemberIdentity(member_id=member_id),))
    return await talk.ask(spoken(leave, version))


@pytest.mark.parametrize("version", versions(3))
async def test_every_version_of_metadata_names_this_broker_and_its_topics(
    broker: Broker, version: int
) -> None:
    await create_topic(broker.address, "t", partitions=2)
    asked = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName("t")),),
        include_topic_authorized_operations=False,
    )
    async with await Talk.to(broker.port) as talk:
        answer = await talk.ask(spoken(asked, version))

    assert [(node.host, node.port) for node in answer.brokers] == [("127.0.0.1", broker.port)]
    assert [len(topic.partitions) for topic in answer.topics] == [2]


async def test_a_topic_is_found_by_its_id(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        everything = MetadataRequest(topics=None, include_topic_authorized_operations=False)
        known = (await talk.ask(everything)).topics[0]
        by_id = MetadataRequestTopic(topic_id=known.topic_id, name=None)
        answer = await talk.ask(dataclasses.replace(everything, topics=(by_id,)))

    assert answer.topics == (known,)


async def test_transactions_find_no_coordinator_and_no_producer_id(broker: Broker) -> None:
    refused = ErrorCode.transactional_id_authorization_failed
    async with await Talk.to(broker.port) as talk:
        found = await talk.ask(FindCoordinatorRequest(key_type=i8(1), coordinator_keys=("tx",)))
        started = await talk.ask(
            InitProducerIdRequest(
                transactional_id=TransactionalId("tx"), transaction_timeout=milliseconds(1000)
            )
        )

    assert (found.coordinators[0].error_code, started.error_code) == (refused, refused)
    assert "transactions" in found.coordinators[0].error_message


async def test_the_newest_java_handshake_is_understood(broker: Broker) -> None:
    request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.1.0")
    async with await Talk.to(broker.port) as talk:
        assert (await talk.ask(request)).error_code is ErrorCode.none
