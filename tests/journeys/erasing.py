"""A subject with canary values in all that a tenant can send about it, and the erasure of that subject."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from schemas.base import rfc3339
from tests.journeys.people import Person
from tests.journeys.service import Service, hopper, request_for

SUBJECT: Final = "customer-erased"
CANARIES: Final = (
    b"CANARYSURNAME", b"1931-04-09", b"ERIKSSON", b"CANARYPAYEE", b"canary@payee.example", b"+2348031234567",
    b"CANARYPAST", b"CANARYNAME", b"0x52908400098527886E0F7030069857D2E4169EE7",
)  # fmt: skip
"""Declared by the tenant, read on the document, named in payments, and asked for in screenings."""

_DECLARED: Final[Any] = {"extracted_fields": {"surname": "CANARYSURNAME", "date_of_birth": "1931-04-09"}}
_PAYMENT: Final[Any] = {
    "subject_id": SUBJECT,
    "type": "PAYMENT",
    "direction": "OUTBOUND",
    "amount": {"value": "15.00", "currency": "EUR"},
    "counterparty": {
        "kind": "PERSON",
        "name": "Ada CANARYPAYEE",
        "email": "canary@payee.example",
        "phone": "+2348031234567",
    },
}


_PAST: Final[Any] = _PAYMENT | {
    "reference": "past",
    "counterparty": {"kind": "PERSON", "name": "Ada CANARYPAST"},
}
_NAMES: Final[Any] = {"subject_id": SUBJECT, "queries": [{"kind": "PERSON", "name": "Ada CANARYNAME"}]}
_WALLET: Final[Any] = {"subject_id": SUBJECT, "address": "0x52908400098527886E0F7030069857D2E4169EE7"}


def request_of_canaries() -> dict[str, Any]:
    """The request of a verification."""
    return request_for(hopper(), subject_id=SUBJECT, **_DECLARED)


async def send_canaries(service: Service) -> dict[str, Any]:
    """Send everything that a tenant can send about a subject; returns the verification."""
    status, decided, _ = await service.post(request_of_canaries())
    assert status == 201, decided
    assert decided["document"]["extracted_fields"]["surname"] == "ERIKSSON"
    at = {"occurred_at": rfc3339(datetime.now(UTC))}
    for path, body, expected in (
        ("/v1/transactions", _PAYMENT | at, 201),
        ("/v1/transactions/history", {"transactions": [_PAST | at]}, 200),
        ("/v1/name-screenings", _NAMES, 201),
        ("/v1/wallet-assessments", _WALLET, 201),
    ):
        await service.decide(path, body, f"canary-{path}", expected)
    return decided


async def erased(owner: Person) -> tuple[int, dict[str, Any]]:
    """Ask for the erasure: the status of that, and the proof once its row is in the chain."""
    asked, _ = await owner.ask("POST", f"/v1/subjects/{SUBJECT}/erase", json={"reason": "asked"})
    async with asyncio.timeout(180):
        while True:
            status, proof = await owner.ask("GET", f"/v1/subjects/{SUBJECT}/erasure")
            assert status == 200, proof
            if "chain" in proof:
                return asked, dict(proof)
            await asyncio.sleep(0.1)
