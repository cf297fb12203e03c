"""The wallet of a transaction is assessed with it, and money that moved joins the ledger (G41, G124)."""

from datetime import date
from typing import Any, Final

import pytest

from schemas.enums import CheckKind
from schemas.lists import EntityKind, NameEntry
from schemas.people import Role
from schemas.transactions import Chain
from streams.lists.listed_names import LocalNames
from streams.lists.loaded import LoadedList, LoadedLists
from streams.wallets.listed import SANDBOX, SANDBOX_VERSION, LoadedWalletLists, listed_addresses
from tests.builders import ACME
from tests.http.support import LIVE, TEST, Front, Response, now
from tests.http.test_review_cases import conclude
from tests.http.test_transactions import PATH, payment, screen

LISTED: Final = listed_addresses()
OWN: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
"""A published example of EIP-55."""


async def transfer(front: Front, key: str, address: str, credential: str = TEST, **changes: Any) -> Response:
    """Ask about money that leaves the subject for a wallet."""
    body = {
        "type": "CRYPTO_TRANSFER",
        "base_amount": {"value": "100.00", "currency": "EUR"},
        "wallet": {"chain": "EVM", "address": address, "role": "DESTINATION"},
    }
    return await screen(front, key, payment(**(body | changes)), credential)


def wallet_row(shown: dict[str, Any]) -> dict[str, Any]:
    """The row of the wallet's check."""
    rows = [row for row in shown["checks"] if row["target"] == "wallet"]
    assert len(rows) == 1
    return dict(rows[0])


async def from_listed(front: Front, key: str, **changes: Any) -> Response:
    """Move money from a listed wallet to a clean one, which is not listed itself."""
    payer = {"kind": "PERSON", "wallet": LISTED[Chain.EVM]}
    return await transfer(front, key, OWN, counterparty=payer, **changes)


@pytest.mark.parametrize("chain", list(Chain))
async def test_money_for_a_listed_wallet_does_not_move(front: Front, chain: Chain) -> None:
    wallet = {"chain": chain, "address": LISTED[chain], "role": "DESTINATION"}
    shown = (await transfer(front, "order-1", "", wallet=wallet)).json

    assert (shown["decision"], shown["risk_level"]) == ("BLOCK", "CRITICAL")
    assert shown["reasons"][0]["code"] == "WALLET_LISTED"
    row = wallet_row(shown)
    assert (row["check"], row["result"]) == ("SANCTIONS", "MATCH")
    assert row["list_versions"] == {SANDBOX: SANDBOX_VERSION}
    assert row["matches"][0]["type"] == "DIRECT"


async def test_money_for_a_clean_wallet_moves(front: Front) -> None:
    shown = (await transfer(front, "order-1", OWN)).json

    assert (shown["decision"], wallet_row(shown)["result"]) == ("ALLOW", "CLEAR")


async def test_live_money_for_a_wallet_waits_while_no_list_has_a_wallet(front: Front) -> None:
    shown = (await transfer(front, "order-1", OWN, LIVE)).json

    assert (shown["decision"], wallet_row(shown)["result"]) == ("HOLD", "ERROR")
    assert "LIST_MISSING" in [reason["code"] for reason in shown["reasons"]]


async def test_an_address_against_its_format_is_refused_at_its_place_and_counts_nothing(front: Front) -> None:
    refused = await transfer(front, "order-1", OWN.swapcase().replace("0X", "0x"))
    following = await screen(front, "order-2")

    assert (refused.status, refused.code) == (422, "ADDRESS_INVALID")
    assert [(one["pointer"], one["rule"]) for one in refused.json["errors"]] == [
        ("/wallet/address", "CHECKSUM")
    ]
    assert following.json["rules"][0]["inputs"]["transactions_15m"]["value"] == 0


async def test_money_of_a_listed_wallet_taints_the_wallet_it_went_to(front: Front) -> None:
    await from_listed(front, "order-1")
    shown = (await transfer(front, "order-2", OWN)).json

    assert (shown["decision"], shown["review_status"]) == ("BLOCK_RECOMMENDED", "PENDING")
    row = wallet_row(shown)
    assert (row["result"], row["matches"][0]["type"], row["matches"][0]["hops"]) == (
        "POSSIBLE",
        "INDIRECT",
        1,
    )
    assert row["matches"][0]["list"] == SANDBOX


@pytest.mark.parametrize(("outcome", "decision"), [("APPROVE", "BLOCK_RECOMMENDED"), ("REJECT", "ALLOW")])
async def test_money_that_waits_joins_the_ledger_only_once_it_moves(
    front: Front, outcome: str, decision: str
) -> None:
    waiting = (await from_listed(front, "order-1", subject_id="sim:review")).json
    before = (await transfer(front, "order-2", OWN)).json
    reviewer = await front.sign_in(Role.REVIEWER)
    await conclude(reviewer, f"/v1/control/review-cases/{waiting['review_case_id']}", outcome)
    after = (await transfer(front, "order-3", OWN)).json

    assert (waiting["decision"], before["decision"], after["decision"]) == (
        "REVIEW_REQUIRED",
        "ALLOW",
        decision,
    )


async def test_what_a_transaction_says_of_wallets_is_stored_sealed(front: Front) -> None:
    made = (await from_listed(front, "order-1")).json
    read = (await front.ask("GET", f"{PATH}/{made['transaction_id']}")).json

    assert read["wallet"]["address"] == OWN
    assert read["counterparty"]["wallet"] == LISTED[Chain.EVM]


async def test_the_wallets_of_listed_entities_are_found_by_live_keys_with_the_version() -> None:
    entry = NameEntry(
        entity_id="e-1", kind=EntityKind.PERSON, names=("Invented Person",), wallets=(OWN.lower(),)
    )
    without = NameEntry(entity_id="e-2", kind=EntityKind.PERSON, names=("Another Person",))
    lists = LoadedLists([_list("with_wallets", entry), _list("without", without)])
    wallets = LoadedWalletLists(lists, now)

    live = await wallets.current(ACME, livemode=True)
    lists.remove(None, "with_wallets")
    gone = await wallets.current(ACME, livemode=True)

    assert [(one.list, one.entity_id, one.sanctions) for one in live.of(OWN)] == [
        ("with_wallets", "e-1", True)
    ]
    assert dict(live.versions) == {"with_wallets": "2026-06-01#00000000"}
    assert (gone.of(OWN), dict(gone.versions)) == ((), {})


def _list(name: str, entry: NameEntry) -> LoadedList:
    version, day = "2026-06-01#00000000", date(2026, 6, 1)
    return LoadedList(name, None, CheckKind.SANCTIONS, version, day, now(), LocalNames([entry]), (entry,))
