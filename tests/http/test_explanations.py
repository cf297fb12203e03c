"""The explanation over HTTP: for reviewers, with values for those who may see evidence (P17, G16)."""

import json
from typing import Any

import pytest

from schemas.people import Role
from schemas.verifications import StoredVerification
from streams.ports.records import RecordKind
from streams.verification.explanation import Reading, explain
from tests.builders import ACME, GLOBEX
from tests.http.support import TEST, Front, Response, build_body

UNCERTAIN = "sim:review:FACE_MATCH_UNCERTAIN"
DECLARED = {
    "issuing_country": "UTO",
    "extracted_fields": {"surname": "CANARY", "given_names": "SIM", "address": "Canary Wharf"},
}


async def explained(front: Front, made: Response, role: Role = Role.REVIEWER) -> Response:
    """What a member of a role is reported about a verification."""
    person = await front.sign_in(role)
    return await person.ask("GET", f"/v1/verifications/{made.json['verification_id']}/explanation")


async def views(front: Front) -> list[Any]:
    """Rows of looks at evidence."""
    response = await front.ask("GET", "/v1/audit?action=evidence.viewed")
    return list(response.json["events"])


async def test_g16_a_reviewer_is_shown_checks_points_and_thresholds(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    result = await explained(front, made)

    assert result.status == 200
    checks = {check["kind"]: check for check in result.json["checks"]}
    assert {kind: check["verdict"] for kind, check in checks.items()} == {
        check["kind"]: check["verdict"] for check in made.json["checks"]
    }
    assert checks["FACE_MATCH"]["reasons"] == ["FACE_MATCH_UNCERTAIN"]
    assert "sandbox" in checks["FACE_MATCH"]["detail"]
    assert result.json["risk"] == {
        "points": 20, "level": "MEDIUM", "terms": [{"code": "FACE_MATCH_UNCERTAIN", "points": 20}],
    }  # fmt: skip
    assert (result.json["recommendation"], result.json["policy_revision"]) == ("APPROVED", 1)
    assert result.json["thresholds"]["images"]["glare_above"] == 0.3
    assert result.json["thresholds"]["expiring_within_days"] == 30


async def test_g16_a_case_carries_the_risk_and_its_terms(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    person = await front.sign_in(Role.REVIEWER)
    response = await person.ask("GET", f"/v1/control/review-cases/{made.json['review_case_id']}")

    assert response.json["risk"] == (await explained(front, made)).json["risk"]


async def test_g16_an_appeal_carries_the_risk_of_what_it_appeals(front: Front) -> None:
    made = await front.submit(build_body("sim:reject:DOCUMENT_EXPIRED"))
    person = await front.sign_in(Role.REVIEWER)
    path = f"/v1/control/verifications/{made.json['verification_id']}/appeal"
    response = await person.ask("POST", path, json={"note": "x"})

    assert response.json["risk"]["terms"] == [
        {"code": "DOCUMENT_EXPIRED", "points": response.json["risk"]["points"]}
    ]
    assert response.json["risk"]["level"] == made.json["risk_level"]


async def test_who_may_see_evidence_is_shown_the_values_and_how_they_agree(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN, document=DECLARED))
    answer = (await explained(front, made)).json

    fields = {field["key"]: field for field in answer["fields"]}
    assert answer["declared"]["extracted_fields"]["surname"] == "CANARY"
    assert (fields["surname"]["zone"], fields["surname"]["state"]) == ("SPECIMEN", "DIFFERS")
    assert (fields["given_names"]["state"], fields["given_names"]["declared"]) == ("SAME", "SIM")
    assert (fields["nationality"]["state"], "declared" in fields["nationality"]) == ("ONE_SOURCE", False)
    assert (fields["address"]["state"], "zone" in fields["address"]) == ("ONE_SOURCE", False)
    assert (fields["number_last4"]["zone"], fields["surname"]["confidence"]) == ("1234", 1.0)
    assert "SIM001234" not in str(answer)  # the whole number is no part of it


async def test_a_look_at_values_is_written_down(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    await explained(front, made)

    (row,) = await views(front)
    assert (row["actor_type"], row["subject_id"]) == ("REVIEWER", UNCERTAIN)
    assert row["context"]["changes"] == {"verification_id": made.json["verification_id"]}
    assert row["decision_id"] == made.json["decision_id"]


async def test_who_may_not_see_evidence_is_shown_no_value(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN, document=DECLARED))
    result = await explained(front, made, Role.AUDITOR)

    assert result.status == 200
    assert [word for word in (b"CANARY", b"SPECIMEN", b"Canary Wharf", b"1990") if word in result.body] == []
    assert "declared" not in result.json
    assert {"key": "given_names", "state": "SAME", "confidence": 1.0} in result.json["fields"]
    assert result.json["risk"]["points"] == 20
    assert await views(front) == []


async def test_no_key_is_shown_an_explanation(front: Front) -> None:
    made = await front.submit()
    response = await front.ask("GET", f"/v1/verifications/{made.json['verification_id']}/explanation", TEST)

    assert (response.status, response.code) == (403, "API_KEY_NOT_ALLOWED")


async def test_a_foreign_reviewer_finds_no_explanation(front: Front) -> None:
    made = await front.submit()
    foreigner = await front.sign_in(tenant_id=GLOBEX)
    response = await foreigner.ask("GET", f"/v1/verifications/{made.json['verification_id']}/explanation")

    assert (response.status, response.code) == (404, "NOT_FOUND")


async def test_an_erased_subject_is_explained_without_values(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN, document=DECLARED))
    await front.stores.vault.destroy(ACME, made.json["subject_id"])
    result = await explained(front, made)

    assert result.status == 200
    assert (result.json["fields"], result.json["risk"]["points"]) == ([], 20)
    assert b"CANARY" not in result.body


async def test_an_explanation_outlives_the_evidence(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    evidence = [one["id"] for one in made.json["evidence"]]
    await front.stores.evidence.discard(ACME, evidence)
    result = await explained(front, made)

    fields = {field["key"]: field for field in result.json["fields"]}
    assert result.status == 200
    assert "confidence" not in fields["surname"]


@pytest.mark.parametrize("name", ["exemptions", "sealed_exemptions"])
async def test_what_is_kept_beside_is_explained_unless_it_is_sealed(front: Front, name: str) -> None:
    """A fact a later release keeps with the decision reaches reviewers without a change here."""
    made = await front.submit()
    record = await front.stores.records.get(ACME, RecordKind.VERIFICATION, made.json["verification_id"])

    class Later(StoredVerification):
        exemptions: tuple[str, ...] = ()
        sealed_exemptions: tuple[str, ...] = ()

    later = Later.model_validate_json(json.dumps(json.loads(record.body) | {name: ["SELFIE_REUSED"]}))
    answer = json.loads(explain(later, Reading(), None, personal=True).to_bytes())

    assert (name in answer) == (name == "exemptions")
