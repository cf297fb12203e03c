"""Payments of the demonstration: one held because there were many, one stopped by the sandbox's list."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from app.demo.client import IDEMPOTENCY_KEY, Client
from schemas.base import rfc3339

HELD_AT: Final = 11
"""The first policy holds the eleventh outbound payment of an hour."""

PAYER: Final = "demo-payer-1"
LISTED: Final = {
    "kind": "PERSON",
    "name": "Zoltan Qaraveli",
    "birth_date": "1970-01-01",
    "country": "SC",
}
"""An invented person of the list `sandbox`."""


async def submit_payments(client: Client) -> None:
    """Submit the payments of which an earlier start submitted none.

    Raises:
        CannotStart: The service refused.
    """
    last = await client.request("GET", "/v1/transactions", reference=_reference(HELD_AT))
    if not last["transactions"]:
        begun = datetime.now(UTC) - timedelta(minutes=1)
        for number in range(1, HELD_AT + 1):
            await _submit(client, PAYER, number, begun, {})
    if not (await client.request("GET", "/v1/transactions", reference=_reference(0)))["transactions"]:
        await _submit(client, "demo-payer-2", 0, datetime.now(UTC), {"counterparty": LISTED})


async def shown_payments(client: Client) -> list[dict[str, Any]]:
    """Return the payment that is held and the one that is stopped, as they were decided."""
    return [
        (await client.request("GET", "/v1/transactions", reference=_reference(number)))["transactions"][0]
        for number in (HELD_AT, 0)
    ]


def _reference(number: int) -> str:
    return f"demo-payment-{number}"


async def _submit(
    client: Client, subject_id: str, number: int, begun: datetime, more: dict[str, Any]
) -> None:
    at = begun + timedelta(seconds=number)
    body = {
        "subject_id": subject_id,
        "type": "TRANSFER",
        "direction": "OUTBOUND",
        "amount": {"value": f"{10 + number}.00", "currency": "EUR"},
        "occurred_at": rfc3339(at),
        "reference": _reference(number),
        **more,
    }
    keyed = {**client.headers, IDEMPOTENCY_KEY: f"{_reference(number)}-{rfc3339(begun)}"}
    await replace(client, headers=keyed).request("POST", "/v1/transactions", body)
