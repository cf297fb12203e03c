"""The main job over a real Kafka and a real Cassandra, from `migrate` to a restart of everything."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from schemas.topics import TOPICS, Topic
from tests.engines.house import House, open_house
from tests.journeys.decision_topic import Member, agree, decide, events_for, feed
from tests.journeys.service import hopper, request_for, small_request

pytestmark = [pytest.mark.engines, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A deployment with a tenant."""
    async with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


async def sandbox(house: House, subject: str, key: str | None = None) -> tuple[int, dict[str, Any]]:
    """Post a sandbox verification."""
    body, test_key = small_request(subject), house.service.test_key
    status, answer, _ = await house.service.post(body, key=test_key, idempotency=key)
    return status, answer


async def read_decisions(bootstrap: str, verification_id: str, count: int) -> dict[str, dict[str, Any]]:
    """Read the decision topic as any program would, until so many events of a verification were found."""
    partitions = next(spec.partitions for spec in TOPICS if spec.topic is Topic.DECISIONS)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    found: dict[str, dict[str, Any]] = {}
    try:
        consumer.assign([TopicPartition(str(Topic.DECISIONS), number) for number in range(partitions)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(180):
            while len(found) < count:
                event = json.loads((await consumer.getone()).value)
                if event["data"].get("verification_id") == verification_id:
                    found[event["type"]] = event
    finally:
        await consumer.stop()
    return found


async def test_migrating_what_is_new_changes_nothing(house: House) -> None:
    done = await house.command("migrate")

    assert done["from"] == done["to"]


async def test_a_good_passport_and_its_holder_are_approved(house: House) -> None:
    status, body, _ = await house.service.post(request_for(hopper(), subject_id="approved-1"))

    assert (status, body["status"], body["decision"]) == (201, "APPROVED", "ALLOW")
    assert body["document"]["extracted_fields"]["surname"] == "ERIKSSON"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("sim:approved@a", (201, "APPROVED")),
        ("sim:warn@a", (201, "APPROVED")),
        ("sim:reject:DOCUMENT_EXPIRED@a", (201, "REJECTED")),
        ("sim:review@a", (201, "REVIEW_REQUIRED")),
    ],
)
async def test_a_sandbox_subject_decides_as_its_name_says(
    house: House, subject: str, expected: tuple[int, str]
) -> None:
    status, answer = await sandbox(house, subject)

    assert (status, answer["status"]) == expected


async def test_fifty_equal_requests_at_once_give_one_record(house: House) -> None:
    answers = await asyncio.gather(*(sandbox(house, "sim:warn@fifty", "fifty") for _ in range(50)))

    key = house.service.test_key
    _, listed = await house.service.get("/v1/verifications", key=key, subject_id="sim:warn@fifty")
    assert len({answer["verification_id"] for _, answer in answers}) == 1
    assert sorted(status for status, _ in answers) == [200] * 49 + [201]
    assert len(listed["verifications"]) == 1


async def test_a_plain_consumer_reads_the_decision_events(house: House) -> None:
    _, created = await sandbox(house, "sim:reject:DOCUMENT_EXPIRED@t")

    found = await read_decisions(house.kafka.bootstrap, created["verification_id"], 2)

    assert set(found) == {"verification.completed", "verification.rejected"}
    assert found["verification.rejected"]["data"]["reason_codes"] == ["DOCUMENT_EXPIRED"]


async def test_the_feed_and_the_topic_agree(house: House) -> None:
    await decide(house.service, house.service.test_key, 10, "agree")

    wanted = await caught_up(house, "agree", events_for(10))
    async with Member({"bootstrap_servers": house.kafka.bootstrap}, "agree") as member:
        await agree([member], "agree", wanted)


async def caught_up(house: House, name: str, count: int) -> dict[str, Any]:
    """The feed about subjects of a name as soon as it has so many events; it shows them once they settled."""
    async with asyncio.timeout(180):
        while True:
            found = {event["id"]: event for event in await feed(house.service, house.service.test_key, name)}
            if len(found) == count:
                return found
            await asyncio.sleep(0.2)


async def test_a_verification_is_readable_at_once_with_its_audit_row(house: House) -> None:
    _, created = await sandbox(house, "sim:approved@readable")

    key = house.service.test_key
    read = await house.service.get(f"/v1/verifications/{created['verification_id']}", key=key)
    _, audit = await house.service.get("/v1/audit", key=key, subject_id="sim:approved@readable")
    assert read == (200, created)
    assert [row["action"] for row in audit["events"]] == ["verification.evaluated"]


async def test_everything_is_there_after_everything_was_killed(house: House) -> None:
    _, before = await sandbox(house, "sim:approved@before", "before")
    await house.restart_everything()

    key = house.service.test_key
    read = await house.service.get(f"/v1/verifications/{before['verification_id']}", key=key)
    replayed = await sandbox(house, "sim:approved@before", "before")
    status, _ = await sandbox(house, "sim:approved@after")
    assert read == replayed == (200, before)
    assert status == 201


async def test_the_audit_chains_hold(house: House) -> None:
    await sandbox(house, "sim:approved@audited")
    status, reports = await house.verify_audit()

    report = reports[house.service.tenant_id]
    assert (status, report["ok"]) == (0, True)
    assert report["rows"] > 0


async def test_the_doctor_finds_nothing_wrong(house: House) -> None:
    found = await house.command("doctor")

    assert [finding for finding in found if not finding["ok"]] == []
