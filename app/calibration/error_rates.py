"""Compute false match and false non-match rates over distances, with confidence intervals; pure.

The words are those of ISO/IEC 19795-1: a mated comparison is of two photographs of one person, a non-mated
one of two people; FNMR and FMR are the shares of either that come out wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

CONFIDENCE: Final = 0.90
"""Of the intervals, both ends; either end alone has 95 %. So the upper end on no error at all
is the rule of 3, and the confidence is that of the rule of 30 (both in ISO/IEC 19795-1, and in Mansfield and
Wayman, Best Practices in Testing and Reporting Performance of Biometric Devices, NPL CMSC 14/02, 2002)."""

TAIL: Final = (1 - CONFIDENCE) / 2

ERRORS_FOR_ESTIMATE: Final = 30
"""The rule of 30: with fewer errors than these, the true rate may lie more than 30 % from the counted one."""

FINE: Final = 0.001
"""Between the thresholds of a curve; those that are recommended are a hundredth apart."""

_HALVINGS: Final = 60
"""An interval's end is found to the last digits of a float."""
_STEPS_MAX: Final = 20_000
_TINY: Final = 1e-300
_CLOSE: Final = 1e-14


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of errors with its Clopper-Pearson interval."""

    errors: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share that was counted."""
        return self.errors / self.trials


@lru_cache(maxsize=65_536)
def rate(errors: int, trials: int) -> Rate:
    """Return the share of errors with its interval, which is exact: it covers the truth at least so often.

    Raises:
        ValueError: There were no trials, or more errors than trials.
    """
    if not 0 <= errors <= trials or trials == 0:
        raise ValueError(f"{errors} errors in {trials} trials")
    low = _solved(errors, trials - errors + 1, TAIL) if errors else 0.0
    high = _solved(errors + 1, trials - errors, 1 - TAIL) if errors < trials else 1.0
    return Rate(errors, trials, low, high)


def trials_needed(wanted: float) -> int:
    """Return how many trials without an error show a rate of at most `wanted`; about 3 / wanted."""
    needed = max(math.floor(math.log(TAIL) / math.log1p(-wanted)), 1)
    while rate(0, needed).high > wanted:
        needed += 1
    return needed


class Comparisons:
    """The distances of all comparisons, and what thresholds make of them: a distance up to one is a match."""

    def __init__(self, mated: Sequence[float], nonmated: Sequence[float]) -> None:
        self.mated: Final[NDArray[np.float64]] = np.sort(np.asarray(mated, np.float64))
        self.nonmated: Final[NDArray[np.float64]] = np.sort(np.asarray(nonmated, np.float64))

    def fnmr(self, threshold: float) -> Rate:
        """Return the share of mated comparisons that do not match."""
        matches = int(np.searchsorted(self.mated, threshold, "right"))
        return rate(len(self.mated) - matches, len(self.mated))

    def fmr(self, threshold: float) -> Rate:
        """Return the share of non-mated comparisons that match."""
        return rate(int(np.searchsorted(self.nonmated, threshold, "right")), len(self.nonmated))

    def grid(self, step: float = 0.01) -> list[float]:
        """Return thresholds a step apart, from 0 to where everything matches."""
        farthest = max(self.mated[-1], self.nonmated[-1])
        return [round(number * step, 6) for number in range(math.ceil(farthest / step) + 1)]

    def equal_error(self) -> tuple[float, float]:
        """Return the threshold at which FMR and FNMR are nearest to each other, and their mean there."""
        thresholds = self.grid(FINE)
        fmr, fnmr = self._shares(thresholds)
        nearest = int(np.argmin(np.abs(fmr - fnmr)))
        return thresholds[nearest], float(fmr[nearest] + fnmr[nearest]) / 2

    def trade_off(self) -> list[tuple[float, float]]:
        """Return FMR and FNMR at every threshold where either changes: the DET curve."""
        fmr, fnmr = self._shares(self.grid(FINE))
        return list(dict.fromkeys(zip(fmr.tolist(), fnmr.tolist(), strict=True)))

    def _shares(self, thresholds: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return FMR and FNMR at each threshold, without intervals."""
        nonmated = np.searchsorted(self.nonmated, thresholds, "right") / len(self.nonmated)
        mated = np.searchsorted(self.mated, thresholds, "right") / len(self.mated)
        return nonmated, 1 - mated


@dataclass(frozen=True, slots=True)
class Band:
    """Two thresholds: up to one it is the same person, above the other another, in between a person looks."""

    accept_at: float
    reject_above: float


def recommended(comparisons: Comparisons, max_fmr: float, max_fnmr: float) -> Band | None:
    """Return the narrowest band on the grid that keeps both promises, or None if there is none.

    The upper end of FMR's interval at `accept_at` is at most `max_fmr`, that of FNMR's at `reject_above` at
    most `max_fnmr`. Where one threshold would keep both, the band is all that lies between the two limits.
    """
    grid = comparisons.grid()
    accept = max((t for t in grid if comparisons.fmr(t).high <= max_fmr), default=None)
    reject = min((t for t in grid if comparisons.fnmr(t).high <= max_fnmr), default=None)
    if accept is None or reject is None:
        return None
    return Band(min(accept, reject), max(accept, reject))


def _solved(a: int, b: int, wanted: float) -> float:
    """Return where the distribution function of beta(a, b) is `wanted`, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _beta_distribution(a, b, middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_distribution(a: int, b: int, x: float) -> float:
    """Return the regularised incomplete beta function (DLMF 8.17.22), on the side where it converges fast."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_distribution(b, a, 1 - x)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    return front * _continued_fraction(a, b, x)


def _continued_fraction(a: int, b: int, x: float) -> float:
    """Evaluate DLMF 8.17.22's fraction from its front (Lentz's method), until it changes no more."""
    value, above, below = _TINY, _TINY, 0.0
    for step in range(_STEPS_MAX):
        term = _coefficient(a, b, x, step)
        below = 1 / (1 + term * below or _TINY)
        above = 1 + term / above or _TINY
        value *= above * below
        if abs(above * below - 1) < _CLOSE:
            break
    return value


def _coefficient(a: int, b: int, x: float, step: int) -> float:
    """Return the numerator of one step; the first is the 1 over the whole."""
    if step == 0:
        return 1.0
    half = step // 2
    if step % 2 == 0:
        return half * (b - half) * x / ((a + step - 1) * (a + step))
    return -(a + half) * (a + b + half) * x / ((a + step - 1) * (a + step))
