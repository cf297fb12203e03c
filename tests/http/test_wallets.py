"""`/v1/wallet-assessments`: assess one or many, read one, list them (G41, G123, G124)."""

from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pytest

from schemas.ids import SubjectId
from schemas.transactions import Chain
from streams.ports.records import Change
from streams.wallets.judging import NodeNames
from streams.wallets.listed import SANDBOX, SANDBOX_VERSION, listed_addresses
from streams.wallets.records import LOOKED_BACK, transfer_record
from tests.builders import ACME
from tests.http.support import FOREIGN, LIVE, PEPPER, TEST, Front, now

PATH: Final = "/v1/wallet-assessments"
CLEAN: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
LISTED: Final = listed_addresses()
SUBJECT: Final = "sim:approved@wallet"
NAMES: Final = NodeNames(PEPPER)


async def test_a_listed_wallet_of_each_chain_is_blocked(front: Front) -> None:
    for chain, address in LISTED.items():
        spelled = address.lower() if chain is Chain.EVM else address
        answer = await front.ask("POST", PATH, TEST, json={"address": spelled})

        assert answer.status == 201
        shown = answer.json
        assert (shown["decision"], shown["risk_level"], shown["score"]) == ("BLOCK", "CRITICAL", 100)
        assert (shown["sanctioned"], shown["chain"], shown["normalized"]) == (True, chain, address)
        assert shown["exposures"][0]["type"] == "DIRECT"
        assert shown["list_versions"] == {SANDBOX: SANDBOX_VERSION}
        assert shown["reasons"][0]["code"] == "WALLET_LISTED"


async def test_an_unlisted_wallet_is_allowed_and_the_answer_says_that_it_is_not_cleared(front: Front) -> None:
    shown = (await front.ask("POST", PATH, TEST, json={"address": CLEAN})).json

    assert (shown["decision"], shown["risk_level"], shown["score"]) == ("ALLOW", "LOW", 0)
    assert shown["exposures"] == []
    assert shown["coverage"]["graph"] == "TENANT_LEDGER"
    assert "not clearance" in shown["coverage"]["note"]


async def test_a_live_key_without_a_list_is_answered_that_nothing_was_compared(front: Front) -> None:
    shown = (await front.ask("POST", PATH, LIVE, json={"address": LISTED[Chain.BTC]})).json

    assert (shown["decision"], shown["reasons"][0]["code"]) == ("FLAG", "LIST_MISSING")
    assert shown["coverage"]["lists"] == []
    assert "No list of wallets is loaded" in shown["coverage"]["note"]


async def test_money_of_a_listed_wallet_is_followed_through_a_subject(front: Front) -> None:
    ann = NAMES.subject(ACME, SubjectId("ann"))
    listed, clean = NAMES.wallet(LISTED[Chain.BTC]), NAMES.wallet("elsewhere")
    asked = NAMES.wallet(CLEAN)
    transfers = [
        ("one", listed, ann, Decimal(20), now()),
        ("two", clean, ann, Decimal(80), now()),
        ("three", ann, asked, Decimal(5), now()),
        ("four", clean, asked, None, now()),
        ("old", listed, asked, Decimal(10**6), now() - LOOKED_BACK - timedelta(days=1)),
    ]
    for name, source, destination, amount, at in transfers:
        record = transfer_record(ACME, name, source, destination, amount, at, livemode=False)
        await front.stores.journal.commit(Change(ACME, (record,)))

    shown = (await front.ask("POST", PATH, TEST, json={"address": CLEAN})).json

    assert (shown["decision"], shown["score"]) == ("BLOCK_RECOMMENDED", 60)
    assert [(one["hops"], one["share"], one["list"]) for one in shown["exposures"]] == [(2, "0.2", SANDBOX)]
    assert "1 transfers without a base amount" in shown["coverage"]["note"]
    foreign = (await front.ask("POST", PATH, FOREIGN, json={"address": CLEAN})).json
    assert foreign["exposures"] == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"address": ""}, "EMPTY"),
        ({"address": f" {CLEAN}"}, "CHARSET"),
        ({"address": CLEAN[:-1] + "D"}, "CHECKSUM"),
        ({"address": CLEAN, "chain": "BTC"}, "CHAIN_MISMATCH"),
        ({"address": "hello"}, "UNKNOWN_FORMAT"),
        ({"address": "x" * 999}, "UNKNOWN_FORMAT"),
    ],
)
async def test_an_address_that_is_none_names_the_rule_it_fails(
    front: Front, body: dict[str, Any], rule: str
) -> None:
    answer = await front.ask("POST", PATH, TEST, json=body)

    assert (answer.status, answer.json["code"]) == (422, "ADDRESS_INVALID")
    assert [(one["pointer"], one["rule"]) for one in answer.json["errors"]] == [("/address", rule)]


