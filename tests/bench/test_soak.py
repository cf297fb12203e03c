"""The soak's own judgement: it passes what is steady and names each thing that is not."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.bench.readings import HOUR_S, Limits, Reading, Soaked, settled, slope_of

EVERY_S = 10.0


def readings(
    rss: Callable[[int], float] = lambda _: 500.0, fds: Callable[[int], int] = lambda _: 80
) -> list[Reading]:
    """Half an hour of readings."""
    return [
        Reading(at_s=n * EVERY_S, rss_mib=rss(n), threads=20, fds=fds(n), tasks=75 + n % 3, lag=n % 5)
        for n in range(180)
    ]


def soaked(what: Sequence[Reading] | None = None) -> Soaked:
    """A soak that was passed, unless other readings are given."""
    return Soaked(what or readings(), {201: 1_000}, explained_mib_per_hour=0.0, lag_at_end=0, faults=())


def test_the_slope_of_a_line_is_found_whole() -> None:
    slope = slope_of([(x, 3.0 + 2.0 * x) for x in range(50)])

    assert slope.per_hour == pytest.approx(2.0 * HOUR_S)
    assert slope.beyond_doubt == pytest.approx(2.0 * HOUR_S, rel=1e-6)


def test_of_two_points_nothing_is_known() -> None:
    assert slope_of([(0.0, 1.0), (1.0, 9.0)]).beyond_doubt == 0.0


def test_a_number_that_swings_has_no_slope_beyond_doubt() -> None:
    assert slope_of([(float(n), float(n // 20 % 2)) for n in range(180)]).beyond_doubt == 0.0


def test_a_steady_service_passes() -> None:
    assert soaked().wrong(Limits()) == []


def test_memory_that_grows_only_at_first_is_forgiven() -> None:
    growing_at_first = readings(rss=lambda n: 500.0 + min(n, 120))

    assert soaked(settled(growing_at_first, 120 * EVERY_S)).wrong(Limits()) == []
    assert soaked(growing_at_first).wrong(Limits()) != []


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (soaked(readings(rss=lambda n: 500 + n / 10)), "memory grows"),
        (soaked(readings(fds=lambda n: 80 + n // 4)), "fds grow"),
        (soaked([replace(r, tasks=75 + n) for n, r in enumerate(readings())]), "tasks grow"),
        (replace(soaked(), lag_at_end=3), "3 records still wait"),
        (replace(soaked(), answers={201: 999, 503: 1}), "answers other than 201"),
        (replace(soaked(), answers={}), "answers other than 201"),
        (replace(soaked(), faults=("a broken chain",)), "a broken chain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named_and_nothing_else(broken: Soaked, text: str) -> None:
    wrong = broken.wrong(Limits())

    assert len(wrong) == 1
    assert text in wrong[0]


def test_memory_that_is_explained_is_forgiven() -> None:
    growing = soaked(readings(rss=lambda n: 500 + n / 10))

    assert replace(growing, explained_mib_per_hour=36.0).wrong(Limits()) == []
