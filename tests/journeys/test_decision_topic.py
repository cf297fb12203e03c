"""Any Kafka consumer reads every decision once it is in the log, and the feed has the same (G56, G73)."""

import asyncio
import time

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from confluent_kafka import Consumer
from kio.schema.errors import ErrorCode

from schemas.topics import Topic
from tests.broker.builders import Talk, one
from tests.broker.requests import fetch_request, produce_request
from tests.broker.signing_in import sign_in
from tests.http.json_schema import Schemas
from tests.journeys.decision_topic import (
    PATIENCE_S,
    Json,
    Member,
    TopicRecord,
    agree,
    by_id,
    client_of,
    decide,
    events_for,
    feed,
    new_reader,
)
from tests.journeys.service import Service, run_preloaded, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECISIONS = 24


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def made(service: Service) -> Json:
    """A user for a downstream system, as the command prints it."""
    return await new_reader(service, "downstream")


async def fed(service: Service, name: str, decisions: int = DECISIONS) -> dict[str, Json]:
    """The feed about subjects of a name, which has each event of so many decisions once."""
    found = await feed(service, service.test_key, name)
    assert len(found) == len({event["id"] for event in found}) == events_for(decisions)
    return {event["id"]: event for event in found}


async def test_a_group_of_two_reads_every_event_of_the_feed(service: Service, made: Json) -> None:
    client = client_of(made)
    async with Member(client, "downstream.two") as first, Member(client, "downstream.two") as second:
        await share(first, second)
        await decide(service, service.test_key, DECISIONS, "two")

        await agree([first, second], "two", await fed(service, "two"))
        assert by_id(first.found, "two")
        assert by_id(second.found, "two")


async def share(first: Member, second: Member) -> None:
    """Wait until each has half of the partitions."""
    async with asyncio.timeout(PATIENCE_S):
        while not first.partitions == second.partitions == 4:  # noqa: ASYNC110 - the group's own doing
            await asyncio.sleep(0.05)


async def test_a_member_that_leaves_loses_nothing(service: Service, made: Json) -> None:
    client = client_of(made)
    async with Member(client, "downstream.leaving") as staying:
        async with Member(client, "downstream.leaving") as leaving:
            await share(staying, leaving)
            deciding = asyncio.create_task(decide(service, service.test_key, DECISIONS, "leaving"))
            await has_read(leaving, "leaving")
        await deciding

        await agree([staying, leaving], "leaving", await fed(service, "leaving"))


async def has_read(member: Member, name: str) -> None:
    """Wait until a member was given anything about subjects of the name."""
    async with asyncio.timeout(PATIENCE_S):
        while not by_id(member.found, name):  # noqa: ASYNC110 - another task reads
            await asyncio.sleep(0.01)


async def test_a_group_that_comes_later_reads_from_the_beginning(service: Service, made: Json) -> None:
    await decide(service, service.test_key, DECISIONS, "late")

    async with Member(client_of(made), "downstream.late") as member:
        await agree([member], "late", await fed(service, "late"))


async def test_librdkafka_reads_the_same(service: Service, made: Json) -> None:
    await decide(service, service.test_key, DECISIONS, "other")
    wanted = await fed(service, "other")

    result = await asyncio.to_thread(read_with_librdkafka, made["client_configuration"], "other", len(wanted))

    assert by_id(result, "other") == wanted


def read_with_librdkafka(configuration: Json, name: str, count: int) -> list[TopicRecord]:
    """Read with two members of a group until so many events about subjects of a name are there."""
    options = {**configuration, "auto.offset.reset": "earliest"}
    members = [Consumer(options), Consumer(options)]
    responses: list[TopicRecord] = []
    try:
        for member in members:
            member.subscribe([str(Topic.DECISIONS)])
        end = time.monotonic() + PATIENCE_S
        while len(by_id(responses, name)) < count and time.monotonic() < end:
            for member in members:
                for record in member.consume(200, 0.1):
                    assert record.error() is None
                    responses.append(TopicRecord(record.key() or b"", record.value() or b""))
    finally:
        for member in members:
            member.close()
    return responses


