"""The main job over a real Kafka and a real Cassandra, from `migrate` to a restart of everything."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from schemas.topics import TOPICS, Topic
from tests.engines.deployment import Deployment, open_deployment
from tests.journeys.decision_topic import Member, agree, decide, events_for, feed
from tests.journeys.service import hopper, request_for, small_request

pytestmark = [pytest.mark.engines, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deployment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A deployment with a tenant."""
    async with open_deployment(tmp_path_factory.mktemp("deployment")) as opened:
        yield opened


async def sandbox(deployment: Deployment, subject: str, key: str | None = None) -> tuple[int, dict[str, Any]]:
    """Post a sandbox verification."""
    body, test_key = small_request(subject), deployment.service.test_key
    status, answer, _ = await deployment.service.post(body, key=test_key, idempotency=key)
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


async def test_migrating_what_is_new_changes_nothing(deployment: Deployment) -> None:
    done = await deployment.command("migrate")

    assert done["from"] == done["to"]


async def test_a_good_passport_and_its_holder_are_approved(deployment: Deployment) -> None:
    status, body, _ = await deployment.service.post(request_for(hopper(), subject_id="approved-1"))

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
    deployment: Deployment, subject: str, expected: tuple[int, str]
) -> None:
    status, answer = await sandbox(deployment, subject)

    assert (status, answer["status"]) == expected


async def test_fifty_equal_requests_at_once_give_one_record(deployment: Deployment) -> None:
    answers = await asyncio.gather(*(sandbox(deployment, "sim:warn@fifty", "fifty") for _ in range(50)))

    key = deployment.service.test_key
    _, listed = await deployment.service.get("/v1/verifications", key=key, subject_id="sim:warn@fifty")
    assert len({answer["verification_id"] for _, answer in answers}) == 1
    assert sorted(status for status, _ in answers) == [200] * 49 + [201]
    assert len(listed["verifications"]) == 1


async def test_a_plain_consumer_reads_the_decision_events(deployment: Deployment) -> None:
    _, created = await sandbox(deployment, "sim:reject:DOCUMENT_EXPIRED@t")

    found = await read_decisions(deployment.kafka.bootstrap, created["verification_id"], 2)

    assert set(found) == {"verification.completed", "verification.rejected"}
    assert found["verification.rejected"]["data"]["reason_codes"] == ["DOCUMENT_EXPIRED"]


async def test_the_feed_and_the_topic_agree(deployment: Deployment) -> None:
    await decide(deployment.service, deployment.service.test_key, 10, "agree")

    wanted = await caught_up(deployment, "agree", events_for(10))
    async with Member({"bootstrap_servers": deployment.kafka.bootstrap}, "agree") as member:
        await agree([member], "agree", wanted)


async def caught_up(deployment: Deployment, name: str, count: int) -> dict[str, Any]:
    """The feed about subjects of a name as soon as it has so many events; it shows them once they settled."""
    async with asyncio.timeout(180):
        while True:
            found = {
                event["id"]: event
                for event in await feed(deployment.service, deployment.service.test_key, name)
            }
            if len(found) == count:
                return found
            await asyncio.sleep(0.2)


async def test_a_verification_is_readable_at_once_with_its_audit_row(deployment: Deployment) -> None:
    _, created = await sandbox(deployment, "sim:approved@readable")

    key = deployment.service.test_key
    read = await deployment.service.get(f"/v1/verifications/{created['verification_id']}", key=key)
    _, audit = await deployment.service.get("/v1/audit", key=key, subject_id="sim:approved@readable")
    assert read == (200, created)
    assert [row["action"] for row in audit["events"]] == ["verification.evaluated"]


async def test_everything_is_there_after_everything_was_killed(deployment: Deployment) -> None:
    _, before = await sandbox(deployment, "sim:approved@before", "before")
    await deployment.restart_everything()

    key = deployment.service.test_key
    read = await deployment.service.get(f"/v1/verifications/{before['verification_id']}", key=key)
    replayed = await sandbox(deployment, "sim:approved@before", "before")
    status, _ = await sandbox(deployment, "sim:approved@after")
    assert read == replayed == (200, before)
    assert status == 201


async def test_the_audit_chains_hold(deployment: Deployment) -> None:
    await sandbox(deployment, "sim:approved@audited")
    status, reports = await deployment.verify_audit()

    report = reports[deployment.service.tenant_id]
    assert (status, report["ok"]) == (0, True)
    assert report["rows"] > 0


async def test_the_doctor_finds_nothing_wrong(deployment: Deployment) -> None:
    found = await deployment.command("doctor")

    assert [finding for finding in found if not finding["ok"]] == []
