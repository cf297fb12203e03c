"""Review cases over HTTP: the queue, leases, conclusions with two eyes and four, appeals, and evidence."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from schemas.audit import AuditFilter
from schemas.people import PERMISSIONS_OF, Permission, Role
from schemas.tenant_settings import FourEyes, TenantSettings
from streams.catalog.handler import Catalogue
from streams.ports.records import Change, Record, RecordKind
from streams.tenants.settings import SETTINGS
from tests.builders import ACME, GLOBEX
from tests.http.support import TEST, Front, SignedIn, build_body, now

PATH = "/v1/control/review-cases"
UNCERTAIN = "sim:review:FACE_MATCH_UNCERTAIN"


async def open_case(front: Front, subject: str = UNCERTAIN) -> tuple[dict[str, Any], str]:
    """A verification that needs a person: the verification, and the path of its case."""
    response = await front.submit(build_body(subject), TEST)
    assert response.json["status"] == "REVIEW_REQUIRED"
    return response.json, f"{PATH}/{response.json['review_case_id']}"


async def set_up(front: Front, **settings: Any) -> None:
    """Give ACME settings."""
    body = TenantSettings(**settings).to_bytes()
    record = Record(ACME, RecordKind.SETTINGS, SETTINGS, body, now())
    await front.stores.journal.commit(Change(ACME, (record,)))


async def conclude(who: SignedIn, case: str, outcome: str = "APPROVE", **more: Any) -> Any:
    """Conclude."""
    return await who.ask("POST", f"{case}/conclude", json={"outcome": outcome, "note": "Seen.", **more})


async def actions(front: Front) -> list[str]:
    """ACME's audit rows about cases and evidence, oldest first."""
    rows = await front.stores.audit_log.page(ACME, AuditFilter(), limit=200)
    return [str(row.action) for row in reversed(rows) if row.action.startswith(("case.", "evidence."))]


async def test_a_conclusion_changes_the_verification_its_row_and_its_decision(front: Front) -> None:
    verification, case = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)

    result = await conclude(reviewer, case, "REJECT", reason_codes=["FACE_MISMATCH"])

    assert (result.status, result.json["status"], result.json["review_status"]) == (
        200,
        "CONCLUDED",
        "OVERTURNED",
    )
    assert result.json["conclusion"]["reviewer_id"] == reviewer.member.reviewer_id
    after = (await front.ask("GET", f"/v1/verifications/{verification['verification_id']}")).json
    assert (after["status"], after["decision"], after["review_status"]) == ("REJECTED", "BLOCK", "OVERTURNED")
    assert [reason["code"] for reason in after["reasons"]] == ["REVIEWER_REJECTED", "FACE_MISMATCH"]
    assert after["decision_id"] != verification["decision_id"]
    old = (await front.ask("GET", f"/v1/decisions/{verification['decision_id']}")).json
    new = (await front.ask("GET", f"/v1/decisions/{after['decision_id']}")).json
    assert (old["status"], old["superseded_by"]) == ("REVIEW_REQUIRED", after["decision_id"])
    assert (new["status"], new["decided_by"]) == ("REJECTED", "REVIEWER")
    assert await actions(front) == ["case.opened", "case.concluded"]


@pytest.mark.parametrize(("outcome", "said"), [("APPROVE", "APPROVED"), ("REJECT", "OVERTURNED")])
async def test_the_review_status_speaks_of_the_recommendation(front: Front, outcome: str, said: str) -> None:
    _, case = await open_case(front)

    response = await conclude(await front.sign_in(Role.REVIEWER), case, outcome)

    assert (response.json["recommendation"], response.json["review_status"]) == ("APPROVED", said)


async def test_s74_fifty_conclude_at_once_and_one_does(front: Front) -> None:
    _, case = await open_case(front)
    reviewers = [await front.sign_in(Role.REVIEWER) for _ in range(50)]

    results = await asyncio.gather(*(conclude(one, case) for one in reviewers))

    assert sorted(one.status for one in results) == [200] + [409] * 49
    assert {one.code for one in results if one.status == 409} == {"CASE_ALREADY_CONCLUDED"}
    assert (await actions(front)).count("case.concluded") == 1


