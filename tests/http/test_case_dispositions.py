"""A conclusion carries dispositions: the matches of its case no longer count (G120)."""

from datetime import timedelta
from typing import Any, Final

import pytest

from schemas.base import rfc3339
from schemas.people import Role
from schemas.tenant_settings import FourEyes
from tests.http.support import TEST, Front, SignedIn, now
from tests.http.test_dispositions import PATH as DISPOSITIONS
from tests.http.test_name_screenings import LISTED
from tests.http.test_policies import publish, put
from tests.http.test_review_cases import conclude, open_case, set_up
from tests.http.test_transactions import payment, screen

CASES: Final = "/v1/control/review-cases"
PAYEE: Final = LISTED | {"id": "payee-1", "birth_date": "1970-01-01"}
REVIEWED: Final = b"""\
policy: transactions
features: []
checks:
  - {check: SANCTIONS, targets: [counterparty, subject], match: 0.85, possible: 0.70,
     on_match: REVIEW_REQUIRED, on_possible: REVIEW_REQUIRED, on_error: HOLD}
rules:
  - id: never
    mode: ACTIVE
    when: {field: amount, op: GTE, value: "100000"}
    then: {decision: FLAG, reason: {code: POLICY_NEVER, message: never}}
"""


def judged(**changes: Any) -> dict[str, Any]:
    """The listed person is somebody else."""
    until = rfc3339(now() + timedelta(days=30))
    return {"list": "sandbox", "entity_id": "sandbox-1", "expires_at": until} | changes


async def matched(front: Front, key: str, **parties: Any) -> Any:
    """A transaction with a match, under a policy that asks a person."""
    return (await screen(front, key, payment(**parties), TEST)).json


@pytest.fixture
async def lead(front: Front) -> SignedIn:
    """A member; the tenant's policy sends each match to a person, and one person concludes."""
    member = await front.sign_in()
    await put(member, REVIEWED)
    assert (await publish(member)).status == 200
    await set_up(front, four_eyes=FourEyes.NEVER)
    return member


@pytest.mark.parametrize("target", ["subject", "counterparty"])
async def test_the_party_that_matched_is_no_longer_held_up(front: Front, lead: SignedIn, target: str) -> None:
    made = await matched(front, "one", **{target: PAYEE})
    case = f"{CASES}/{made['review_case_id']}"
    concluded = await conclude(lead, case, dispositions=[judged()])

    assert (made["decision"], concluded.status) == ("REVIEW_REQUIRED", 200)
    (one,) = (await lead.ask("GET", DISPOSITIONS)).json["dispositions"]
    assert (one["kind"], one["status"], one["review_case_id"]) == (
        "LIST_MATCH", "ACTIVE", made["review_case_id"],
    )  # fmt: skip
    named = {"counterparty_id": "payee-1"} if target == "counterparty" else {"subject_id": made["subject_id"]}
    assert named.items() <= one.items()
    assert (await matched(front, "two", **{target: PAYEE}))["decision"] == "ALLOW"
    other = PAYEE | {"id": "payee-2"} if target == "counterparty" else PAYEE
    again = await matched(front, "three", **{target: other}, subject_id="somebody-else")
    assert again["decision"] == "REVIEW_REQUIRED"
    actions = [
        row["action"] for row in (await lead.ask("GET", "/v1/audit?action=disposition.")).json["events"]
    ]
    assert actions == ["disposition.created"]


async def test_a_verifications_case_is_about_its_subject(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.NEVER)
    _, case = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)

    assert (await conclude(reviewer, case, dispositions=[judged()])).status == 200
    (one,) = (await reviewer.ask("GET", DISPOSITIONS)).json["dispositions"]
    shown = (await reviewer.ask("GET", case)).json
    assert (one["subject_id"], one["created_by"]) == (shown["subject_id"], reviewer.member.reviewer_id)
    assert shown["conclusion"]["dispositions"][0]["entity_id"] == "sandbox-1"


async def test_of_two_people_both_must_ask_for_it(front: Front, lead: SignedIn) -> None:
    await lead.ask("PATCH", "/v1/control/settings", json={"four_eyes": "ALWAYS"})
    second = await front.sign_in()
    sooner = rfc3339(now() + timedelta(days=3))
    for asked, found in (([], 0), ([judged(expires_at=sooner)], 1)):
        made = await matched(front, f"one-{found}", counterparty=PAYEE)
        case = f"{CASES}/{made['review_case_id']}"
        assert (await conclude(lead, case, dispositions=[judged()])).json["status"] == "AWAITING_SECOND"
        assert (await lead.ask("GET", DISPOSITIONS)).json["dispositions"] == []
        assert (await conclude(second, case, dispositions=asked)).json["status"] == "CONCLUDED"
        listed = (await lead.ask("GET", DISPOSITIONS)).json["dispositions"]
        assert len(listed) == found
    assert (listed[0]["expires_at"], listed[0]["approved_by"]) == (sooner, lead.member.reviewer_id)


async def test_a_rejecting_conclusion_and_matches_the_case_does_not_have_are_refused(
    front: Front, lead: SignedIn
) -> None:
    nameless = {name: value for name, value in PAYEE.items() if name != "id"}
    made = await matched(front, "one", counterparty=nameless)
    case = f"{CASES}/{made['review_case_id']}"
    past, far = (rfc3339(now() + timedelta(days=days)) for days in (-1, 401))

    for outcome, asked, pointer in (
        ("REJECT", judged(), "/dispositions"),
        ("APPROVE", judged(), "/dispositions/0/entity_id"),  # the counterparty has no id
        ("APPROVE", judged(entity_id="nobody"), "/dispositions/0/entity_id"),
        ("APPROVE", judged(entity_id="sandbox-2"), "/dispositions/0/entity_id"),
        ("APPROVE", judged(expires_at=past), "/dispositions/0/expires_at"),
        ("APPROVE", judged(expires_at=far), "/dispositions/0/expires_at"),
        ("APPROVE", judged(list="No List"), "/dispositions/0/list"),
        ("APPROVE", judged(note="x"), "/dispositions/0/note"),
    ):
        answer = await conclude(lead, case, outcome, dispositions=[asked])
        assert answer.status == 422, answer.json
        assert pointer in {one["pointer"] for one in answer.json["errors"]}
    many = await conclude(lead, case, dispositions=[judged()] * 21)
    assert (many.status, many.json["errors"][0]["pointer"]) == (422, "/dispositions")
    assert (await lead.ask("GET", case)).json["status"] == "OPEN"
