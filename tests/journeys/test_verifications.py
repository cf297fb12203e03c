"""The main job end to end: real images through HTTP, topics, agents and models, to a decision."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from app.demo.specimens import Alterations, PassportSpecimen, SlipSpecimen, draw_long_slip, draw_passport
from schemas.topics import TOPICS, Topic
from tests.journeys.decision_topic import client_of, new_reader
from tests.journeys.people import Person, sign_in
from tests.journeys.service import (
    START_S,
    Service,
    another_photograph_of_hopper,
    astronaut,
    blurred,
    encoded,
    hopper,
    make_tenant,
    request_for,
    run_preloaded,
    small_request,
    veristream_json,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


def codes(verification: dict[str, Any]) -> set[str]:
    """The reason codes of an answer."""
    return {reason["code"] for reason in verification["reasons"]}


async def test_a_good_passport_and_its_holder_are_approved(service: Service) -> None:
    status, body, _ = await service.post(request_for(hopper(), subject_id="approved-1"))

    assert (status, body["status"], body["decision"]) == (201, "APPROVED", "ALLOW")
    assert body["document"]["extracted_fields"]["surname"] == "ERIKSSON"
    assert body["document"]["number_last4"] == "02C3"
    assert body["distance"] < 0.5


async def test_another_persons_selfie_is_rejected(service: Service) -> None:
    body = request_for(hopper(), subject_id="imposter-1")
    body["selfie_image_base64"] = encoded(astronaut().selfie)

    _, answer, _ = await service.post(body)

    assert (answer["status"], answer["decision"]) == ("REJECTED", "BLOCK")
    assert "FACE_MISMATCH" in codes(answer)


async def test_an_expired_passport_is_rejected(service: Service) -> None:
    expired = PassportSpecimen(issued=date(2012, 4, 16), expires=date(2022, 4, 15))

    _, answer, _ = await service.post(request_for(hopper(), expired, subject_id="expired-1"))

    assert (answer["status"], answer["decision"]) == ("REJECTED", "BLOCK")
    assert "DOCUMENT_EXPIRED" in codes(answer)


ALTERED = {
    "a later expiry in print": Alterations(printed={"expires": "15 APR 2039"}),
    "another number in print": Alterations(printed={"number": "X123456Y7"}),
    "another birth date in print": Alterations(printed={"date_of_birth": "12 AUG 1994"}),
    "another surname in print": Alterations(printed={"surname": "JOHANSSON"}),
    "a wrong check digit": Alterations(
        lines=("P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", "L898902C37UTO7408122F3204153ZE184226B<<<<<16")
    ),
    "an impossible birth date": Alterations(
        lines=("P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", "L898902C36UTO7413322F3204153ZE184226B<<<<<16")
    ),
}


@pytest.mark.parametrize("alteration", ALTERED.values(), ids=ALTERED.keys())
async def test_an_altered_passport_is_never_approved(service: Service, alteration: Alterations) -> None:
    body = request_for(hopper(), None, alteration, subject_id="altered-1")

    status, answer, _ = await service.post(body)

    assert (status, answer["status"]) in {(201, "REVIEW_REQUIRED"), (201, "REJECTED")}
    assert answer["reasons"]


async def test_an_unreadable_passport_goes_to_a_person(service: Service) -> None:
    person = hopper()
    body = request_for(person, subject_id="unreadable-1")
    body["document"]["image_base64"] = encoded(blurred(draw_passport(PassportSpecimen(), person.portrait), 7))

    status, answer, _ = await service.post(body)

    assert (status, answer["status"]) == (201, "REVIEW_REQUIRED")
    assert answer["review_case_id"].startswith("rc_")
    assert answer["review_status"] == "PENDING"


async def test_a_page_without_a_face_goes_to_a_person(service: Service) -> None:
    body = request_for(hopper(), subject_id="faceless-1")
    body["document"]["image_base64"] = encoded(draw_passport(PassportSpecimen()))

    _, answer, _ = await service.post(body)

    assert answer["status"] == "REVIEW_REQUIRED"
    assert "FACE_NOT_FOUND_DOCUMENT" in codes(answer)


async def test_a_nin_slip_and_its_holder_are_approved(service: Service) -> None:
    person = hopper()
    body = request_for(person, subject_id="slip-1")
    body["document"]["image_base64"] = encoded(draw_long_slip(SlipSpecimen(), person.portrait))
    body["selfie_image_base64"] = encoded(another_photograph_of_hopper(1))

    _, answer, _ = await service.post(body)

    assert answer["status"] == "APPROVED", answer
    assert answer["document"]["document_type"] == "NIN_SLIP"
    assert answer["document"]["extracted_fields"]["surname"] == "SPECIMEN"


async def test_r2_pictures_that_were_used_before_are_never_approved(service: Service) -> None:
    """A copy of the portrait as the selfie, then an honest selfie, and both pictures for somebody else."""
    genuine = PassportSpecimen(issuer="NGA", nationality="NGA", number="A01234567")
    body = request_for(hopper(), genuine, subject_id="reuse-1")
    honest = body | {"selfie_image_base64": encoded(another_photograph_of_hopper(2))}

    _, copied, _ = await service.post(body, key=service.live_key)
    _, taken, _ = await service.post(honest, key=service.live_key)
    _, another, _ = await service.post(honest | {"subject_id": "reuse-2"}, key=service.live_key)

    assert (copied["status"], codes(copied)) == ("REVIEW_REQUIRED", {"SELFIE_REUSED"})
    assert (taken["status"], codes(taken)) == ("APPROVED", set())
    assert (another["status"], codes(another)) == ("REVIEW_REQUIRED", {"DUPLICATE_SUBJECT"})


@asynccontextmanager
async def searching_faces(owner: Person) -> AsyncIterator[None]:
    """Switch the tenant's search among faces on, and off again for the other journeys."""
    await choose_search(owner, "review")
    try:
        yield
    finally:
        await choose_search(owner, "off")