async def test_a_claimed_case_is_its_reviewers_until_the_lease_ends(front: Front) -> None:
    _, case = await open_case(front)
    mine, other = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)

    claimed = await mine.ask("POST", f"{case}/claim", json={})
    taken = [await other.ask("POST", f"{case}/{verb}", json={}) for verb in ("claim", "release")]
    taken.append(await conclude(other, case))
    again = await mine.ask("POST", f"{case}/claim", json={})
    back = await mine.ask("POST", f"{case}/release", json={})

    assert (claimed.json["status"], claimed.json["assignee"]) == ("IN_REVIEW", mine.member.reviewer_id)
    assert {(one.status, one.code) for one in taken} == {(409, "CASE_CLAIMED")}
    assert again.status == 200
    assert (back.json["status"], back.json["assignee"]) == ("OPEN", None)
    assert (await other.ask("POST", f"{case}/claim", json={})).status == 200


async def test_a_conclusion_that_is_meant_for_another_version_is_refused(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.ALWAYS)
    _, case = await open_case(front)
    first, second = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)
    seen = (await second.ask("GET", case)).headers["ETag"]
    body = {"outcome": "APPROVE", "reason_codes": [], "note": "Seen."}

    waiting = await conclude(first, case)
    stale = await second.ask("POST", f"{case}/conclude", json=body, headers={"If-Match": seen})
    now = (await second.ask("GET", case)).headers["ETag"]
    done = await second.ask("POST", f"{case}/conclude", json=body, headers={"If-Match": now})

    assert (stale.status, stale.code) == (412, "PRECONDITION_FAILED")
    assert now == waiting.headers["ETag"] != seen
    assert done.json["status"] == "CONCLUDED"


async def test_a_case_is_given_to_an_active_member_only(front: Front) -> None:
    _, case = await open_case(front)
    lead, other = await front.sign_in(Role.COMPLIANCE_LEAD), await front.sign_in(Role.REVIEWER)
    foreign = await front.sign_in(tenant_id=GLOBEX)

    response = await lead.ask("POST", f"{case}/assign", json={"reviewer_id": other.member.reviewer_id})
    wrong = await lead.ask("POST", f"{case}/assign", json={"reviewer_id": foreign.member.reviewer_id})

    assert response.json["assignee"] == other.member.reviewer_id
    assert (wrong.status, list(wrong.pointers)) == (422, ["/reviewer_id"])


async def test_s74_four_eyes_want_two_people_who_agree(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.ALWAYS)
    _, case = await open_case(front)
    first, second = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)

    waiting = await conclude(first, case)
    same = await conclude(first, case)
    done = await conclude(second, case)

    assert (waiting.json["status"], waiting.json["assignee"]) == ("AWAITING_SECOND", None)
    assert waiting.json["review_status"] == "PENDING"
    assert (same.status, same.code) == (409, "SECOND_REVIEWER_MUST_DIFFER")
    assert done.json["status"] == "CONCLUDED"
    assert done.json["first_conclusion"]["reviewer_id"] == first.member.reviewer_id
    assert await actions(front) == ["case.opened", "case.first_concluded", "case.concluded"]


async def test_s74_two_people_who_disagree_escalate_to_a_lead(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.OVERTURN)
    verification, case = await open_case(front)
    first, second = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)

    await conclude(first, case, "REJECT")
    escalated = await conclude(second, case, "APPROVE")
    refused = await conclude(first, case)
    done = await conclude(lead, case, "APPROVE")

    assert escalated.json["status"] == "ESCALATED"
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")
    assert "CASES_OVERTURN" in refused.json["detail"]
    assert done.json["status"] == "CONCLUDED"
    after = (await front.ask("GET", f"/v1/verifications/{verification['verification_id']}")).json
    assert (after["status"], [reason["code"] for reason in after["reasons"]]) == (
        "APPROVED", ["REVIEWER_APPROVED"],
    )  # fmt: skip


async def test_s74_only_a_pending_case_is_concluded(front: Front) -> None:
    verification, case = await open_case(front)
    reviewer, lead = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.COMPLIANCE_LEAD)
    await conclude(reviewer, case, "REJECT")
    before = (await front.ask("GET", f"/v1/verifications/{verification['verification_id']}")).body
    assign = {"reviewer_id": lead.member.reviewer_id}

    results = [
        await conclude(who, case, outcome) for who in (reviewer, lead) for outcome in ("APPROVE", "REJECT")
    ]
    results += [await lead.ask("POST", f"{case}/{verb}", json={}) for verb in ("claim", "release")]
    results.append(await lead.ask("POST", f"{case}/assign", json=assign))
    results.append(await lead.ask("POST", f"{case}/escalate", json={"note": "x"}))

    assert {(one.status, one.code) for one in results} == {(409, "CASE_ALREADY_CONCLUDED")}
    assert (await front.ask("GET", f"/v1/verifications/{verification['verification_id']}")).body == before
    assert await actions(front) == ["case.opened", "case.concluded"]


