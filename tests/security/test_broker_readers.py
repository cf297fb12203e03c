"""A downstream reader reads the topics that are public to it, in groups of its own, and does nothing else."""

import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8
from structlog.testing import capture_logs

from app.broker.apis.refusals import READER_KEYS, REFUSALS
from app.broker.coordinator import MAX_READER_GROUPS
from app.broker.users import OWNER, Access
from tests.broker.builders import Talk, one
from tests.broker.frames import SERVED, fullest
from tests.broker.requests import fetch_request, milliseconds, produce_request
from tests.broker.signing_in import FORBIDDEN, READABLE, Guarded, guarded_broker
from tests.broker.test_versions import versions

DENIED = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
}
OWN_GROUP, FOREIGN_GROUP = "billing.nightly", "veristream-v1"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep what the broker logs off the screen."""
    with capture_logs():
        yield


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A broker with a record in a readable and in another topic, and offsets of the service's own group."""
    async with guarded_broker(tmp_path) as running:
        async with running.talk(OWNER) as talk:
            for topic in (READABLE, FORBIDDEN):
                await talk.ask(described(topic))
                answer = await talk.ask(produce_request(topic, one(b"secret")))
                assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
            committed = await talk.ask(filled(8, 8, FORBIDDEN, FOREIGN_GROUP))
            assert codes(committed) == {ErrorCode.none}
        yield running


def described(*topics: str) -> MetadataRequest:
    """Return a request for topics by their names."""
    asked = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics)
    return MetadataRequest(topics=asked, include_topic_authorized_operations=False)


def filled(key: int, version: int, topic: str, group: str) -> Any:
    """Return a request about partition 0 of a topic and about a group, with an item in every array."""
    return _named(fullest(load_request_schema(key, version)), topic, group)


def _named(entity: Any, topic: str, group: str) -> Any:
    names = {
        "topic": topic, "name": topic, "topic_names": (topic,), "group_id": group, "groups": (group,),
        "groups_names": (group,), "key": group, "coordinator_keys": (group,), "member_id": "",
        "group_instance_id": None, "partition_index": 0, "partition": 0, "index": 0, "partitions": (0,),
        "partition_indexes": (0,), "key_type": 0, "transactional_id": None, "session_id": 0, "acks": -1,
        "session_epoch": -1,
        "generation_id_or_member_epoch": -1, "generation_id": -1, "resource_type": 2, "resource_name": topic,
        "timestamp": -1, "fetch_offset": 0, "isolation_level": 0, "states_filter": (), "types_filter": (),
        "count": 5, "num_partitions": 1, "replication_factor": 1, "assignments": (), "committed_metadata": "",
    }  # fmt: skip
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changed[field.name] = tuple(_named(item, topic, group) for item in value)
        elif field.name in names:
            changed[field.name] = names[field.name]
    return dataclasses.replace(entity, **changed)


def codes(answer: Any) -> set[ErrorCode]:
    """Return the error codes of the innermost items of an answer that have one."""
    found: set[ErrorCode] = set()
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, tuple):
            for item in value:
                if dataclasses.is_dataclass(item):
                    found |= codes(item)
    own = getattr(answer, "error_code", None)
    return found or ({ErrorCode(own)} if own is not None else set())


ABOUT_TOPICS = (1, 2, 8, 23)
ABOUT_GROUPS = (8, 9, 10, 11, 12, 13, 14, 15)


def test_every_api_is_either_safe_for_readers_or_refused_to_them() -> None:
    served = {key for key, _ in SERVED}
    assert READER_KEYS | REFUSALS.keys() == served
    assert not READER_KEYS & REFUSALS.keys()


@pytest.mark.parametrize("key", sorted(REFUSALS))
async def test_a_reader_changes_nothing(guarded: Guarded, key: int) -> None:
    async with guarded.talk("billing") as talk:
        for version in versions(key):
            for topic in (READABLE, FORBIDDEN):
                answer = await talk.ask(filled(key, version, topic, OWN_GROUP))
                if (key, version) in {(35, 1), (35, 2)}:  # they have no place for an error
                    assert answer.results == ()
                else:
                    assert codes(answer)
                    assert codes(answer) <= DENIED


@pytest.mark.parametrize("key", ABOUT_TOPICS)
async def test_a_reader_learns_nothing_of_another_topic(guarded: Guarded, key: int) -> None:
    async with guarded.talk("billing") as talk:
        for version in versions(key):
            for topic in (FORBIDDEN, "never-made"):
                answer = await talk.ask(filled(key, version, topic, OWN_GROUP))
                assert codes(answer) == {ErrorCode.topic_authorization_failed}
                assert "secret" not in repr(answer)


