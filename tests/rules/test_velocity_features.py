"""The features of G113 against a brute force that was written apart from the product."""

from decimal import Decimal
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.policies import WINDOW_MS, DistinctField, FeatureFilter
from schemas.transactions import Direction, OutcomeClass, TransactionType
from tests.rules.velocity_judge import Payment
from tests.rules.velocity_streams import START_MS, every_feature, findings

EDGES_MS: Final = sorted({0, 1, *WINDOW_MS.values()})
OFFSETS: Final = st.one_of(
    st.builds(lambda edge, by: edge + by, st.sampled_from(EDGES_MS), st.integers(-1, 1)),
    st.integers(0, 95 * 86_400_000),
    st.integers(0, 3_600_000),
)
"""How long before the payment, in milliseconds: often a window's length, to the millisecond."""
MONEY: Final = st.one_of(
    st.decimals("0", "100000", places=2),
    st.decimals("0", "10", places=18),
    st.integers(0, 10**24).map(Decimal),
)
PAYMENTS: Final = st.builds(
    Payment,
    t_ms=OFFSETS.map(lambda offset: START_MS - offset),
    type=st.sampled_from(["CARD", "TRANSFER"]),
    direction=st.sampled_from(["INBOUND", "OUTBOUND"]),
    outcome=st.sampled_from(["GO", "WAIT", "STOP"]),
    amount=MONEY,
    currency=st.sampled_from(["EUR", "NGN"]),
    base_amount=st.none() | MONEY,
    base_currency=st.just("USD"),
    fields=st.dictionaries(st.sampled_from([*DistinctField]), st.sampled_from(list("abcdefgh"))),
)
FILTERS: Final = st.builds(
    FeatureFilter,
    direction=st.none() | st.just(Direction.OUTBOUND),
    type=st.none() | st.just(TransactionType.CARD),
    currency=st.none() | st.just("EUR"),
    outcome=st.none() | st.just(OutcomeClass.GO),
)


@settings(max_examples=40)
@given(payments=st.lists(PAYMENTS, max_size=24), repeats=st.integers(1, 8), now=PAYMENTS, where=FILTERS)
def test_every_feature_is_what_brute_force_says(
    payments: list[Payment], repeats: int, now: Payment, where: FeatureFilter
) -> None:
    assert findings(every_feature(where), payments * repeats, now) == []