@pytest.mark.parametrize("subject", [UNCERTAIN, "sim:fail:PROVIDER_UNAVAILABLE"])
async def test_s74_what_was_not_finally_decided_cannot_be_appealed(front: Front, subject: str) -> None:
    made = (await front.submit(build_body(subject), TEST)).json
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)

    path = f"/v1/control/verifications/{made['verification_id']}/appeal"
    response = await lead.ask("POST", path, json={"note": "x"})

    assert (response.status, response.code, list(response.pointers)) == (422, "VALIDATION_FAILED", [""])
    assert "case.opened" not in (await actions(front))[made["status"] == "REVIEW_REQUIRED" :]


async def test_s74_only_a_concluded_case_is_reopened(front: Front) -> None:
    _, case = await open_case(front)
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)

    response = await lead.ask("POST", f"{case}/reopen", json={"note": "x"})

    assert (response.status, response.code, list(response.pointers)) == (422, "VALIDATION_FAILED", [""])


@pytest.mark.parametrize("called", ["reviewer_id", "email", "EMAIL"])
async def test_s74_nobody_concludes_a_case_about_themselves(front: Front, called: str) -> None:
    oneself, colleague = await front.sign_in(Role.OWNER), await front.sign_in(Role.REVIEWER)
    own = getattr(oneself.member, called.lower())
    _, case = await open_case(front, f"{UNCERTAIN}@{own.upper() if called.isupper() else own}")

    results = [await conclude(oneself, case, outcome) for outcome in ("APPROVE", "REJECT")]

    assert {(one.status, one.code) for one in results} == {(403, "PERMISSION_DENIED")}
    assert await actions(front) == ["case.opened"]
    assert (await conclude(colleague, case)).status == 200


async def test_s74_nobody_is_the_second_person_about_themselves(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.ALWAYS)
    oneself, colleague = await front.sign_in(Role.OWNER), await front.sign_in(Role.REVIEWER)
    _, case = await open_case(front, f"{UNCERTAIN}@{oneself.member.email}")

    waiting = await conclude(colleague, case)

    assert waiting.json["status"] == "AWAITING_SECOND"
    assert (await conclude(oneself, case)).code == "PERMISSION_DENIED"


async def test_a_final_decision_is_appealed_and_overturned(front: Front) -> None:
    made = (await front.submit(build_body("sim:reject:DOCUMENT_EXPIRED"), TEST)).json
    reviewer, lead = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.COMPLIANCE_LEAD)
    path = f"/v1/control/verifications/{made['verification_id']}/appeal"

    opened = await reviewer.ask("POST", path, json={"note": "The person shows a renewal."})
    case = f"{PATH}/{opened.json['review_case_id']}"
    pending = (await front.ask("GET", f"/v1/verifications/{made['verification_id']}")).json
    twice = await reviewer.ask("POST", path, json={"note": "Again."})
    refused = await conclude(reviewer, case)
    done = await conclude(lead, case)

    assert (opened.status, opened.json["kind"], opened.json["recommendation"]) == (201, "APPEAL", "REJECTED")
    assert (pending["status"], pending["review_status"]) == ("REJECTED", "PENDING")
    assert (twice.status, twice.json["review_case_id"]) == (201, opened.json["review_case_id"])
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")
    assert done.json["review_status"] == "OVERTURNED"
    after = (await front.ask("GET", f"/v1/verifications/{made['verification_id']}")).json
    assert (after["status"], after["decision"]) == ("APPROVED", "ALLOW")


async def test_a_case_is_reopened_by_who_may_overturn(front: Front) -> None:
    _, case = await open_case(front)
    reviewer, lead = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.COMPLIANCE_LEAD)
    await conclude(reviewer, case, "REJECT")

    denied = await reviewer.ask("POST", f"{case}/reopen", json={"note": "Hm."})
    response = await lead.ask("POST", f"{case}/reopen", json={"note": "Hm."})
    refused, done = await conclude(reviewer, case), await conclude(lead, case)

    assert (denied.status, response.status) == (403, 200)
    assert (response.json["status"], response.json["review_status"]) == ("OPEN", "PENDING")
    assert (refused.status, done.json["status"]) == (403, "CONCLUDED")