async def test_a_reader_reads_no_other_topic_in_a_fetch_session(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        begun = await talk.ask(fetch_request(FORBIDDEN, 0, session_epoch=0))
        answers = [begun] + [
            await talk.ask(fetch_request(FORBIDDEN, 0, session_id=begun.session_id, session_epoch=epoch))
            for epoch in (1, 2)
        ]

    assert begun.session_id
    assert [codes(answer) for answer in answers] == [{ErrorCode.topic_authorization_failed}] * 3
    assert "secret" not in repr(answers)


@pytest.mark.parametrize("key", ABOUT_GROUPS)
async def test_a_reader_touches_no_group_of_another(guarded: Guarded, key: int) -> None:
    async with guarded.talk("billing") as talk:
        for version in versions(key):
            for group in (FOREIGN_GROUP, "billing2", "billing-nightly", "Billing", ""):
                answer = await talk.ask(filled(key, version, READABLE, group))
                assert codes(answer) == {ErrorCode.group_authorization_failed}, group


async def test_a_reader_sees_only_its_topics_and_groups(guarded: Guarded) -> None:
    everything = MetadataRequest(topics=None, include_topic_authorized_operations=False)
    async with guarded.talk("billing") as talk, guarded.talk(OWNER) as owner:
        own_id = {topic.name: topic.topic_id for topic in (await owner.ask(everything)).topics}
        seen = (await talk.ask(everything)).topics
        named = (await talk.ask(described(FORBIDDEN, "never-made", READABLE))).topics
        by_id = MetadataRequestTopic(topic_id=own_id[FORBIDDEN], name=None)
        hidden = (await talk.ask(dataclasses.replace(everything, topics=(by_id,)))).topics
        groups = (await talk.ask(ListGroupsRequest(states_filter=(), types_filter=()))).groups

    assert [topic.name for topic in seen] == [READABLE]
    assert [topic.error_code for topic in named] == [
        ErrorCode.topic_authorization_failed,
        ErrorCode.topic_authorization_failed,
        ErrorCode.none,
    ]
    assert [topic.error_code for topic in hidden] == [ErrorCode.unknown_topic_id]
    assert groups == ()


async def test_a_reader_joins_and_commits_in_a_group_of_its_own_and_reads(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        found = await talk.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(OWN_GROUP,)))
        joined = await talk.ask(joining(OWN_GROUP))
        fetched = await talk.ask(fetch_request(READABLE, 0))

    assert (found.coordinators[0].error_code, joined.error_code) == (ErrorCode.none, ErrorCode.none)
    assert b"secret" in fetched.responses[0].partitions[0].records


async def test_a_commit_of_a_reader_to_another_topic_is_refused_and_its_own_is_kept(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        own = codes(await talk.ask(filled(8, 8, READABLE, OWN_GROUP)))
        other = codes(await talk.ask(filled(8, 8, FORBIDDEN, OWN_GROUP)))

    assert (own, other) == ({ErrorCode.none}, {ErrorCode.topic_authorization_failed})


async def test_a_reader_that_produces_without_asking_for_an_answer_writes_nothing(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        talk.send(produce_request(FORBIDDEN, one(b"forged"), acks=0))
        await talk.ask(described(READABLE))
    partition = guarded.broker._topics.partition(FORBIDDEN, 0)
    assert partition is not None
    assert partition.next_offset == 1


async def test_the_service_itself_may_do_everything(guarded: Guarded) -> None:
    async with guarded.talk(OWNER) as talk:
        for key in (*ABOUT_TOPICS, *ABOUT_GROUPS):
            answer = await talk.ask(filled(key, max(versions(key)), FORBIDDEN, "any"))
            assert not codes(answer) & DENIED, key


def test_a_group_belongs_to_the_user_it_is_named_after() -> None:
    billing = Access("billing", frozenset({READABLE}))
    mine = ("billing", "billing.a", "billing.")
    others = ("billin", "billing-a", "billinga", "a.billing", "", ".billing")
    assert all(billing.may_use(group) for group in mine)
    assert not any(billing.may_use(group) for group in others)


async def test_bytes_of_a_signed_in_reader_end_no_broker(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        talk.writer.write(b"\0\0\0\x16" + b"\0\x03\0\x01\0\0\0\x01\xff\xff" + b"\x7f\xff\xff\xff" + bytes(8))
        assert await talk.closed()
    async with await Talk.to(guarded.broker.port) as talk:
        assert (await talk.ask(load_request_schema(18, 0)())).api_keys


def joining(group: str, metadata: bytes = b"") -> JoinGroupRequest:
    """Return the first join of a member that is admitted at once."""
    return JoinGroupRequest(
        group_id=GroupId(group),
        session_timeout=milliseconds(60_000),
        rebalance_timeout=milliseconds(60_000),
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


async def test_a_readers_groups_are_few_and_the_services_are_not_counted_with_them(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        commits = [codes(await talk.ask(filled(8, 8, READABLE, f"billing.{n}"))) for n in range(10)]
        joined = await talk.ask(joining("billing.more"))
    async with guarded.talk(OWNER) as talk:
        own = await talk.ask(joining("veristream-other"))

    assert commits == [{ErrorCode.none}] * MAX_READER_GROUPS + [{ErrorCode.group_max_size_reached}] * 2
    assert (joined.error_code, own.error_code) == (ErrorCode.group_max_size_reached, ErrorCode.none)


async def test_a_readers_subscriptions_are_kept_up_to_its_share(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        answers = [await talk.ask(joining(f"billing.{n}", bytes(100_000))) for n in range(4)]
        large = await talk.ask(joining("billing", bytes(1_000_000)))

    assert [answer.error_code for answer in answers[:2]] == [ErrorCode.none] * 2
    assert {answer.error_code for answer in (*answers[2:], large)} == {ErrorCode.group_max_size_reached}
