"""Any Kafka consumer reads every decision once it is in the log, and the feed has the same (G56, G73)."""

import asyncio
import time

import pytest
from confluent_kafka import Consumer

from schemas.topics import Topic
from tests.http.json_schema import Schemas
from tests.journeys.decision_topic import (
    PATIENCE_S,
    Json,
    Member,
    Told,
    agree,
    by_id,
    decide,
    events_for,
    feed,
)
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECISIONS = 24


def bootstrap(service: Service) -> str:
    """Where the embedded broker is."""
    return (service.data_dir / "broker" / "address").read_text(encoding="ascii").strip()


async def fed(service: Service, name: str, decisions: int = DECISIONS) -> dict[str, Json]:
    """The feed about subjects of a name, which has each event of so many decisions once."""
    found = await feed(service, service.test_key, name)
    assert len(found) == len({event["id"] for event in found}) == events_for(decisions)
    return {event["id"]: event for event in found}


async def test_a_group_of_two_reads_every_event_of_the_feed(service: Service) -> None:
    address = bootstrap(service)
    async with Member(address, "two") as first, Member(address, "two") as second:
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


async def test_a_member_that_leaves_loses_nothing(service: Service) -> None:
    address = bootstrap(service)
    async with Member(address, "leaving") as staying:
        async with Member(address, "leaving") as leaving:
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


async def test_a_group_that_comes_later_reads_from_the_beginning(service: Service) -> None:
    await decide(service, service.test_key, DECISIONS, "late")

    async with Member(bootstrap(service), "late") as member:
        await agree([member], "late", await fed(service, "late"))


async def test_librdkafka_reads_the_same(service: Service) -> None:
    await decide(service, service.test_key, DECISIONS, "other")
    wanted = await fed(service, "other")

    told = await asyncio.to_thread(read_with_librdkafka, bootstrap(service), "other", len(wanted))

    assert by_id(told, "other") == wanted


def read_with_librdkafka(address: str, name: str, count: int) -> list[Told]:
    """Read with two members of a group until so many events about subjects of a name are there."""
    options = {"bootstrap.servers": address, "group.id": name, "auto.offset.reset": "earliest"}
    members = [Consumer(options), Consumer(options)]
    told: list[Told] = []
    try:
        for member in members:
            member.subscribe([str(Topic.DECISIONS)])
        end = time.monotonic() + PATIENCE_S
        while len(by_id(told, name)) < count and time.monotonic() < end:
            for member in members:
                for record in member.consume(200, 0.1):
                    assert record.error() is None
                    told.append(Told(record.key() or b"", record.value() or b""))
    finally:
        for member in members:
            member.close()
    return told


async def test_records_are_as_their_description_says(service: Service) -> None:
    await decide(service, service.test_key, 5, "described")
    _, document = await service.get("/v1/asyncapi.json")
    async with Member(bootstrap(service), "described") as member:
        await agree([member], "described", await fed(service, "described", 5))
    schemas, payload = Schemas(document), document["components"]["messages"]["decision"]["payload"]

    assert document["channels"]["decisions"]["address"] == Topic.DECISIONS
    assert [wrong for told in member.found for wrong in schemas.complaints(told.event, payload)] == []
    assert [name for told in member.found for name in schemas.undeclared(told.event, payload)] == []
    keys = {told.key.decode() for told in member.found if told.event["id"] in by_id([told], "described")}
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
