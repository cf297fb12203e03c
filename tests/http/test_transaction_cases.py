"""Cases of transactions: conclusions that become new decisions, suspensions that a person lifts (G121)."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.base import rfc3339
from schemas.events import EventType
from schemas.people import Role
from tests.builders import ACME
from tests.http.support import TEST, Front, now
from tests.http.test_review_cases import conclude, set_up
from tests.http.test_transactions import PATH, payment, publish_suspending, screen

SUSPEND = {"metadata": {"ask": "SUSPEND"}}
SUBJECT = "/v1/control/subjects/user-1"


async def case_of(front: Front, **changes: Any) -> tuple[dict[str, Any], str]:
    """A transaction that needs a person, and the path of its case."""
    if changes == SUSPEND:
        await publish_suspending(front)
    made = (await screen(front, "order-1", payment(**changes))).json
    return made, f"/v1/control/review-cases/{made['review_case_id']}"


async def published(front: Front) -> list[str]:
    """The events of ACME's test mode, oldest first."""
    found = await front.stores.feed.page(ACME, livemode=False, after="", limit=100)
    return [str(one.event.type) for one in found]


@pytest.mark.parametrize(
    ("outcome", "decision", "review_status", "code"),
    [
        ("APPROVE", "ALLOW", "APPROVED", "REVIEWER_APPROVED"),
        ("REJECT", "BLOCK", "OVERTURNED", "REVIEWER_REJECTED"),
    ],
)
async def test_a_conclusion_is_a_new_decision_and_a_replay_keeps_the_first_answer(
    front: Front, outcome: str, decision: str, review_status: str, code: str
) -> None:
    sent = payment(subject_id="sim:review")
    first = await screen(front, "order-1", sent)
    made = first.json
    case = f"/v1/control/review-cases/{made['review_case_id']}"
    reviewer = await front.sign_in(Role.REVIEWER)

    shown = (await reviewer.ask("GET", case)).json
    concluded = await conclude(reviewer, case, outcome)
    after = (await front.ask("GET", f"{PATH}/{made['transaction_id']}")).json
    again = await screen(front, "order-1", sent)

    assert (shown["kind"], shown["transaction_id"]) == ("TRANSACTION", made["transaction_id"])
    assert (made["decision"], shown["recommendation"]) == ("REVIEW_REQUIRED", "APPROVED")
    assert (concluded.status, concluded.json["review_status"]) == (200, review_status)
    assert (after["decision"], after["review_status"]) == (decision, review_status)
    assert [reason["code"] for reason in after["reasons"]] == [code]
    assert [step["by"] for step in after["decisions"]] == ["POLICY", "REVIEWER"]
    assert after["decision_id"] == after["decisions"][-1]["decision_id"] != made["decision_id"]
    assert (again.status, again.body) == (200, first.body)
    assert EventType.TRANSACTION_DECISION_CHANGED in await published(front)


async def test_a_case_of_a_policys_own_reason_is_read_as_it_was_opened(front: Front) -> None:
    _, case = await case_of(front, **SUSPEND)
    reviewer = await front.sign_in(Role.REVIEWER)

    shown = (await reviewer.ask("GET", case)).json

    assert [reason["code"] for reason in shown["reasons"]] == ["POLICY_ASKED"]
    assert (shown["recommendation"], shown["risk_level"]) == ("REJECTED", "HIGH")


async def test_approving_the_transaction_that_suspended_its_subject_reinstates_it(front: Front) -> None:
    _, case = await case_of(front, **SUSPEND)
    blocked = await screen(front, "order-2")
    owner = await front.sign_in()
    suspended = (await owner.ask("GET", SUBJECT)).json

    await conclude(owner, case, "APPROVE")
    allowed = await screen(front, "order-3")

    assert suspended["suspended"] is True
    assert (blocked.json["decision"], allowed.json["decision"]) == ("BLOCK", "ALLOW")
    assert (await owner.ask("GET", SUBJECT)).json["suspended"] is False
    expected = [EventType.SUBJECT_SUSPENDED, EventType.SUBJECT_REINSTATED]
    assert [one for one in await published(front) if one.startswith("subject.")] == expected


async def test_rejecting_it_leaves_the_subject_suspended_until_a_member_lifts_it(front: Front) -> None:
    made, case = await case_of(front, **SUSPEND)
    owner, auditor = await front.sign_in(), await front.sign_in(Role.AUDITOR)
    await conclude(owner, case, "REJECT")
    body = {"note": "Spoken with Ada Example.", "livemode": False}

    refused = await auditor.ask("POST", f"{SUBJECT}/reinstate", json=body)
    by_key = await front.ask("POST", f"{SUBJECT}/reinstate", TEST, json=body)
    lifted = await owner.ask("POST", f"{SUBJECT}/reinstate", json=body)
    twice = await owner.ask("POST", f"{SUBJECT}/reinstate", json=body)
    live = await owner.ask("POST", f"{SUBJECT}/reinstate", json={"note": "x"})
    allowed = await screen(front, "order-2")

    assert (await front.ask("GET", f"{PATH}/{made['transaction_id']}")).json["decision"] == "BLOCK"
    assert (refused.code, by_key.code) == ("PERMISSION_DENIED", "API_KEY_NOT_ALLOWED")
    assert (lifted.status, lifted.json["suspended"]) == (200, False)
    assert (twice.status, twice.code, live.status) == (409, "SUBJECT_NOT_SUSPENDED", 404)
    assert allowed.json["decision"] == "ALLOW"
    assert not any(b"Ada Example" in record.body for record in front.shelves.records.values())


async def test_an_advised_tenant_sees_what_would_have_been_stopped(front: Front) -> None:
    await set_up(front, enforcement="ADVISORY")
    made, case = await case_of(front, **SUSPEND)
    following = await screen(front, "order-2", payment(occurred_at=rfc3339(now() + timedelta(seconds=1))))
    reviewer = await front.sign_in(Role.REVIEWER)
    concluded = await conclude(reviewer, case, "REJECT")

    assert (made["decision"], following.json["decision"]) == ("BLOCK_RECOMMENDED", "ALLOW")
    assert concluded.json["review_status"] == "APPROVED"


async def test_a_reopened_case_changes_the_decision_again(front: Front) -> None:
    made, case = await case_of(front, subject_id="sim:review")
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    await conclude(lead, case, "APPROVE")
    await lead.ask("POST", f"{case}/reopen", json={"note": "Look again."})
    waiting = (await front.ask("GET", f"{PATH}/{made['transaction_id']}")).json
    await conclude(lead, case, "REJECT")
    after = (await front.ask("GET", f"{PATH}/{made['transaction_id']}")).json

    assert (waiting["decision"], waiting["review_status"]) == ("ALLOW", "PENDING")
    assert [step["decision"] for step in after["decisions"]] == ["REVIEW_REQUIRED", "ALLOW", "BLOCK"]
    assert len({step["decision_id"] for step in after["decisions"]}) == 3


async def test_more_input_needs_a_flow_that_asks_for_it(front: Front) -> None:
    _, case = await case_of(front, subject_id="sim:review")
    refused = await conclude(await front.sign_in(), case, "REQUEST_INPUT")

    assert (refused.status, list(refused.pointers)) == (422, ["/flow_id"])
