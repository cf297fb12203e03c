"""A tenant's settings over HTTP: read, changed with or without the version seen, and obeyed."""

import asyncio
from typing import Any

import pytest

from schemas.audit import AuditEvent, AuditFilter
from schemas.ids import DecisionId
from schemas.people import Role
from schemas.tenant_settings import USUAL_CHECKS
from schemas.verifications import StoredVerification
from streams.ports.records import RecordKind
from streams.tenants.settings import read_settings
from streams.verification.policy import PROVIDED
from tests.builders import ACME, GLOBEX
from tests.http.json_schema import Schemas
from tests.http.support import TEST, Front

PATH = "/v1/control/settings"
FEWER = {"verification_policy": {"required_checks": ["FACE_MATCH"]}}


async def rows_of(front: Front) -> list[AuditEvent]:
    """The rows of changes, newest first."""
    chosen = AuditFilter(action="tenant.settings_changed")
    return list(await front.stores.audit_log.page(ACME, chosen, limit=50))


async def test_what_was_never_set_has_its_default(front: Front) -> None:
    response = await (await front.sign_in()).ask("GET", PATH)

    assert (response.status, response.headers["ETag"]) == (200, '"0"')
    assert response.json == {
        "four_eyes": "CRITICAL",
        "require_evidence_view": False,
        "policy_four_eyes": False,
        "verification_policy": {
            "revision": 1,
            "required_checks": [*USUAL_CHECKS],
            "duplicate_faces": "off",
        },
        "retention": {"biometric_days": 30, "document_days": 90, "legal_hold": []},
        "rate_limits": {},
        "enforcement": "BINDING",
    }


async def test_a_change_touches_what_it_names_and_is_read_back(front: Front) -> None:
    owner = await front.sign_in()
    before = (await owner.ask("GET", PATH)).json

    changed = await owner.ask("PATCH", PATH, json={"four_eyes": "ALWAYS"})

    assert (changed.status, changed.headers["ETag"]) == (200, '"1"')
    assert changed.json == before | {"four_eyes": "ALWAYS"} == (await owner.ask("GET", PATH)).json


async def test_every_change_is_one_row_that_names_it(front: Front) -> None:
    owner = await front.sign_in()

    await owner.ask("PATCH", PATH, json={"require_evidence_view": True, "four_eyes": "CRITICAL"})

    (row,) = await rows_of(front)
    assert (row.subject_id, row.actor_id) == (ACME, owner.member.reviewer_id)
    assert row.context["changes"] == {"require_evidence_view": True}


async def test_a_change_without_a_difference_writes_nothing(front: Front) -> None:
    owner = await front.sign_in()
    backwards = {"verification_policy": {"required_checks": [*reversed(USUAL_CHECKS)]}}

    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"four_eyes": "CRITICAL"},
        backwards,
        {"verification_policy": {}},
        {"retention": {"biometric_days": 30, "legal_hold": []}, "rate_limits": {"key": None}},
    )
    responses = [await owner.ask("PATCH", PATH, json=body) for body in bodies]

    assert [(one.status, one.headers["ETag"]) for one in responses] == [(200, '"0"')] * 5
    assert await rows_of(front) == []


async def test_a_change_meant_for_another_version_is_refused(front: Front) -> None:
    owner = await front.sign_in()
    await owner.ask("PATCH", PATH, json={"four_eyes": "ALWAYS"})

    stale, right = [
        await owner.ask("PATCH", PATH, json={"four_eyes": "NEVER"}, headers={"If-Match": tag})
        for tag in ('"0"', '"1"')
    ]

    assert (stale.status, stale.code, right.status) == (412, "PRECONDITION_FAILED", 200)