async def test_an_assessment_is_read_and_listed_by_its_subject_and_sealed_in_the_store(front: Front) -> None:
    body = {"address": CLEAN, "subject_id": SUBJECT, "direction": "OUTBOUND", "asset": "ETH"}
    made = await front.ask("POST", PATH, TEST, json=body)
    await front.ask("POST", PATH, TEST, json={"address": CLEAN})

    read = await front.ask("GET", f"{PATH}/{made.json['assessment_id']}", TEST)
    listed = await front.ask("GET", f"{PATH}?subject_id={SUBJECT}", TEST)
    every = await front.ask("GET", PATH, TEST)
    live = await front.ask("GET", f"{PATH}/{made.json['assessment_id']}", LIVE)

    assert read.json == made.json
    assert listed.json["assessments"] == [made.json]
    assert len(every.json["assessments"]) == 2
    assert live.status == 404
    assert CLEAN.encode() not in b"".join(
        record.body for record in front.shelves.records.values() if SUBJECT.encode() in record.body
    )


async def test_the_address_is_gone_with_its_subject(front: Front) -> None:
    made = await front.ask("POST", PATH, TEST, json={"address": CLEAN, "subject_id": SUBJECT})
    await front.stores.vault.destroy(ACME, SubjectId(SUBJECT))

    read = await front.ask("GET", f"{PATH}/{made.json['assessment_id']}", TEST)

    assert (read.json["address"], read.json["normalized"]) == (None, None)
    assert read.json["decision"] == "ALLOW"


async def test_a_key_answers_one_assessment(front: Front) -> None:
    key = {"headers": {"Idempotency-Key": "one"}}
    first = await front.ask("POST", PATH, TEST, json={"address": CLEAN}, **key)
    again = await front.ask("POST", PATH, TEST, json={"address": CLEAN}, **key)
    other = await front.ask("POST", PATH, TEST, json={"address": LISTED[Chain.SOL]}, **key)

    assert (first.status, again.status, again.json) == (201, 200, first.json)
    assert (other.status, other.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_a_batch_answers_each_in_its_place_and_once(front: Front) -> None:
    key = {"headers": {"Idempotency-Key": "batch"}}
    body = {"assessments": [{"address": "hello"}, {"address": CLEAN}, {"address": LISTED[Chain.TRON]}]}

    first = await front.ask("POST", f"{PATH}/batch", TEST, json=body, **key)
    again = await front.ask("POST", f"{PATH}/batch", TEST, json=body, **key)
    other = await front.ask("POST", f"{PATH}/batch", TEST, json={"assessments": [{"address": CLEAN}]}, **key)
    none = await front.ask("POST", f"{PATH}/batch", TEST, json={"assessments": []})

    refused, clean, listed = first.json["assessments"]
    assert refused["error"]["code"] == "ADDRESS_INVALID"
    assert refused["error"]["errors"][0]["pointer"] == "/assessments/0/address"
    assert (clean["decision"], listed["decision"]) == ("ALLOW", "BLOCK")
    assert (first.status, again.status) == (201, 200)
    assert again.json["assessments"][1:] == [clean, listed]
    assert (other.status, none.status) == (422, 422)