async def test_records_are_as_their_description_says(service: Service, made: Json) -> None:
    await decide(service, service.test_key, 5, "described")
    _, document = await service.get("/v1/asyncapi.json")
    async with Member(client_of(made), "downstream.described") as member:
        await agree([member], "described", await fed(service, "described", 5))
    schemas, payload = Schemas(document), document["components"]["messages"]["decision"]["payload"]

    assert document["channels"]["decisions"]["address"] == Topic.DECISIONS
    assert [wrong for answer in member.found for wrong in schemas.complaints(answer.event, payload)] == []
    assert [name for answer in member.found for name in schemas.undeclared(answer.event, payload)] == []
    keys = {
        answer.key.decode() for answer in member.found if answer.event["id"] in by_id([answer], "described")
    }
    assert keys == {f"{service.tenant_id}:{subject}" for subject in subjects(member, "described")}


def subjects(member: Member, name: str) -> set[str]:
    """The subjects of a name that a member read about."""
    return {event["data"]["subject_id"] for event in by_id(member.found, name).values()}


async def test_a_receiver_that_was_away_catches_up_by_the_feed(service: Service) -> None:
    await decide(service, service.test_key, 5, "before")
    last = (await feed(service, service.test_key))[-1]["id"]
    await decide(service, service.test_key, 5, "after")

    missed = await feed(service, service.test_key, after=last)

    assert len(missed) == events_for(5)
    assert all("@after-" in event["data"]["subject_id"] for event in missed)


async def test_a_deployment_answers_nothing_to_a_client_without_a_credential(
    service: Service, made: Json
) -> None:
    for words in ({}, {**client_of(made), "sasl_plain_password": "guessed"}):
        consumer = AIOKafkaConsumer(**{"bootstrap_servers": made["bootstrap"], **words})
        with pytest.raises(KafkaError):
            await consumer.start()
        await consumer.stop()
    assert {path.stat().st_mode & 0o777 for path in (service.data_dir / "broker-users").iterdir()} == {0o600}


async def test_a_reader_of_a_deployment_reads_and_writes_no_command(made: Json) -> None:
    denied = ErrorCode.topic_authorization_failed
    consumer = AIOKafkaConsumer(**client_of(made))
    await consumer.start()
    assert await consumer.topics() == {str(Topic.DECISIONS)}
    await consumer.stop()
    async with await Talk.to(int(made["bootstrap"].rpartition(":")[2])) as talk:
        assert await sign_in(talk, made["user"], made["password"]) is ErrorCode.none
        for topic in set(Topic) - {Topic.DECISIONS}:
            read = await talk.ask(fetch_request(str(topic), 0))
            written = await talk.ask(produce_request(str(topic), one(b"forged")))
            assert read.responses[0].partitions[0].error_code is denied
            assert written.responses[0].partition_responses[0].error_code is denied
        written = await talk.ask(produce_request(str(Topic.DECISIONS), one(b"forged")))
        assert written.responses[0].partition_responses[0].error_code is denied


async def test_a_user_is_listed_and_deleted_while_the_service_runs(service: Service) -> None:
    made = await new_reader(service, "passing")
    listed = await veristream_json(service.data_dir, "broker-user", "list")
    again, _, complaint = await run_preloaded(service.data_dir, "broker-user", "create", "passing")
    await veristream_json(service.data_dir, "broker-user", "delete", "passing")
    consumer = AIOKafkaConsumer(**client_of(made))
    with pytest.raises(KafkaError):
        await consumer.start()
    await consumer.stop()

    assert "passing" in {user["user"] for user in listed}
    assert made["password"] not in str(listed)
    assert (again, "there is a user passing already" in complaint) == (2, True)
