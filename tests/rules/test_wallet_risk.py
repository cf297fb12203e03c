"""The risk of a wallet from lists and from the tenant's own ledger (G41, G124)."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from schemas.enums import DecisionOutcome, RiskLevel
from schemas.ids import TenantId
from schemas.reasons import ReasonCode
from schemas.transactions import Chain
from schemas.verifications import codes_of
from schemas.wallets import ExposureType, Listing, WalletFormat, WalletRisk
from streams.lists.loaded import LoadedLists
from streams.wallets import rules
from streams.wallets.formats import read
from streams.wallets.ledger import MAX_EDGES, Taint, trace
from streams.wallets.listed import LoadedWalletLists, listed_addresses
from streams.wallets.ports import Edge, Inflow, Ledger, ListedWallets, Node

ACME: Final = TenantId("acme")
LISTED: Final = Listing(list="ofac", category="sanctions", entity_id="e1", entity_name="X", sanctions=True)
UNOFFICIAL: Final = Listing(list="ransomwhere", category="ransomware", official=False)
LISTS: Final = ListedWallets({"ofac": "v1", "ransomwhere": "v2"}, {"bad": (LISTED,), "rumour": (UNOFFICIAL,)})


class ListOfTransfers(Ledger):
    """A ledger of (source, destination, amount), of nodes written `w:NAME` and `s:NAME`."""

    def __init__(self, *transfers: tuple[str, str, str]) -> None:
        self.amounts: dict[Node, dict[Node, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        for source, destination, amount in transfers:
            self.amounts[node(destination)][node(source)] += Decimal(amount)

    @override
    async def into(self, node: Node, limit: int) -> Inflow:
        amounts = self.amounts.get(node, {})
        edges = sorted((Edge(*one) for one in amounts.items()), key=lambda edge: -edge.weight)
        return Inflow(tuple(edges[:limit]), sum(amounts.values(), Decimal(0)), len(edges) > limit)


def node(name: str) -> Node:
    """Return the node of a short name."""
    return Node(name)


def listed(of: Node) -> tuple[Listing, ...]:
    """Return where a wallet of the tests stands."""
    return LISTS.of(of[2:]) if of.startswith("w:") else ()


async def risk_of(ledger: Ledger, wallet: str = "w:asked", lists: ListedWallets = LISTS) -> WalletRisk:
    """Return the risk of a wallet."""
    taint = await trace(node(wallet), ledger, listed)
    return rules.assess(WalletFormat.EVM_HEX, lists.of(wallet[2:]), taint, lists, rules.Thresholds())


async def test_a_listed_wallet_is_blocked_whatever_the_ledger_holds() -> None:
    risk = await risk_of(ListOfTransfers(("w:bad", "w:bad", "1")), "w:bad")

    assert (risk.score, risk.risk_level, risk.decision) == (100, RiskLevel.CRITICAL, DecisionOutcome.BLOCK)
    assert risk.sanctioned
    assert risk.exposures[0].type is ExposureType.DIRECT
    assert (risk.exposures[0].share, risk.exposures[0].hops) == ("1", 0)


async def test_a_wallet_of_an_unofficial_list_is_flagged() -> None:
    risk = await risk_of(ListOfTransfers(), "w:rumour")

    assert (risk.decision, risk.risk_level, risk.sanctioned) == (
        DecisionOutcome.FLAG,
        RiskLevel.MEDIUM,
        False,
    )
    assert codes_of(risk.reasons) == (ReasonCode.WALLET_LISTED,)


@pytest.mark.parametrize(
    ("bad", "clean", "decision", "level", "score"),
    [
        ("10", "90", DecisionOutcome.BLOCK_RECOMMENDED, RiskLevel.HIGH, 50),
        ("100", "0", DecisionOutcome.BLOCK_RECOMMENDED, RiskLevel.HIGH, 90),
        ("9.99", "90.01", DecisionOutcome.FLAG, RiskLevel.MEDIUM, 50),
        ("1", "99", DecisionOutcome.FLAG, RiskLevel.MEDIUM, 41),
        ("0.99", "99.01", DecisionOutcome.ALLOW, RiskLevel.LOW, 1),
        ("0", "100", DecisionOutcome.ALLOW, RiskLevel.LOW, 0),
    ],
)
async def test_the_share_of_listed_money_decides(
    bad: str, clean: str, decision: DecisionOutcome, level: RiskLevel, score: int
) -> None:
    ledger = ListOfTransfers(("w:bad", "s:ann", bad), ("w:clean", "s:ann", clean), ("s:ann", "w:asked", "5"))

    risk = await risk_of(ledger)

    assert (risk.decision, risk.risk_level, risk.score) == (decision, level, score)
    assert [exposure.hops for exposure in risk.exposures] == ([] if bad == "0" else [2])


async def test_money_is_followed_over_two_hops_and_no_further() -> None:
    ledger = ListOfTransfers(
        ("w:bad", "s:ann", "1"), ("s:ann", "w:between", "1"), ("w:between", "w:asked", "1")
    )

    assert (await risk_of(ledger)).decision is DecisionOutcome.ALLOW
    assert (await risk_of(ledger, "w:between")).decision is DecisionOutcome.BLOCK_RECOMMENDED


async def test_money_of_an_unofficial_list_never_blocks() -> None:
    assert (await risk_of(ListOfTransfers(("w:rumour", "w:asked", "1")))).decision is DecisionOutcome.FLAG


async def test_an_exposure_sums_the_ways_of_an_entity_and_names_the_hops_of_the_heaviest() -> None:
    ledger = ListOfTransfers(("w:bad", "w:asked", "1"), ("w:bad", "s:ann", "1"), ("s:ann", "w:asked", "3"))

    (exposure,) = (await risk_of(ledger)).exposures

    assert (exposure.share, exposure.hops, exposure.entity_id) == ("1", 2, "e1")


async def test_without_a_list_nothing_is_cleared_and_the_answer_says_so() -> None:
    risk = await risk_of(ListOfTransfers(), lists=ListedWallets())

    assert (risk.decision, codes_of(risk.reasons)) == (DecisionOutcome.FLAG, (ReasonCode.LIST_MISSING,))
    assert "No list of wallets is loaded" in rules.coverage(Chain.BTC, Taint(), ListedWallets()).note


async def test_the_heaviest_sources_are_followed_and_the_cut_is_said() -> None:
    many = [(f"w:{number}", "w:asked", "1") for number in range(MAX_EDGES)]
    taint = await trace(node("w:asked"), ListOfTransfers(("w:bad", "w:asked", "500"), *many), listed)

    assert taint.cut
    assert taint.share(official=True) == Fraction(1, 2)
    assert f"more than {MAX_EDGES}" in rules.coverage(Chain.SOL, taint, LISTS).note
    assert "no checksum" in rules.coverage(Chain.SOL, taint, LISTS).note


NAMES: Final = ("w:asked", "w:bad", "w:rumour", "w:clean", "s:ann", "s:bob")
TRANSFERS: Final = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 50).map(str)), max_size=25
)


@given(transfers=TRANSFERS)
async def test_the_taint_is_what_the_definition_says(transfers: list[tuple[str, str, str]]) -> None:
    amounts = ListOfTransfers(*transfers).amounts

    def share(of: Node, hops: int) -> Fraction:
        if listed(of):
            return Fraction(1)
        inflow: Mapping[Node, Decimal] = amounts.get(of, {})
        if not hops or not inflow:
            return Fraction(0)
        parts = (Fraction(amount) * share(source, hops - 1) for source, amount in inflow.items())
        return sum(parts, Fraction(0)) / Fraction(sum(inflow.values()))

    taint = await trace(node("w:asked"), ListOfTransfers(*transfers), listed)

    assert taint.share(official=False) == share(node("w:asked"), 2)
    assert taint.share(official=True) <= taint.share(official=False) <= 1


async def test_the_sandbox_lists_one_valid_address_of_each_chain_for_test_keys_alone() -> None:
    lists = LoadedWalletLists(LoadedLists(), lambda: datetime(2026, 3, 9, tzinfo=UTC))
    test, live = await lists.current(ACME, livemode=False), await lists.current(ACME, livemode=True)

    for chain, address in listed_addresses().items():
        assert read(address, chain).normalized == address
        assert test.of(address)[0].sanctions
    assert set(listed_addresses()) == set(Chain)
    assert live == ListedWallets()