async def test_changes_at_once_all_count(front: Front) -> None:
    owner = await front.sign_in()
    bodies = [{"four_eyes": "ALWAYS"}, {"require_evidence_view": True}, FEWER]

    responses = await asyncio.gather(*(owner.ask("PATCH", PATH, json=body) for body in bodies))

    stored = await read_settings(front.stores.records, ACME)
    assert [one.status for one in responses] == [200] * 3
    assert (stored.four_eyes, stored.require_evidence_view) == ("ALWAYS", True)
    assert stored.verification_policy.required_checks == ("FACE_MATCH",)
    assert len(await rows_of(front)) == 3


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"four_eyes": "SOMETIMES"}, "/four_eyes"),
        ({"four_eyes": None}, "/four_eyes"),
        ({"require_evidence_view": "yes"}, "/require_evidence_view"),
        ({"verification_policy": None}, "/verification_policy"),
        ({"verification_policy": {"required_checks": None}}, "/verification_policy/required_checks"),
        ({"verification_policy": {"minimum_age": 0}}, "/verification_policy/minimum_age"),
        ({"verification_policy": {"duplicate_faces": "block"}}, "/verification_policy/duplicate_faces"),
        ({"verification_policy": {"duplicate_faces": None}}, "/verification_policy/duplicate_faces"),
        ({"verification_policy": {"minimum_age": 151}}, "/verification_policy/minimum_age"),
        ({"verification_policy": {"minimum_age": "18"}}, "/verification_policy/minimum_age"),
        (
            {"verification_policy": {"required_checks": ["FACE_MATCH"], "minimum_age": 18}},
            "/verification_policy/required_checks",
        ),
        ({"verification_policy": {"required_checks": []}}, "/verification_policy/required_checks"),
        (
            {"verification_policy": {"required_checks": ["DOCUMENT_AUTHORITY"]}},
            "/verification_policy/required_checks",
        ),
        ({"verification_policy": {"required_checks": ["MAGIC"]}}, "/verification_policy/required_checks/0"),
        (
            {"verification_policy": {"required_checks": ["LIVENESS", "LIVENESS"]}},
            "/verification_policy/required_checks",
        ),
        (
            {"verification_policy": {"required_checks": ["LIVENESS"], "revision": 9}},
            "/verification_policy/revision",
        ),
        ({"retention": None}, "/retention"),
        ({"retention": {"biometric_days": 0}}, "/retention/biometric_days"),
        ({"retention": {"biometric_days": 1826}}, "/retention/biometric_days"),
        ({"retention": {"document_days": None}}, "/retention/document_days"),
        ({"retention": {"document_days": "90"}}, "/retention/document_days"),
        ({"retention": {"forever": True}}, "/retention/forever"),
        ({"retention": {"legal_hold": ["a b"]}}, "/retention/legal_hold/0"),
        ({"retention": {"legal_hold": ["x"] * 1001}}, "/retention/legal_hold"),
        ({"rate_limits": None}, "/rate_limits"),
        ({"rate_limits": {"key": 5}}, "/rate_limits/key"),  # this deployment counts nothing
        ({"rate_limits": {"sign_in": 5}}, "/rate_limits/sign_in"),
    ],
)
async def test_what_nothing_could_obey_is_refused_where_it_stands(
    front: Front, body: dict[str, Any], pointer: str
) -> None:
    owner = await front.sign_in()

    response = await owner.ask("PATCH", PATH, json=body)

    assert (response.status, pointer in response.pointers) == (422, True), response.json
    assert await rows_of(front) == []


async def test_every_check_something_stands_behind_may_be_required(front: Front) -> None:
    owner = await front.sign_in()

    response = await owner.ask(
        "PATCH", PATH, json={"verification_policy": {"required_checks": sorted(PROVIDED)}}
    )

    policy = {"revision": 2, "required_checks": sorted(PROVIDED), "duplicate_faces": "off"}
    assert response.json["verification_policy"] == policy


async def test_a_minimum_age_is_set_and_taken_back(front: Front) -> None:
    owner = await front.sign_in()

    responses = [
        (await owner.ask("PATCH", PATH, json={"verification_policy": {"minimum_age": age}})).json
        for age in (18, 18, None)
    ]

    policies = [one["verification_policy"] for one in responses]
    assert [(one.get("minimum_age"), one["revision"]) for one in policies] == [(18, 2), (18, 2), (None, 3)]
    assert {tuple(one["required_checks"]) for one in policies} == {tuple(USUAL_CHECKS)}


