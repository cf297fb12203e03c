"""A text beside the published policy: evaluated with each decision, shown, compared, never applied."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from streams.policies.storage import load_policy
from tests.builders import ACME
from tests.http.support import BARE, LIVE, TEST, Front, SignedIn, open_front
from tests.http.test_policies import PATH, YAML, actions, publish, put
from tests.http.test_transactions import payment, screen

SHADOW: Final = f"{PATH}/shadow"

PUBLISHED: Final = b"""\
policy: transactions
features:
  - {name: spent_24h, metric: SUM, window: 24h, key: subject_id, field: amount}
checks: []
rules:
  - id: much
    mode: ACTIVE
    when: {feature: spent_24h, op: GTE, value: "100"}
    then: {decision: FLAG, reason: {code: POLICY_MUCH, message: much}}
"""
STRICTER: Final = b"""\
policy: transactions
features:
  - {name: total, metric: SUM, window: 24h, key: subject_id, field: amount}
  - {name: payments, metric: COUNT, window: 24h, key: subject_id}
checks:
  - {check: EMAIL, targets: [counterparty], on_match: BLOCK, on_error: BLOCK}
rules:
  - id: second
    mode: ACTIVE
    when: {feature: payments, op: GTE, value: 1}
    then: {decision: BLOCK, score: 30, reason: {code: POLICY_SECOND, message: second}}
  - id: much
    mode: ACTIVE
    when: {feature: total, op: GTE, value: "100"}
    then: {decision: FLAG, score: 5, reason: {code: POLICY_MUCH, message: much}}
"""


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front."""
    async with open_front() as opened:
        yield opened


@pytest.fixture
async def lead(front: Front) -> SignedIn:
    """A member who published a policy and drafted a stricter one."""
    member = await front.sign_in()
    await put(member, PUBLISHED)
    await publish(member)
    await put(member, STRICTER)
    return member


async def shadow(lead: SignedIn, **body: Any) -> Any:
    """Run a text beside the published one."""
    answer = await lead.ask("PUT", SHADOW, json=body)
    assert answer.status == 200, answer.body
    return answer.json["shadow"]


async def pay(front: Front, number: int, value: str, **more: Any) -> Any:
    """Pay and return the decision."""
    money = {"value": value, "currency": "EUR"}
    answer = await screen(front, f"order-{number}", payment(amount=money, **more))
    assert answer.status == 201, answer.body
    return answer.json


async def test_a_shadow_is_shown_beside_each_decision_and_decides_nothing(
    front: Front, lead: SignedIn
) -> None:
    before = await pay(front, 0, "60")
    running = await shadow(lead, draft=True)
    sha256 = (await lead.ask("GET", PATH)).json["draft"]["sha256"]
    throw_away = {"kind": "PERSON", "email": "amina@mailinator.com"}
    decided = [await pay(front, n, "60", counterparty=throw_away) for n in (1, 2)]
    fresh = await pay(front, 3, "60", subject_id="user-2")
    report = (await lead.ask("GET", SHADOW)).json

    assert "shadow" not in before
    assert (running["revision"], running["draft"]) == (None, True)
    assert [(one["decision"], one["risk_score"], one["review_status"]) for one in decided] == [
        ("ALLOW", 0, "NOT_REQUIRED"),
        ("FLAG", 0, "NOT_REQUIRED"),
    ]
    of_draft = {"sha256": sha256, "decision": "BLOCK"}
    assert decided[0]["shadow"] == {**of_draft, "risk_score": 30, "rules": ["second"]}
    assert decided[1]["shadow"] == {**of_draft, "risk_score": 35, "rules": ["second", "much"]}
    assert fresh["shadow"]["decision"] == "ALLOW"
    assert {name: report[name] for name in ("evaluated", "changed", "since")} == {
        "evaluated": 3, "changed": 2, "since": running["since"],
    }  # fmt: skip
    assert report["matrix"] == {"ALLOW": {"ALLOW": 1, "BLOCK": 1}, "FLAG": {"BLOCK": 1}}
    assert report["rules"] == [{"id": "second", "hits": 2}, {"id": "much", "hits": 1}]
    assert report["examples"][0] == {
        "transaction_id": decided[1]["transaction_id"], "before": "FLAG", "after": "BLOCK",
        "rules": ["second", "much"],
    }  # fmt: skip
    assert (await lead.ask("GET", f"{SHADOW}?livemode=true")).json["evaluated"] == 0
    assert (await front.ask("GET", SHADOW, LIVE)).json["evaluated"] == 0
    assert (await front.ask("GET", SHADOW, TEST)).json == report


async def test_a_shadow_is_the_text_as_it_was_and_the_same_text_begins_no_new_report(
    front: Front, lead: SignedIn
) -> None:
    first = await shadow(lead, draft=True)
    again = await shadow(lead, draft=True)
    await put(lead, PUBLISHED)
    await pay(front, 1, "10")
    second = await pay(front, 2, "10")
    other = await shadow(lead, revision=1)
    ended = [await lead.ask("DELETE", SHADOW) for _ in range(2)]
    after = await pay(front, 3, "10")

    assert (again, second["shadow"]["decision"]) == (first, "BLOCK")
    assert (other["revision"], other["draft"]) == (1, False)
    assert [one.status for one in ended] == [204, 204]
    assert "shadow" not in after
    assert (await lead.ask("GET", PATH)).json["shadow"] is None
    assert (await lead.ask("GET", SHADOW)).code == "NOT_FOUND"
    assert (await actions(lead)).count("policy.shadowed") == 3


async def test_a_shadow_counts_by_devices_though_the_published_text_does_not(
    front: Front, lead: SignedIn
) -> None:
    """A name that both texts use for two features stays two features."""
    by_device = (
        STRICTER.replace(b"name: payments, metric: COUNT, window: 24h, key: subject_id",
                         b"name: spent_24h, metric: COUNT, window: 24h, key: device.id")
        .replace(b"feature: payments", b"feature: spent_24h")
    )  # fmt: skip
    await put(lead, by_device)
    await shadow(lead, draft=True)
    shown = [
        await pay(front, n, "10", subject_id=f"user-{n}", device={"id": device})
        for n, device in enumerate(("one", "one", "two"))
    ]
    counted = (await load_policy(front.stores.records, ACME, "transactions")).stored.counted.since
    await put(lead, STRICTER)
    await publish(lead)
    published = (await load_policy(front.stores.records, ACME, "transactions")).stored.counted.since
    await lead.ask("DELETE", SHADOW)
    after = (await load_policy(front.stores.records, ACME, "transactions")).stored.counted.since

    assert [one["shadow"]["decision"] for one in shown] == ["ALLOW", "BLOCK", "ALLOW"]
    assert [one["decision"] for one in shown] == ["ALLOW"] * 3
    assert (list(counted), list(published), list(after)) == (["device.id"], ["device.id"], [])


async def test_what_cannot_run_beside_is_refused(front: Front, lead: SignedIn) -> None:
    wrong = [{}, {"draft": True, "revision": 1}, {"draft": False}, {"revision": 0}, {"revision": "1"}]
    for body in wrong:
        assert (await lead.ask("PUT", SHADOW, json=body)).code == "VALIDATION_FAILED", body
    assert (await lead.ask("PUT", SHADOW, json={"revision": 9})).code == "NOT_FOUND"
    for method in ("GET", "DELETE"):
        assert (await front.ask(method, SHADOW, BARE)).status == 403
    await lead.ask("PUT", f"{PATH}/draft", data=STRICTER, headers=YAML)
    assert (await front.ask("PUT", SHADOW, BARE, json={"draft": True})).status == 403