async def choose_search(owner: Person, choice: str) -> None:
    """Set `duplicate_faces`."""
    body = {"verification_policy": {"duplicate_faces": choice}}
    assert (await owner.ask("PATCH", "/v1/control/settings", json=body))[0] == 200


async def test_one_face_under_two_names_goes_to_a_person_where_the_tenant_asked_for_it(
    service: Service,
) -> None:
    """A passport, then a slip with other photographs of the same person; a reviewer sees why."""
    command = partial(veristream_json, service.data_dir)
    owner = await sign_in(service.client, service.url, command, service.tenant_id)
    genuine = PassportSpecimen(issuer="NGA", nationality="NGA", number="A07654321")
    first = request_for(hopper(), genuine, subject_id="twice-1")
    first["selfie_image_base64"] = encoded(another_photograph_of_hopper(3))
    second = request_for(hopper(), subject_id="twice-2")
    second["document"]["image_base64"] = encoded(draw_long_slip(SlipSpecimen(), hopper().portrait))
    second["selfie_image_base64"] = encoded(another_photograph_of_hopper(4))

    async with searching_faces(owner):
        _, taken, _ = await service.post(first, key=service.live_key)
        _, again, _ = await service.post(second, key=service.live_key)
    _, explained = await owner.ask("GET", f"/v1/verifications/{again['verification_id']}/explanation")

    assert (taken["status"], codes(taken)) == ("APPROVED", set())
    assert (again["status"], codes(again)) == ("REVIEW_REQUIRED", {"DUPLICATE_SUBJECT"})
    said = " ".join(check["detail"] for check in explained["checks"])
    assert f"Among 1 faces of other approved subjects that of {taken['verification_id']} lies at" in said


@pytest.mark.parametrize(
    "declared",
    [
        {"number_last4": "9999"},
        {"issuing_country": "NG"},
        {"expires_at": "2030-01-01"},
        {"extracted_fields": {"surname": "Johansson"}},
    ],
)
async def test_a_declaration_the_document_contradicts_is_never_approved(
    service: Service, declared: dict[str, Any]
) -> None:
    _, answer, _ = await service.post(request_for(hopper(), subject_id="declared-1", **declared))

    assert answer["status"] in {"REVIEW_REQUIRED", "REJECTED"}
    assert codes(answer) & {"DECLARED_FIELD_MISMATCH", "NUMBER_MISMATCH"}


async def test_a_blank_page_is_unusable(service: Service) -> None:
    body = request_for(hopper(), subject_id="blank-1")
    body["document"]["image_base64"] = small_request("x")["document"]["image_base64"]

    status, problem, _ = await service.post(body)

    assert (status, problem["code"]) == (422, "DOCUMENT_UNUSABLE")
    assert problem["errors"][0]["pointer"] == "/document/image_base64"


async def test_a_selfie_without_a_face_is_not_evaluable(service: Service) -> None:
    body = request_for(hopper(), subject_id="selfieless-1")
    body["selfie_image_base64"] = small_request("x")["selfie_image_base64"]

    status, problem, _ = await service.post(body)

    assert (status, problem["code"]) == (422, "IMAGE_NOT_EVALUABLE")
    assert problem["errors"][0]["pointer"] == "/selfie_image_base64"