async def test_the_search_among_faces_is_off_until_it_is_chosen(front: Front) -> None:
    owner = await front.sign_in()
    before = (await owner.ask("GET", PATH)).json["verification_policy"]

    responses = [
        (await owner.ask("PATCH", PATH, json={"verification_policy": {"duplicate_faces": choice}})).json
        for choice in ("review", "review", "off")
    ]

    policies = [one["verification_policy"] for one in responses]
    assert (before["duplicate_faces"], before["revision"]) == ("off", 1)
    assert [(one["duplicate_faces"], one["revision"]) for one in policies] == [
        ("review", 2), ("review", 2), ("off", 3),
    ]  # fmt: skip


async def test_retention_is_kept_shown_and_reported(front: Front) -> None:
    owner = await front.sign_in()
    requested_retentions: tuple[dict[str, Any], ...] = (
        {"biometric_days": 7, "legal_hold": ["customer-1", "customer-2", "customer-1"]},
        {"legal_hold": ["customer-2", "customer-3"]},
        {"legal_hold": ["customer-3", "customer-2"]},
    )
    responses = [
        (await owner.ask("PATCH", PATH, json={"retention": body})).json["retention"]
        for body in requested_retentions
    ]

    assert responses[0] == {
        "biometric_days": 7, "document_days": 90, "legal_hold": ["customer-1", "customer-2"],
    }  # fmt: skip
    assert responses[1]["legal_hold"] == responses[2]["legal_hold"] == ["customer-2", "customer-3"]
    assert responses[2] == (await owner.ask("GET", PATH)).json["retention"]
    second, first = [row.context["changes"]["retention"] for row in await rows_of(front)]
    assert (first["biometric_days"], first["legal_hold"]) == (
        7, {"held": ["customer-1", "customer-2"], "released": []},
    )  # fmt: skip
    assert second["legal_hold"] == {"held": ["customer-3"], "released": ["customer-1"]}


async def test_the_check_that_judges_the_age_cannot_be_dropped_while_an_age_is_set(front: Front) -> None:
    owner = await front.sign_in()
    await owner.ask("PATCH", PATH, json={"verification_policy": {"minimum_age": 18}})

    response = await owner.ask("PATCH", PATH, json=FEWER)

    assert (response.status, list(response.pointers)) == (422, ["/verification_policy/required_checks"])


async def test_the_next_verification_obeys_the_policy(front: Front) -> None:
    owner = await front.sign_in()
    before = (await front.submit()).json
    await owner.ask("PATCH", PATH, json=FEWER)

    after = (await front.submit()).json

    stored = [
        StoredVerification.from_bytes(
            (await front.stores.records.get(ACME, RecordKind.VERIFICATION, one["verification_id"])).body
        )
        for one in (before, after)
    ]
    assert [tuple(check.kind for check in one.checks) for one in stored] == [USUAL_CHECKS, ("FACE_MATCH",)]
    assert DecisionId(after["decision_id"]) != before["decision_id"]


async def test_s2_another_tenants_settings_stay_as_they_are(front: Front) -> None:
    outsider = await front.sign_in(tenant_id=GLOBEX)

    await (await front.sign_in()).ask("PATCH", PATH, json={"four_eyes": "NEVER"})

    assert (await outsider.ask("GET", PATH)).json["four_eyes"] == "CRITICAL"


@pytest.mark.parametrize("role", [r for r in Role if r not in {Role.OWNER, Role.ADMIN}])
async def test_s6_only_who_manages_settings_comes_near_them(front: Front, role: Role) -> None:
    person = await front.sign_in(role)

    responses = [await person.ask("GET", PATH), await person.ask("PATCH", PATH, json={"four_eyes": "NEVER"})]

    assert [one.code for one in responses] == ["PERMISSION_DENIED"] * 2
    assert (await front.ask("GET", PATH, TEST)).code == "API_KEY_NOT_ALLOWED"


async def test_answers_are_as_described(front: Front) -> None:
    owner, document = await front.sign_in(), (await front.ask("GET", "/v1/openapi.json", None)).json
    schemas = Schemas(document)

    for method, response in (
        ("get", await owner.ask("GET", PATH)),
        ("patch", await owner.ask("PATCH", PATH, json=FEWER)),
    ):
        content = document["paths"][PATH][method]["responses"]["200"]["content"]
        described = content["application/json"]["schema"]
        assert [*schemas.complaints(response.json, described)] == []
        assert [*schemas.undeclared(response.json, described)] == []
