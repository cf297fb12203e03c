"""Payments that the bench stores are in the stores what payments are that the service decided."""

import json
from typing import Any

from schemas.audit import AuditFilter
from schemas.base import rfc3339
from streams.ports.records import Record, RecordKind
from streams.transactions.opening import open_transaction
from streams.transactions.row import decode
from streams.transactions.velocity import rebuilt_row
from streams.verification.records import by_mode, by_subject
from tests.bench.fifty_rules import policy_text
from tests.bench.stored_payments import PaymentStorage, storage_of
from tests.builders import ACME
from tests.http.support import HASHES, Front, now, open_front
from tests.http.test_transactions import payment, screen

DEVICE = {"id": "device-1", "ip": "198.51.100.1"}


async def decided_and_stored(front: Front) -> tuple[Record, list[Record], PaymentStorage]:
    """One payment that the service decided, and three that were stored by the policy of the bench."""
    owner, path = await front.sign_in(), "/v1/policies/transactions"
    headers = {"Content-Type": "application/yaml"}
    await owner.ask("PUT", f"{path}/draft", data=policy_text(), headers=headers)
    assert (await owner.ask("POST", f"{path}/publish", json={})).status == 200
    answer = await screen(front, "order-1", payment(device=DEVICE, occurred_at=rfc3339(now())))
    about = answer.json["transaction_id"]
    storage = await storage_of(front.stores, ACME, HASHES)
    await storage.store(3)
    of_test = by_mode(livemode=False)
    page = await front.stores.records.page(ACME, RecordKind.TRANSACTION, of_test, limit=9)
    decided = await front.stores.records.get(ACME, RecordKind.TRANSACTION, about)
    return decided, [record for record in page if record.id != about], storage


def shape(value: Any) -> Any:
    """What a JSON value consists of."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


async def test_a_stored_payment_has_what_a_decided_one_has() -> None:
    async with open_front() as front:
        decided, stored, _ = await decided_and_stored(front)

        assert len(stored) == 3
        for record in stored:
            assert [name for name, _ in record.indexes] == [name for name, _ in decided.indexes]
            assert shape(json.loads(record.body)) == shape(json.loads(decided.body))
            opened = await open_transaction(front.stores, ACME, record)
            assert opened.decided is not None
            assert opened.decided == (await open_transaction(front.stores, ACME, decided)).decided
        rows = await front.stores.audit_log.page(ACME, AuditFilter(action="transaction.screened"), limit=9)
        assert len(rows) == 4
        events = await front.stores.feed.page(ACME, livemode=False, after="", limit=9)
        assert [fed.event.type for fed in events] == ["transaction.screened"] * 4


async def test_the_row_of_a_stored_payment_is_what_the_service_would_rebuild() -> None:
    async with open_front() as front:
        _, stored, storage = await decided_and_stored(front)

        for record in stored:
            body = json.loads(record.body)
            subject = by_subject(False, body["transaction"]["subject_id"])
            rebuilt = await rebuilt_row(front.stores, HASHES, ACME, subject, now())
            assert decode(storage.rows[body["subject_key"]]) == rebuilt