async def test_a_verification_is_readable_at_once_with_its_audit_row(service: Service) -> None:
    _, created, _ = await service.post(small_request("sim:approved@readable"), key=service.test_key)

    status, read = await service.get(f"/v1/verifications/{created['verification_id']}", key=service.test_key)
    _, audit = await service.get("/v1/audit", key=service.test_key, subject_id="sim:approved@readable")

    assert (status, read) == (200, created)
    assert [row["action"] for row in audit["events"]] == ["verification.evaluated"]


async def test_the_decision_is_on_its_topic_for_an_ordinary_consumer(service: Service) -> None:
    _, created, _ = await service.post(small_request("sim:reject:DOCUMENT_EXPIRED@t"), key=service.test_key)
    partitions = next(spec.partitions for spec in TOPICS if spec.topic is Topic.DECISIONS)
    consumer = AIOKafkaConsumer(**client_of(await new_reader(service, "ordinary")))
    await consumer.start()
    consumer.assign([TopicPartition(str(Topic.DECISIONS), number) for number in range(partitions)])
    await consumer.seek_to_beginning()
    found: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(START_S):
        while len(found) < 2:
            message = await consumer.getone()
            event = json.loads(message.value)
            if event["data"].get("verification_id") == created["verification_id"]:
                found[event["type"]] = event
    await consumer.stop()

    assert set(found) == {"verification.completed", "verification.rejected"}
    assert found["verification.rejected"]["data"]["reason_codes"] == ["DOCUMENT_EXPIRED"]


async def test_fifty_equal_requests_at_once_give_one_record(service: Service) -> None:
    body = small_request("sim:warn@fifty")

    answers = await asyncio.gather(
        *(service.post(body, key=service.test_key, idempotency="fifty") for _ in range(50))
    )

    assert len({answer[1]["verification_id"] for answer in answers}) == 1
    assert sorted(answer[0] for answer in answers) == [200] * 49 + [201]
    _, listed = await service.get("/v1/verifications", key=service.test_key, subject_id="sim:warn@fifty")
    assert len(listed["verifications"]) == 1


async def test_fifty_equal_bad_requests_at_once_are_all_answered_the_same(service: Service) -> None:
    body = small_request("sim:approved@bad")
    whole = encoded(draw_passport(PassportSpecimen()))
    body["document"]["image_base64"] = whole[: len(whole) // 8 * 4]

    answers = await asyncio.gather(
        *(service.post(body, key=service.test_key, idempotency="bad") for _ in range(50))
    )

    assert {(answer[0], answer[1]["code"]) for answer in answers} == {(400, "IMAGE_UNDECODABLE")}


async def test_the_same_key_with_another_body_is_refused(service: Service) -> None:
    await service.post(small_request("sim:approved@one"), key=service.test_key, idempotency="reused")

    status, problem, _ = await service.post(
        small_request("sim:approved@two"), key=service.test_key, idempotency="reused"
    )

    assert (status, problem["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_another_tenant_sees_nothing(service: Service) -> None:
    _, created, _ = await service.post(small_request("sim:approved@mine"), key=service.test_key)
    _, _, foreign = await make_tenant(service.data_dir, "Globex")

    status, problem = await service.get(f"/v1/verifications/{created['verification_id']}", key=foreign)
    _, listed = await service.get("/v1/verifications", key=foreign)

    assert (status, problem["code"]) == (404, "NOT_FOUND")
    assert listed["verifications"] == []


async def test_a_revoked_key_is_refused_on_its_next_request(service: Service) -> None:
    made = await veristream_json(service.data_dir, "key", "create", "--tenant", service.tenant_id)
    before, _ = await service.get("/v1/verifications", key=made["api_key"])
    await veristream_json(service.data_dir, "key", "revoke", made["key_id"], "--tenant", service.tenant_id)

    after, problem = await service.get("/v1/verifications", key=made["api_key"])

    assert (before, after, problem["code"]) == (200, 401, "UNAUTHENTICATED")


async def test_the_audit_chains_hold_while_the_service_runs(service: Service) -> None:
    status, out, err = await run_preloaded(service.data_dir, "audit", "verify", "--json")

    reports = {report["tenant_id"]: report for report in json.loads(out)["chains"]}
    assert status == 0, err
    assert reports[service.tenant_id]["ok"]
    assert reports[service.tenant_id]["rows"] > 0


async def test_the_doctor_asks_the_running_service_and_finds_only_that_it_calls_insecure_receivers(
    service: Service,
) -> None:
    status, out, err = await run_preloaded(service.data_dir, "doctor", "--json")

    found = {finding["looked_at"]: finding for finding in json.loads(out)}
    assert status == 1, out + err
    assert {name for name, finding in found.items() if not finding["ok"]} == {"settings", "webhooks"}
    assert found["service"]["found"] == f"ready at {service.url}"
    assert "SERVICE_WEBHOOKS_ALLOW_INSECURE (set there alone)" in found["settings"]["found"]