async def test_each_decision_of_a_case_that_is_concluded_twice_names_the_one_that_superseded_it(
    front: Front,
) -> None:
    verification, case = await open_case(front)
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    path = f"/v1/verifications/{verification['verification_id']}"
    await conclude(lead, case, "REJECT")
    second = (await front.ask("GET", path)).json["decision_id"]
    before = (await front.ask("GET", f"/v1/decisions/{second}")).json
    await lead.ask("POST", f"{case}/reopen", json={"note": "Hm."})
    await conclude(lead, case, "APPROVE")
    third = (await front.ask("GET", path)).json["decision_id"]

    decisions = [verification["decision_id"], second, third]
    shown = [(await front.ask("GET", f"/v1/decisions/{one}")).json for one in decisions]

    assert [one.get("superseded_by") for one in shown] == [second, third, None]
    assert shown[1] == before | {"superseded_by": third}


async def test_asking_the_subject_again_opens_a_session_and_leaves_the_review_pending(front: Front) -> None:
    await Catalogue(front.stores.records, front.ports.commit, now).install_first()
    owner = await front.sign_in()
    draft = {
        "name": "Again",
        "flow_type": "DOCUMENT",
        "documents": [{"country": "NG", "capabilities": ["NG_NIN_SLIP"]}],
    }
    flow = (await owner.ask("POST", "/v1/verification-flows", json=draft)).json["flow_id"]
    verification, case = await open_case(front)

    nameless = await conclude(owner, case, "REQUEST_INPUT")
    drafted = await conclude(owner, case, "REQUEST_INPUT", flow_id=flow)
    await owner.ask("POST", f"/v1/verification-flows/{flow}/publish")
    result = await conclude(owner, case, "REQUEST_INPUT", flow_id=flow)

    assert (nameless.status, list(nameless.pointers)) == (422, ["/flow_id"])
    assert (drafted.status, drafted.code) == (409, "FLOW_NOT_PUBLISHED")
    assert (result.json["status"], result.json["review_status"]) == ("CONCLUDED", "PENDING")
    session = result.json["conclusion"]["session_id"]
    opened = (await front.ask("GET", f"/v1/verification-sessions/{session}", TEST)).json
    assert (opened["status"], opened["subject_id"], opened["flow_id"]) == ("CREATED", UNCERTAIN, flow)
    after = (await front.ask("GET", f"/v1/verifications/{verification['verification_id']}")).json
    assert (after["status"], after["review_status"]) == ("REVIEW_REQUIRED", "PENDING")


async def test_what_is_written_about_a_subject_is_kept_sealed_and_shown_opened(front: Front) -> None:
    _, case = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)
    words = "Mrs Canary called."

    response = await reviewer.ask("POST", f"{case}/notes", json={"text": words})
    await reviewer.ask("POST", f"{case}/escalate", json={"note": words})

    stored = [record.body for record in front.shelves.records.values()]
    assert [note["text"] for note in response.json["notes"]] == [words]
    assert not any(b"Canary" in body for body in stored)
    assert not any("Canary" in repr(command) for command in front.gateway.asked)


async def test_every_look_at_an_image_is_a_row(front: Front) -> None:
    verification, _ = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)
    images = [one for one in verification["evidence"] if one["kind"] in {"IMAGE", "SELFIE"}]
    path = f"/v1/verifications/{verification['verification_id']}/evidence/"

    responses = [await reviewer.ask("GET", path + one["id"]) for one in (*images, *images)]

    assert {(one.status, one.headers["Content-Type"]) for one in responses} == {(200, "image/png")}
    assert (await actions(front)).count("evidence.viewed") == len(responses)
    key = await front.ask("GET", path + images[0]["id"], TEST)
    foreign = await (await front.sign_in(tenant_id=GLOBEX)).ask("GET", path + images[0]["id"])
    assert (key.status, key.code, foreign.status) == (403, "API_KEY_NOT_ALLOWED", 404)


async def test_where_it_is_demanded_all_images_are_looked_at_before_a_conclusion(front: Front) -> None:
    await set_up(front, require_evidence_view=True)
    verification, case = await open_case(front)
    reviewer, other = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)
    path = f"/v1/verifications/{verification['verification_id']}/evidence/"
    images = [one["id"] for one in verification["evidence"] if one["kind"] in {"IMAGE", "SELFIE", "PORTRAIT"}]

    blind = await conclude(reviewer, case)
    for image in images:
        await reviewer.ask("GET", path + image)
    others = await conclude(other, case)

    assert (blind.status, blind.code) == (409, "EVIDENCE_NOT_VIEWED")
    assert (others.status, others.code) == (409, "EVIDENCE_NOT_VIEWED")
    assert (await conclude(reviewer, case)).status == 200


