"""`POST /v1/transactions` and what becomes of it: the decision, its replay, its readings (G39, G40, G129)."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from app.intake.transactions import refuse_impossible
from schemas.base import rfc3339, to_milliseconds
from schemas.people import Role
from schemas.problems import DecisionPending, Refused
from schemas.transactions import TransactionRequest
from streams.policies.loading import first_text
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, Response, now

PATH: Final = "/v1/transactions"
NO_MONEY: Final = (
    "1e3", "+5", " 5", "5 ", "5.", ".5", "NaN", "Infinity", "-Infinity", "\uff11\uff15", "1_000", "1,000",
    "4" * 40,
    "-5", "05", "", "0x10", "1.5\n", "1.2.3", 5, 5.0, None, True, ["5"], {"value": "5"}, "0." + "1" * 19,
)  # fmt: skip


def payment(**changes: Any) -> dict[str, Any]:
    """A quiet payment of now, or of a time so far from now; `...` takes a field away."""
    body = {
        "subject_id": "user-1",
        "type": "PAYMENT",
        "direction": "OUTBOUND",
        "amount": {"value": "15.00", "currency": "EUR"},
        "occurred_at": timedelta(0),
    }
    return {
        name: rfc3339(now() + value) if isinstance(value, timedelta) else value
        for name, value in (body | changes).items()
        if value is not ...
    }


async def screen(front: Front, key: str, body: Any = None, credential: str = TEST) -> Response:
    """Ask about a transaction under an Idempotency-Key."""
    return await front.ask("POST", PATH, credential, json=body or payment(), headers={"Idempotency-Key": key})


SUSPENDS: Final = """
  - id: asked_to_suspend
    mode: ACTIVE
    when: {field: metadata.ask, op: EQ, value: SUSPEND}
    then: {decision: SUSPEND, reason: {code: POLICY_ASKED, message: "It was asked for."}}
