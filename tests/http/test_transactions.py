"""`POST /v1/transactions` and what becomes of it: the decision, its replay, its readings (G39, G40, G129)."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.base import rfc3339
from schemas.people import Role
from schemas.problems import DecisionPending
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, Response, now

PATH = "/v1/transactions"


def payment(**changes: Any) -> dict[str, Any]:
    """A quiet payment of now."""
    body = {
        "subject_id": "user-1",
        "type": "PAYMENT",
        "direction": "OUTBOUND",
        "amount": {"value": "15.00", "currency": "EUR"},
        "occurred_at": rfc3339(now()),
    }
    return {name: value for name, value in (body | changes).items() if value is not ...}


async def screen(front: Front, key: str, body: Any = None, credential: str = TEST) -> Response:
    """Ask about a transaction under an Idempotency-Key."""
    return await front.ask("POST", PATH, credential, json=body or payment(), headers={"Idempotency-Key": key})


async def test_a_quiet_payment_is_allowed_with_every_rule_shown(front: Front) -> None:
    answer = await screen(front, "order-1")

    assert answer.status == 201, answer.body
    shown = answer.json
    assert (shown["decision"], shown["reasons"], shown["review_status"]) == ("ALLOW", [], "NOT_REQUIRED")
    assert shown["policy"]["name"] == "transactions"
    assert {rule["result"] for rule in shown["rules"]} <= {"MISS", "SKIPPED"}
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