async def test_the_queue_is_listed_by_every_filter(front: Front) -> None:
    reviewer = await front.sign_in(Role.REVIEWER)
    cases = [(await open_case(front, f"{UNCERTAIN}@{number}"))[1] for number in range(4)]
    await reviewer.ask("POST", f"{cases[0]}/claim", json={})
    await conclude(reviewer, cases[1], "REJECT")
    mine = reviewer.member.reviewer_id

    async def found(query: str) -> set[int]:
        listed = (await reviewer.ask("GET", f"{PATH}?{query}")).json["review_cases"]
        return {cases.index(f"{PATH}/{case['review_case_id']}") for case in listed}

    later = (now() + timedelta(days=2)).isoformat().replace("+00:00", "Z")
    assert await found("") == {0, 1, 2, 3}
    assert await found("status=OPEN") == {2, 3}
    assert await found(f"assignee={mine}") == {0, 1}
    assert await found(f"assignee={mine}&status=CONCLUDED") == {1}
    assert await found("assignee=none") == {2, 3}
    assert await found("livemode=true") == set()
    assert await found(f"due_before={later}") == {0, 1, 2, 3}
    assert await found("due_before=2020-01-01T00:00:00Z") == set()
    first = (await reviewer.ask("GET", f"{PATH}?limit=3")).json
    rest = (await reviewer.ask("GET", f"{PATH}?limit=3&cursor={first['next_cursor']}")).json
    assert [len(first["review_cases"]), len(rest["review_cases"]), rest["next_cursor"]] == [3, 1, None]


@pytest.mark.parametrize(
    ("verb", "body", "pointer"),
    [
        ("conclude", {"outcome": "MAYBE", "note": "x"}, "/outcome"),
        ("conclude", {"outcome": "APPROVE"}, "/note"),
        ("conclude", {"outcome": "APPROVE", "note": " "}, "/note"),
        ("conclude", {"outcome": "REJECT", "note": "x", "reason_codes": ["NONE"]}, "/reason_codes/0"),
        ("conclude", {"outcome": "REJECT", "note": "x", "flow_id": "vf_" + "0" * 26}, "/flow_id"),
        ("notes", {"text": "x" * 4001}, "/text"),
        ("assign", {"reviewer_id": "me"}, "/reviewer_id"),
        ("claim", {"reviewer_id": "usr_1"}, "/reviewer_id"),
    ],
)
async def test_a_wrong_body_is_refused_at_its_place(
    front: Front, verb: str, body: dict[str, Any], pointer: str
) -> None:
    _, case = await open_case(front)
    response = await (await front.sign_in()).ask("POST", f"{case}/{verb}", json=body)

    assert (response.status, list(response.pointers)) == (422, [pointer])
    assert await actions(front) == ["case.opened"]


VERBS = {
    "claim": ({}, Permission.CASES_WORK),
    "notes": ({"text": "x"}, Permission.CASES_WORK),
    "escalate": ({"note": "x"}, Permission.CASES_WORK),
    "conclude": ({"outcome": "REJECT", "note": "x"}, Permission.CASES_CONCLUDE),
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_role_does_what_it_may_and_a_key_nothing(front: Front, role: Role, verb: str) -> None:
    _, case = await open_case(front)
    body, permission = VERBS[verb]

    response = await (await front.sign_in(role)).ask("POST", f"{case}/{verb}", json=body)
    key = await front.ask("POST", f"{case}/{verb}", TEST, json=body)

    may = permission in PERMISSIONS_OF[role]
    if verb == "conclude":
        may = may and (await actions(front)).count("case.concluded") == 1
    assert response.status == (200 if may else 403)
    assert (key.status, key.code) == (403, "API_KEY_NOT_ALLOWED")


async def test_another_tenants_case_is_not_found(front: Front) -> None:
    _, case = await open_case(front)
    foreign = await front.sign_in(tenant_id=GLOBEX)

    responses = [await foreign.ask("GET", case), await conclude(foreign, case)]

    assert {one.status for one in responses} == {404}
    assert (await foreign.ask("GET", PATH)).json["review_cases"] == []
