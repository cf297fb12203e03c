"""The routes of erasures: permissions, answers, and what other tenants see."""

from collections.abc import AsyncIterator

import pytest

from schemas.people import Role
from schemas.privacy import EraseSubject, RetentionCommand
from schemas.topics import Topic
from streams.audit.commit import CommitAndPublish
from streams.retention.erasure import EraseSubjects
from streams.tenants.settings import read_settings
from tests.builders import GLOBEX
from tests.handlers.verification_stage import Loudspeaker
from tests.http.furnished import SUBJECT, Furnished, open_furnished
from tests.http.support import TEST, SignedIn, build_body
from tests.http.test_permissions import TOKEN

GONE = f"{SUBJECT}0"
PATH = f"/v1/subjects/{GONE}"
REASON = {"reason": "The customer asked for it."}


@pytest.fixture
async def furnished() -> AsyncIterator[Furnished]:
    """A tenant with everything, and its callers."""
    async with open_furnished() as opened:
        yield opened


async def carry_out(furnished: Furnished) -> int:
    """Do what the agent does with what the front wrote; return how many erasures that were."""
    stores, log = furnished.front.stores, furnished.front.log
    erase = EraseSubjects(
        stores,
        lambda tenant_id: read_settings(stores.records, tenant_id),
        CommitAndPublish(stores.journal, Loudspeaker()),
        log.write,
        furnished.front.ports.clock,
    )
    written = [one for one in log.records if one.topic == Topic.RETENTION_COMMANDS]
    for record in written:
        command = RetentionCommand.model_validate_json(record.value or b"")
        assert record.key == command.key.encode()
        assert isinstance(command.root, EraseSubject)
        await erase(command.root)
    return len(written)


async def choose(person: SignedIn, **settings: object) -> None:
    """Change the tenant's settings."""
    assert (await person.ask("PATCH", "/v1/control/settings", json=settings)).status == 200


async def test_a_subject_is_erased_and_the_proof_is_read(furnished: Furnished) -> None:
    owner = furnished.owner
    asked = await owner.ask("POST", f"{PATH}/erase", json=REASON)
    carried_out = await carry_out(furnished)
    proof = await owner.ask("GET", f"{PATH}/erasure")
    shown = await furnished.front.ask("GET", f"/v1/verifications/{furnished.ids['verification_id']}", TEST)

    assert (asked.status, asked.json["status"], carried_out) == (202, "APPROVED", 1)
    assert (proof.status, proof.json["status"]) == (200, "EXECUTED")
    assert proof.json["erasure_id"] == asked.json["erasure_id"]
    assert proof.json["requested_by"] == owner.member.reviewer_id
    assert proof.json["reason"] == REASON["reason"]
    assert proof.json["removed"]["verifications"] == 1
    assert {one["retention_policy"] for one in shown.json["evidence"]} == {"REDACTED"}
    assert shown.json["document"]["extracted_fields"] == {}
    assert (await owner.ask("POST", f"{PATH}/erase", json=REASON)).json["status"] == "EXECUTED"
    again = await furnished.front.submit(build_body(GONE), TEST)
    assert (again.status, again.json["errors"][0]["pointer"]) == (422, "/subject_id")


async def test_a_second_person_agrees_where_the_tenant_wants_one(furnished: Furnished) -> None:
    await choose(furnished.owner, four_eyes="ALWAYS")
    lead = await furnished.front.sign_in(Role.COMPLIANCE_LEAD)
    asked = await furnished.owner.ask("POST", f"{PATH}/erase", json=REASON)
    alone = await furnished.owner.ask("POST", f"{PATH}/erase/approve")
    before = await carry_out(furnished)
    agreed = await lead.ask("POST", f"{PATH}/erase/approve")
    after = await carry_out(furnished)
    proof = (await lead.ask("GET", f"{PATH}/erasure")).json

    assert (asked.status, asked.json["status"], before) == (202, "REQUESTED", 0)
    assert (alone.status, alone.code) == (409, "SECOND_REVIEWER_MUST_DIFFER")
    assert (agreed.status, agreed.json["status"], after) == (202, "APPROVED", 1)
    assert (proof["status"], proof["approved_by"]) == ("EXECUTED", lead.member.reviewer_id)


async def test_a_legal_hold_forbids_it(furnished: Furnished) -> None:
    await choose(furnished.owner, retention={"legal_hold": [GONE]})

    refused = await furnished.owner.ask("POST", f"{PATH}/erase", json=REASON)

    assert (refused.status, refused.code) == (409, "LEGAL_HOLD")
    assert (await furnished.owner.ask("GET", f"{PATH}/erasure")).status == 404


@pytest.mark.parametrize(
    "subject", ["nobody", "usr_00000000000000000000000000", "a%20b", "%F0%9F%98%80", "x" * 200]
)
async def test_an_unknown_subject_is_not_found(furnished: Furnished, subject: str) -> None:
    answers = [
        await furnished.owner.ask("POST", f"/v1/subjects/{subject}/erase", json=REASON),
        await furnished.owner.ask("POST", f"/v1/subjects/{subject}/erase/approve"),
        await furnished.owner.ask("GET", f"/v1/subjects/{subject}/erasure"),
    ]

    assert {one.status for one in answers} == {404}


async def test_another_tenants_subject_is_not_found(furnished: Furnished) -> None:
    refused = await furnished.foreigner.ask("POST", f"{PATH}/erase", json=REASON)

    assert furnished.foreigner.member.tenant_id == GLOBEX
    assert refused.status == 404


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 501}, {"reason": 1}])
async def test_a_reason_is_needed(furnished: Furnished, body: dict[str, object]) -> None:
    refused = await furnished.owner.ask("POST", f"{PATH}/erase", json=body)

    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/reason")


async def test_only_who_manages_privacy_may(furnished: Furnished) -> None:
    statuses = [
        (await furnished.colleague.ask("POST", f"{PATH}/erase", json=REASON)).status,
        (await furnished.front.ask("POST", f"{PATH}/erase", TEST, json=REASON)).status,
        (await furnished.front.ask("POST", f"{PATH}/erase", TOKEN, json=REASON)).status,
    ]

    assert statuses[:2] == [403, 403]
    assert statuses[2] in {401, 404}