metadata: {ask: STRING}
hold:"""


async def publish_suspending(front: Front) -> None:
    """Publish the first policy with one more rule: a transaction that asks for it suspends its subject."""
    owner, path = await front.sign_in(), "/v1/policies/transactions"
    text = first_text().replace(b"\nhold:", SUSPENDS.encode(), 1)
    headers = {"Content-Type": "application/yaml"}
    assert (await owner.ask("PUT", f"{path}/draft", data=text, headers=headers)).status == 200
    published = await owner.ask("POST", f"{path}/publish", json={})
    assert published.status == 200, published.body


async def test_a_quiet_payment_is_allowed_with_every_rule_shown(front: Front) -> None:
    answer = await screen(front, "order-1")

    shown = answer.json
    assert answer.status == 201
    assert (shown["decision"], shown["reasons"], shown["review_status"]) == ("ALLOW", [], "NOT_REQUIRED")
    assert shown["policy"]["name"] == "transactions"
    assert shown["rules"][0]["inputs"] == {"transactions_15m": {"value": 0, "exact": True}}
    skipped = {rule["id"]: rule for rule in shown["rules"]}["far_above_average"]
    assert skipped["inputs"]["base_amount"] == {"value": None, "exact": True}
    read = await front.ask("GET", f"{PATH}/{shown['transaction_id']}")
    assert read.json["rules"] == shown["rules"]
    assert answer.headers["Location"] == f"{PATH}/{shown['transaction_id']}"


async def test_a_throw_away_address_of_the_payee_is_flagged_and_the_money_moves(front: Front) -> None:
    payee = {"kind": "PERSON", "email": "amina@mailinator.com", "phone": "+2348031234567", "country": "NG"}

    answer = await screen(front, "order-throw-away", payment(counterparty=payee))

    assert answer.status == 201, answer.body
    shown = answer.json
    assert (shown["decision"], shown["reasons"][0]["code"]) == ("FLAG", "EMAIL_DISPOSABLE")
    results = {(row["check"], row["target"]): row["result"] for row in shown["checks"]}
    assert results["EMAIL", "counterparty"] == "MATCH"
    assert results["PHONE", "counterparty"] == "CLEAR"
    assert results["SANCTIONS", "counterparty"] == "NOT_EVALUATED"


async def test_without_an_idempotency_key_nothing_is_decided(front: Front) -> None:
    refused = await front.ask("POST", PATH, json=payment())
    listed = await front.ask("GET", PATH)

    assert (refused.status, refused.code) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert listed.json["transactions"] == []


async def test_the_same_key_gets_the_first_answer_byte_for_byte_and_counts_once(front: Front) -> None:
    body = payment()
    first = await screen(front, "order-1", body)
    answers = await asyncio.gather(*(screen(front, "order-1", body) for _ in range(10)))
    following = await screen(front, "order-2", payment(occurred_at=timedelta(seconds=1)))

    assert {(answer.status, answer.body) for answer in answers} == {(200, first.body)}
    assert {answer.headers["Idempotent-Replayed"] for answer in answers} == {"true"}
    assert following.json["rules"][0]["inputs"]["transactions_15m"]["value"] == 1


async def test_fifty_at_once_with_one_key_are_one_transaction_whatever_else_they_send(front: Front) -> None:
    same, other = payment(), payment(amount={"value": "16.00", "currency": "EUR"})
    answers = await asyncio.gather(*(screen(front, "order-1", other if n % 5 else same) for n in range(50)))
    after = await screen(front, "order-2")

    first = next(one for one in answers if one.status == 201)
    assert sum(one.status == 201 for one in answers) == 1
    assert {one.body for one in answers if one.status == 200} == {first.body}
    refused = {one.json["code"] for one in answers if one.status not in {200, 201}}
    assert refused == {"IDEMPOTENCY_KEY_REUSED"}
    assert after.json["rules"][0]["inputs"]["transactions_15m"]["value"] == 1


async def test_the_same_key_with_another_body_is_refused_and_counts_nothing(front: Front) -> None:
    await screen(front, "order-1")
    other = await screen(front, "order-1", payment(amount={"value": "16.00", "currency": "EUR"}))
    foreign = await screen(front, "order-1", payment(subject_id="user-2"))
    following = await screen(front, "order-2", payment(subject_id="user-2"))

    assert [(one.status, one.code) for one in (other, foreign)] == [(422, "IDEMPOTENCY_KEY_REUSED")] * 2
    assert following.json["rules"][0]["inputs"]["transactions_15m"]["value"] == 0


async def test_the_sixth_payment_of_a_quarter_of_an_hour_warns_with_its_reason(front: Front) -> None:
    start = now() - timedelta(minutes=1)
    decisions = []
    for number in range(6):
        at = rfc3339(start + timedelta(seconds=number))
        answer = await screen(front, f"order-{number}", payment(occurred_at=at))
        decisions.append(answer.json["decision"])

    assert decisions == ["ALLOW"] * 5 + ["WARN"]
    assert answer.json["reasons"] == [
        {
            "code": "POLICY_MANY_IN_15_MINUTES",
            "message": "5 transactions in the 15 minutes before this one.",
        }
    ]


async def test_a_live_payment_that_names_somebody_waits_until_a_list_is_loaded(front: Front) -> None:
    named = payment(counterparty={"kind": "PERSON", "name": "Ada Example"})
    answer = await screen(front, "order-1", named, LIVE)

    shown = answer.json
    assert (shown["decision"], shown["risk_level"]) == ("HOLD", "HIGH")
    assert [reason["code"] for reason in shown["reasons"]] == ["LIST_MISSING"]
    assert shown["hold_expires_at"] > shown["created_at"]
    results = {(check["check"], check["target"]): check["result"] for check in shown["checks"]}
    assert results["SANCTIONS", "counterparty"] == "ERROR"
    assert results["SANCTIONS", "subject"] == "NOT_EVALUATED"


@pytest.mark.parametrize(
    ("scenario", "decision", "reasons"),
    [
        ("approved", "ALLOW", []),
        ("slow:1ms", "ALLOW", []),
        ("warn", "WARN", ["SCORE_THRESHOLD"]),
        ("review:SANCTIONS_POSSIBLE_MATCH@a", "REVIEW_REQUIRED", ["SANCTIONS_POSSIBLE_MATCH"]),
        ("reject:SANCTIONS_MATCH", "BLOCK", ["SANCTIONS_MATCH"]),
        ("fail", "HOLD", ["CHECK_UNAVAILABLE"]),
    ],
)
async def test_a_magic_subject_gets_what_it_asks_for(
    front: Front, scenario: str, decision: str, reasons: list[str]
) -> None:
    answer = await screen(front, "order-1", payment(subject_id=f"sim:{scenario}"))
    live = await screen(front, "order-1", payment(subject_id=f"sim:{scenario}"), LIVE)

    assert (answer.status, answer.json["decision"]) == (201, decision)
    assert [reason["code"] for reason in answer.json["reasons"]] == reasons
    assert (live.status, list(live.pointers)) == (422, ["/subject_id"])


@pytest.mark.parametrize("value", NO_MONEY)
async def test_what_is_no_money_is_refused_at_its_place(front: Front, value: Any) -> None:
    refused = await screen(front, "order-1", payment(amount={"value": value, "currency": "EUR"}))

    assert (refused.status, next(iter(refused.pointers)).startswith("/amount/value")) == (422, True)


BAD: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"subject_id": ...}, "/subject_id"),
    ({"subject_id": None}, "/subject_id"),
    ({"subject_id": "a b"}, "/subject_id"),
    ({"type": "GIFT"}, "/type"),
    ({"direction": ...}, "/direction"),
    ({"amount": ...}, "/amount"),
    ({"amount": {"value": "1", "currency": "EURO"}}, "/amount/currency"),
    ({"amount": {"value": "1", "currency": "eur"}}, "/amount/currency"),
    ({"amount": {"value": "1", "currency": "XXX"}}, "/amount/currency"),
    ({"base_amount": {"value": "1"}}, "/base_amount/currency"),
    ({"occurred_at": "2026-05-04T12:00:00"}, "/occurred_at"),
    ({"occurred_at": "2026-06-30T23:59:60Z"}, "/occurred_at"),
    ({"occurred_at": "0001-01-01T00:00:00+14:00"}, "/occurred_at"),
    ({"occurred_at": 1_700_000_000}, "/occurred_at"),
    ({"occurred_at": timedelta(hours=-25)}, "/occurred_at"),
    ({"occurred_at": timedelta(minutes=60)}, "/occurred_at"),
    ({"reference": "x" * 129}, "/reference"),
    ({"reference": "a\nb"}, "/reference"),
    ({"counterparty": {"name": "Ada"}}, "/counterparty/kind"),
    ({"counterparty": {"kind": "PERSON", "birth_date": "1970-02-30"}}, "/counterparty/birth_date"),
    ({"counterparty": {"kind": "PERSON", "country": "XX"}}, "/counterparty/country"),
    ({"counterparty": {"kind": "PERSON", "nickname": "A"}}, "/counterparty/nickname"),
    ({"subject": {"kind": "PERSON", "name": "x" * 2001}}, "/subject/name"),
    ({"type": "CRYPTO_TRANSFER"}, "/wallet"),
    ({"wallet": {"chain": "DOGE", "address": "x", "role": "SOURCE"}}, "/wallet/chain"),
    ({"type": "STREAM_TICK"}, "/stream"),
    ({"stream": {"stream_id": "s", "sequence": "1"}}, "/stream/sequence"),
    ({"device": {"ip": "10.0.0.256"}}, "/device/ip"),
    ({"metadata": {"a": {"b": 1}}}, "/metadata/a"),
    ({"metadata": {str(number): 1 for number in range(33)}}, "/metadata"),
    ({"colour": "red"}, "/colour"),
)


@pytest.mark.parametrize(("changes", "pointer"), BAD)
async def test_a_wrong_field_is_refused_at_its_place(
    front: Front, changes: dict[str, Any], pointer: str
) -> None:
    refused = await screen(front, "order-1", payment(**changes))

    assert (refused.status, pointer in refused.pointers) == (422, True), refused.body


async def test_what_is_refused_counts_nothing_and_its_key_is_still_free(front: Front) -> None:
    bodies = [payment(**changes) for changes, _ in BAD]
    bodies += [payment(amount={"value": value, "currency": "EUR"}) for value in NO_MONEY]

    refused = [await screen(front, "order-1", body) for body in bodies]
    accepted = await screen(front, "order-1", payment(occurred_at=timedelta(seconds=1)))

    assert {answer.status for answer in refused} == {422}
    assert accepted.status == 201
    assert accepted.json["rules"][0]["inputs"]["transactions_15m"]["value"] == 0


@pytest.mark.parametrize(
    ("away", "pointers"),
    [
        (timedelta(hours=-24), []),
        (timedelta(minutes=5), []),
        (timedelta(hours=-24, milliseconds=-1), ["/occurred_at"]),
        (timedelta(hours=-25), ["/occurred_at"]),
        (timedelta(minutes=5, milliseconds=1), ["/occurred_at"]),
        (timedelta(minutes=6), ["/occurred_at"]),
    ],
)
def test_a_payment_is_of_the_past_day_or_of_the_next_five_minutes(
    away: timedelta, pointers: list[str]
) -> None:
    at = to_milliseconds(now())
    body = TransactionRequest.model_validate(payment(occurred_at=rfc3339(at + away)))
    found = list[str | None]()
    try:
        refuse_impossible(body, at)
    except Refused as refused:
        found = [one.pointer for one in refused.refusal.errors]

    assert found == pointers


async def test_a_late_answer_is_pending_and_never_allow(front: Front) -> None:
    body = payment()
    front.gateway.failing = DecisionPending()
    pending = await screen(front, "order-1", body)
    front.gateway.failing = None
    found = await screen(front, "order-1", body)

    assert (pending.status, pending.code) == (503, "DECISION_PENDING")
    assert (found.status, found.json["decision"]) == (201, "ALLOW")


async def test_a_transaction_is_read_with_what_was_sent_and_its_decisions(front: Front) -> None:
    sent = payment(
        reference="order 1", counterparty={"kind": "ORGANISATION", "country": "NG"}, metadata={"shop": "A"}
    )
    answer = (await screen(front, "order-1", sent)).json
    read = (await front.ask("GET", f"{PATH}/{answer['transaction_id']}")).json

    assert read.items() >= answer.items()
    assert (read["counterparty"], read["metadata"]) == (sent["counterparty"], sent["metadata"])
    assert [step["by"] for step in read["decisions"]] == ["POLICY"]


async def test_a_list_shows_what_its_filters_say(front: Front) -> None:
    for number, subject in enumerate(("sim:approved@a", "sim:reject@b", "sim:fail@b")):
        await screen(front, f"order-{number}", payment(subject_id=subject, reference=f"ref-{number}"))

    async def listed(query: str) -> list[str]:
        answer = await front.ask("GET", f"{PATH}?{query}")
        return [one["subject_id"] for one in answer.json["transactions"]]

    assert await listed("") == ["sim:fail@b", "sim:reject@b", "sim:approved@a"]
    assert await listed("decision=BLOCK") == await listed("outcome=STOP") == ["sim:reject@b"]
    assert await listed("reference=ref-0") == await listed("subject_id=sim:approved@a") == ["sim:approved@a"]
    assert await listed("risk_level=HIGH") == ["sim:fail@b", "sim:reject@b"]
    assert await listed("type=CARD") == []
    assert (
        await listed("policy_revision=2") == await listed(f"to={rfc3339(now() - timedelta(hours=1))}") == []
    )
    first = (await front.ask("GET", f"{PATH}?outcome=WAIT&limit=1")).json
    assert (len(first["transactions"]), first["next_cursor"]) == (1, None)
    page = (await front.ask("GET", f"{PATH}?limit=2")).json
    rest = (await front.ask("GET", f"{PATH}?limit=2&cursor={page['next_cursor']}")).json
    assert [one["subject_id"] for one in rest["transactions"]] == ["sim:approved@a"]
    refused = [await front.ask("GET", f"{PATH}?{query}") for query in ("decision=NO", "from=now", "type=")]
    assert {(one.status, one.code) for one in refused} == {(422, "FILTER_INVALID")}


async def test_others_see_nothing_of_it(front: Front) -> None:
    about = (await screen(front, "order-1")).json["transaction_id"]
    auditor, developer = await front.sign_in(Role.AUDITOR), await front.sign_in(Role.DEVELOPER)

    assert (await front.ask("GET", f"{PATH}/{about}", FOREIGN)).status == 404
    assert (await front.ask("GET", f"{PATH}/{about}", LIVE)).status == 404
    assert (await front.ask("GET", f"{PATH}/{about}", BARE)).code == "PERMISSION_DENIED"
    assert (await screen(front, "order-1", credential=BARE)).code == "PERMISSION_DENIED"
    assert (await auditor.ask("GET", f"{PATH}/{about}")).status == 200
    assert (await developer.ask("GET", f"{PATH}/{about}")).code == "PERMISSION_DENIED"
