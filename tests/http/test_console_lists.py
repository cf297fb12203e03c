"""The console's lists of verifications and transactions, and the page of a transaction."""

import re
from urllib.parse import quote

import pytest

from app.web.site import console_language
from schemas.enums import DecisionOutcome
from schemas.people import Role
from schemas.transaction_decisions import CheckOutcome, DecisionBy
from schemas.transactions import OutcomeClass, TransactionType
from tests.http.console import enter, open_page
from tests.http.support import Front, SignedIn, build_body
from tests.http.test_console_case import CANARY, SHOWN_CANARY
from tests.http.test_transactions import payment, screen

VERIFICATIONS = "/console/verifications"
TRANSACTIONS = "/console/transactions"


async def draw(who: SignedIn, path: str) -> str:
    """A page of test data."""
    answer = await open_page(who, f"{path}{'&' if '?' in path else '?'}livemode=false")
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def test_verifications_are_narrowed_by_subject_and_status(front: Front) -> None:
    for subject in ("sim:approved", "sim:reject:DOCUMENT_EXPIRED", "sim:reject:DOCUMENT_EXPIRED@b"):
        assert (await front.submit(build_body(subject))).status == 201
    who = await enter(front, Role.AUDITOR)

    shown = {
        query: (await draw(who, f"{VERIFICATIONS}?{query}")).count("data-row=")
        for query in (
            "",
            "status=REJECTED",
            "subject_id=sim:approved",
            "status=FAILED",
            "subject_id=&status=",
        )
    }

    assert shown == {
        "": 3, "status=REJECTED": 2, "subject_id=sim:approved": 1, "status=FAILED": 0,
        "subject_id=&status=": 3,
    }  # fmt: skip
    assert (await open_page(who, f"{VERIFICATIONS}?status=GRAVE")).status == 422
    assert (await open_page(who, f"{VERIFICATIONS}?subject_id={quote(CANARY)}")).status == 422


async def test_a_list_goes_on_with_its_filters(front: Front) -> None:
    for number in range(26):
        await screen(front, f"order-{number}", payment(metadata={"note": CANARY}))
    who = await enter(front, Role.AUDITOR)

    first = await draw(who, f"{TRANSACTIONS}?subject_id=user-1&type=PAYMENT")
    found = re.search(r'href="(/console/transactions\?cursor=[^"]+)"', first)
    assert found is not None
    onward = found[1].replace("&amp;", "&")
    second = await open_page(who, onward)

    assert (first.count("data-row="), second.body.count(b"data-row=")) == (25, 1)
    assert "subject_id=user-1&type=PAYMENT&livemode=false" in onward


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 2), ("decision=ALLOW", 1), ("outcome=WAIT", 1), ("reference=%s", 1), ("type=CARD", 0),
        ("from=2020-01-01&to=2099-01-01", 2), ("from=2099-01-01", 0), ("risk_level=CRITICAL", 0),
    ],
)  # fmt: skip
async def test_transactions_are_narrowed(front: Front, query: str, shown: int) -> None:
    assert (await screen(front, "one", payment(reference=CANARY))).status == 201
    assert (await screen(front, "two", payment(subject_id="sim:review"))).status == 201
    page = await draw(
        await enter(front, Role.REVIEWER), f"{TRANSACTIONS}?{query.replace('%s', quote(CANARY))}"
    )

    assert page.count("data-row=") == shown
    assert "<img src=x" not in page


async def test_a_filter_that_is_no_day_is_refused(front: Front) -> None:
    assert (await open_page(await enter(front), f"{TRANSACTIONS}?from=tomorrow")).status == 422


async def test_a_transaction_has_a_page_that_leads_to_its_case(front: Front) -> None:
    payee = {"id": "payee-1", "kind": "PERSON", "name": CANARY, "country": "NG"}
    body = payment(subject_id="sim:review", reference=CANARY, counterparty=payee, metadata={"note": CANARY})
    made = (await screen(front, "order-1", body)).json
    path = f"{TRANSACTIONS}/{made['transaction_id']}"
    page = await draw(await enter(front, Role.AUDITOR), path)

    assert f"/console/review-cases/{made['review_case_id']}" in page
    assert all(word in page for word in ("15.00 EUR", "In review", "the policy", "payee-1"))
    assert "<img src=x" not in page
    assert page.count(SHOWN_CANARY) >= 3
    assert (await open_page(await enter(front, Role.DEVELOPER), path)).status == 403
    assert (await open_page(await enter(front), f"{TRANSACTIONS}/txn_{'0' * 26}")).status == 404


def test_every_word_of_a_transaction_has_a_text() -> None:
    families = {
        "decision": DecisionOutcome, "money": OutcomeClass, "payment_type": TransactionType,
        "by": DecisionBy, "found": CheckOutcome,
    }  # fmt: skip
    wanted = {f"{name}.{one}" for name, every in families.items() for one in every}

    assert wanted - set(console_language().texts) == set()
