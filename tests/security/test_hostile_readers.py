"""Readers of recognised text: bounded work and no error, whatever lines say and wherever they stand (S46)."""

import random
import time
from collections.abc import Callable
from datetime import date
from math import inf, nan

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.verification.readers import visual_zone
from streams.verification.readers.nin_slip import number_row, read_slip
from streams.verification.readers.td3_lines import LENGTH
from streams.verification.readers.td3_mrz import read_td3
from streams.vision_ports import TextLine, TextPage
from tests.specimens.people import passport

TODAY = date(2026, 11, 22)
CPU_S = 0.5
"""What the readers of text may take for the worst page; the near lines alone took 1.2 s and more."""
MARKS = ("National Identification Number", "NIN", "Federal Republic of Nigeria", "Digital NIN Slip")
HOLDER = passport(random.Random(1))

numbers = st.one_of(
    st.integers(-3000, 3000).map(float),
    st.floats(-1e5, 1e5),
    st.sampled_from([0.0, -0.0, 1e-300, 1e300, -1e300, inf, -inf, nan]),
)
points = st.tuples(numbers, numbers)
level_rows = st.tuples(
    numbers, st.sampled_from([100.0, 100.0, 140.0]), st.sampled_from([0.0, 0.0, 20.0, nan])
)


def flat(row: tuple[float, float, float]) -> tuple[tuple[float, float], ...]:
    """A line of a given left edge, top and height; often of none."""
    left, top, high = row
    return (left, top), (left + 90.0, top), (left + 90.0, top + high), (left, top + high)


quads = st.one_of(st.tuples(points, points, points, points), level_rows.map(flat))
texts = st.one_of(
    st.sampled_from(
        [*MARKS, "1234", "567", "8901", "SURNAME: OKORO", "ADDRESS", "12 Lagos Road", *HOLDER.lines()]
    ),
    st.text(alphabet="0123456789<PUTO ABSOIZ", max_size=LENGTH + 4),
    st.text(max_size=60),
)
lines = st.builds(TextLine, texts, st.floats(0, 1), quads)
pages = st.builds(
    lambda found: TextPage(tuple(found), 1000, 700, 0), st.lists(lines, max_size=14).map(lambda some: some)
)


def page_of(texts: list[str]) -> TextPage:
    """Lines below one another."""
    placed = (
        TextLine(text, 0.99, ((0, y), (880, y), (880, y + 18), (0, y + 18)))
        for y, text in zip(range(0, 20 * len(texts), 20), texts, strict=True)
    )
    return TextPage(tuple(placed), 1000, 20 * len(texts) + 20, 0)


def near_lines(count: int) -> list[str]:
    """Second lines whose check digits nothing satisfies, made of look-alikes only."""
    chance = random.Random(4)

    def some(length: int) -> str:
        return "".join(chance.choice("0O1I2Z5S8B6G") for _ in range(length))

    return [f"{some(9)}1UTO7408122F1204159{some(14)}10" for _ in range(count)]


def cpu_s(act: Callable[..., object], *args: object) -> float:
    """Processor seconds of a call, the best of three."""

    def once() -> float:
        began = time.thread_time()
        act(*args)
        return time.thread_time() - began

    return min(once() for _ in range(3))


def test_s46_near_valid_lines_of_a_zone_cost_little() -> None:
    assert cpu_s(read_td3, page_of(near_lines(200)), TODAY) < CPU_S


def test_a_zone_among_many_long_lines_is_still_found() -> None:
    letters = ["THE WEATHER IN LAGOS IS FINE AND I MISS YOU ALL"[:44]] * 30
    found = read_td3(page_of([*letters[:15], *HOLDER.lines(), *letters[15:]]), TODAY)

    assert found is not None
    assert found.number == HOLDER.number


def test_s46_a_slip_whose_digits_have_no_height_is_read() -> None:
    page = page_of([*MARKS, "SURNAME: OKORO"])
    flat_digits = (
        TextLine(text, 0.9, flat((at, 300.0, 0.0)))  # type: ignore[arg-type] # four points
        for text, at in (("1234", 10.0), ("567", 120.0), ("8901", 230.0))
    )
    page = TextPage((*page.lines, *flat_digits), page.width, page.height, 0)

    assert read_slip(page) is not None
    assert number_row(page) is None


def test_s46_a_slip_whose_address_has_no_height_is_read() -> None:
    address = TextLine("ADDRESS: 12 LAGOS ROAD", 0.9, flat((10.0, 300.0, 0.0)))  # type: ignore[arg-type] # four points
    page = page_of([*MARKS, "SURNAME: OKORO"])
    page = TextPage((*page.lines, address), page.width, page.height, 0)

    reading = read_slip(page)
    assert reading is not None
    assert reading.fields["address"] == "12 LAGOS ROAD"


@settings(max_examples=150)
@given(pages)
def test_s46_no_geometry_breaks_the_reader_of_slips(page: TextPage) -> None:
    marked = TextPage((*page_of(list(MARKS)).lines, *page.lines), page.width, page.height, 0)

    row = number_row(marked)
    assert read_slip(marked) is not None
    assert row is None or len(row) == 4


@settings(max_examples=150)
@given(pages)
def test_s46_no_geometry_breaks_the_readers_of_passports(page: TextPage) -> None:
    read_td3(page, TODAY)
    zone = read_td3(page_of(list(HOLDER.lines())), TODAY)
    assert zone is not None
    visual_zone.compare(page, zone)
