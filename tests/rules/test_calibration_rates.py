"""What is claimed of error rates holds by definition: intervals, thresholds and the recommended band."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.calibration.error_rates import TAIL, Band, Comparisons, rate, recommended, trials_needed

DISTANCES = st.lists(st.floats(0, 2, allow_nan=False), min_size=1, max_size=60)
ENOUGH = st.lists(st.floats(0, 2), min_size=59, max_size=120)
COUNTS = st.integers(1, 400).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


def chance_of_at_most(errors: int, trials: int, truth: float) -> float:
    """The binomial distribution, term by term."""
    return math.fsum(math.comb(trials, k) * truth**k * (1 - truth) ** (trials - k) for k in range(errors + 1))


@given(COUNTS)
def test_an_interval_ends_where_the_counted_errors_become_a_chance_of_one_in_twenty(
    counts: tuple[int, int],
) -> None:
    errors, trials = counts
    found = rate(errors, trials)

    assert 0 <= found.low <= found.value <= found.high <= 1
    if errors < trials:
        assert chance_of_at_most(errors, trials, found.high) == pytest.approx(TAIL, abs=1e-9)
    if errors:
        assert 1 - chance_of_at_most(errors - 1, trials, found.low) == pytest.approx(TAIL, abs=1e-9)


@pytest.mark.parametrize("trials", [1, 2, 59, 299, 2_995, 1_000_000])
def test_no_error_or_nothing_else_gives_the_closed_forms(trials: int) -> None:
    none, all_ = rate(0, trials), rate(trials, trials)

    assert (none.low, all_.high) == (0, 1)
    assert none.high == pytest.approx(-math.expm1(math.log(TAIL) / trials), rel=1e-9)
    assert all_.low == pytest.approx(math.exp(math.log(TAIL) / trials), rel=1e-9)


@pytest.mark.parametrize(
    ("errors", "trials", "low", "high"),
    [(1, 10, 0.0051162, 0.3941633), (5, 10, 0.2224411, 0.7775589), (30, 100, 0.2249232, 0.3842206)],
)
def test_intervals_are_those_that_scipy_computes(errors: int, trials: int, low: float, high: float) -> None:
    """By `scipy.stats.binomtest(errors, trials).proportion_ci(0.9, "exact")`, version 1.17."""
    found = rate(errors, trials)

    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


def test_the_rule_of_3_says_how_many_trials_are_needed() -> None:
    assert [trials_needed(wanted) for wanted in (0.05, 0.01, 0.001, 0.0001)] == [59, 299, 2_995, 29_956]


@given(st.floats(1e-4, 0.5))
def test_one_trial_fewer_than_needed_would_not_show_the_rate(wanted: float) -> None:
    needed = trials_needed(wanted)

    assert rate(0, needed).high <= wanted
    assert needed == 1 or rate(0, needed - 1).high > wanted


@given(COUNTS)
def test_the_rule_of_30_holds_for_small_rates(counts: tuple[int, int]) -> None:
    """With 30 errors or more the interval lies within about 30 % of the counted rate."""
    errors, trials = counts
    found = rate(30 + errors, 20 * (30 + errors) + trials)

    assert 1 - found.low / found.value < 0.31
    assert found.high / found.value - 1 < 0.36


@given(DISTANCES, DISTANCES, st.floats(0, 2), st.floats(0, 2))
def test_a_wider_threshold_never_lowers_fmr_nor_raises_fnmr(
    mated: list[float], nonmated: list[float], one: float, other: float
) -> None:
    comparisons = Comparisons(mated, nonmated)
    narrow, wide = sorted((one, other))

    assert comparisons.fmr(narrow).value <= comparisons.fmr(wide).value
    assert comparisons.fnmr(narrow).value >= comparisons.fnmr(wide).value
    assert comparisons.fmr(narrow).high <= comparisons.fmr(wide).high
    assert comparisons.fmr(wide).errors == sum(distance <= wide for distance in nonmated)
    assert comparisons.fnmr(wide).errors == sum(distance > wide for distance in mated)


@settings(max_examples=40)
@given(DISTANCES, DISTANCES)
def test_the_det_curve_runs_from_no_match_to_nothing_but_matches(
    mated: list[float], nonmated: list[float]
) -> None:
    curve = Comparisons(mated, nonmated).trade_off()

    assert curve == sorted(curve, key=lambda point: (point[0], -point[1]))
    assert curve[-1] == (1, 0)


@settings(max_examples=15)
@given(ENOUGH, ENOUGH)
def test_a_recommended_band_keeps_both_promises_and_no_hundredth_more_would(
    mated: list[float], nonmated: list[float]
) -> None:
    comparisons = Comparisons(mated, nonmated)
    band = recommended(comparisons, 0.05, 0.05)
    if band is None:
        assert comparisons.fmr(0).high > 0.05
        return
    accept, reject = band.accept_at, band.reject_above

    assert comparisons.fmr(accept).high <= 0.05
    assert comparisons.fnmr(reject).high <= 0.05
    assert accept <= reject
    if comparisons.fnmr(accept).high > 0.05:
        assert comparisons.fmr(accept + 0.01).high > 0.05
        assert comparisons.fnmr(reject - 0.01).high > 0.05


def test_the_band_of_overlapping_distances_lies_where_both_kinds_occur() -> None:
    """100 of either kind, a hundredth apart: same from 0.01 to 1, different from 0.81 to 1.80."""
    same = [number / 100 for number in range(1, 101)]
    different = [number / 100 for number in range(81, 181)]
    comparisons = Comparisons(same, different)

    assert recommended(comparisons, 0.03, 0.03) == Band(0.8, 1.0)
    assert comparisons.equal_error() == pytest.approx((0.9, 0.1))


def test_between_distances_that_do_not_overlap_everything_goes_to_a_person() -> None:
    comparisons = Comparisons([0.1, 0.302] * 30, [0.608, 0.9] * 30)

    assert recommended(comparisons, 0.05, 0.05) == Band(0.31, 0.6)
    assert comparisons.equal_error()[1] == 0


def test_nothing_is_recommended_where_different_people_are_one_to_the_engine() -> None:
    assert recommended(Comparisons([0.1] * 100, [0.0] * 100), 0.05, 0.05) is None
