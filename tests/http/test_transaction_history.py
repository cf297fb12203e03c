"""`POST /v1/transactions/history`: what is imported counts once; the rest is refused row by row (G119)."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from schemas.base import rfc3339
from schemas.people import Role
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, Response, now
from tests.http.test_transactions import PATH, payment, screen

HISTORY: Final = f"{PATH}/history"


async def send(front: Front, key: str | None, rows: Any, credential: str = TEST) -> Response:
    """Import rows under an Idempotency-Key."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return await front.ask("POST", HISTORY, credential, json={"transactions": rows}, headers=headers)


def past(reference: str, minutes: float = 5, **changes: Any) -> dict[str, Any]:
    """A payment of some minutes ago."""
    at = rfc3339(now() - timedelta(minutes=minutes))
    return payment(reference=reference, occurred_at=at, **changes)


async def seen(front: Front, key: str, subject: str = "user-1") -> int:
    """How many payments of the last 15 minutes the next decision counts."""
    answer = await screen(front, key, payment(subject_id=subject))
    count = answer.json["rules"][0]["inputs"]["transactions_15m"]["value"]
    assert isinstance(count, int)
    return count


async def test_a_thousand_rows_sent_twice_count_once_under_the_same_key_and_under_another(
    front: Front,
) -> None:
    rows = [past(f"old-{number}", subject_id=f"user-{number % 9}") for number in range(1_000)]
    first, replay = await send(front, "import-1", rows), await send(front, "import-1", rows)
    again = await send(front, "import-2", rows)
    counts = [await seen(front, f"order-{number}", f"user-{number}") for number in range(9)]

    assert first.status == 200, first.body
    assert first.json == {"accepted": 1_000, "duplicates": 0, "rejected": []}
    assert (replay.json, replay.headers["Idempotent-Replayed"]) == (first.json, "true")
    assert "Idempotent-Replayed" not in first.headers
    assert again.json == {"accepted": 0, "duplicates": 1_000, "rejected": []}
    assert sum(counts) == 1_000


async def test_the_same_import_many_times_at_once_counts_once_and_leaves_one_audit_row(front: Front) -> None:
    rows = [past(f"old-{number}") for number in range(20)]

    answers = await asyncio.gather(*(send(front, "import-1", rows) for _ in range(10)))

    assert [one.json for one in answers] == [{"accepted": 20, "duplicates": 0, "rejected": []}] * 10
    assert await seen(front, "order-1") == 20
    owner = await front.sign_in()
    audit = (await owner.ask("GET", "/v1/audit", params={"action": "transaction.imported"})).json
    assert [row["context"]["changes"]["accepted"] for row in audit["events"]] == [20]


async def test_each_row_is_judged_by_itself_at_its_place(front: Front) -> None:
    screened = await screen(front, "order-1", payment(subject_id="user-2", reference="known"))
    rows = [
        past("fine"),
        past("fine", amount={"value": "99", "currency": "EUR"}),
        past("known"),
        payment(),
        past("old", 401 * 24 * 60),
        past("early", -6),
        past("odd", outcome="MAYBE"),
        past("wrong", amount={"value": "1e3", "currency": "EUR"}),
        past(
            "coin", type="CRYPTO_TRANSFER", wallet={"chain": "BTC", "address": "bc1qwrong", "role": "SOURCE"}
        ),
        past("blocked", outcome="STOP"),
    ]

    answer = await send(front, "import-1", rows)

    assert screened.status == 201
    assert (answer.status, answer.json["accepted"], answer.json["duplicates"]) == (200, 2, 2)
    places = [(one["index"], one["errors"][0]["pointer"]) for one in answer.json["rejected"]]
    assert places == [
        (3, "/transactions/3/reference"),
        (4, "/transactions/4/occurred_at"),
        (5, "/transactions/5/occurred_at"),
        (6, "/transactions/6/outcome"),
        (7, "/transactions/7/amount/value"),
        (8, "/transactions/8/wallet/address"),
    ]
    assert await seen(front, "order-2") == 2


async def test_a_history_as_a_whole_is_refused_without_key_or_rows_and_for_another_body(front: Front) -> None:
    fine = [past("a")]
    refused = [
        await send(front, None, fine),
        await send(front, "k", []),
        await send(front, "k", fine * 1_001),
        await send(front, "k", "a"),
        await send(front, "k", [1]),
        await send(front, "k", fine, BARE),
    ]
    await send(front, "used", fine)
    other = await send(front, "used", [past("b")])

    assert [one.status for one in refused] == [400, 422, 422, 422, 422, 403]
    assert (other.status, other.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_history_is_of_its_tenant_and_mode_and_is_no_transaction_of_the_list(front: Front) -> None:
    await send(front, "import-1", [past("a")])
    elsewhere = [await send(front, "import-1", [past("a")], one) for one in (LIVE, FOREIGN)]
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    listed = await lead.ask("GET", PATH)

    assert [one.json["accepted"] for one in elsewhere] == [1, 1]
    assert listed.json["transactions"] == []
    assert await seen(front, "order-1") == 1
