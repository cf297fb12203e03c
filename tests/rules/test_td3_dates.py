"""Dates: two digits of a year, unknown parts, and dates as documents print them (G80)."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.verification.readers.dates import (
    birth_date,
    expiry_date,
    has_unknown_part,
    printed_dates,
)

TODAY = date(2026, 3, 15)


@pytest.mark.parametrize(
    ("digits", "born"),
    [
        ("740812", date(1974, 8, 12)),
        ("260315", date(2026, 3, 15)),
        ("260316", date(1926, 3, 16)),
        ("000229", date(2000, 2, 29)),
        ("040229", date(2004, 2, 29)),
        ("991231", date(1999, 12, 31)),
        ("740230", None),
        ("741301", None),
        ("7408<<", None),
        ("74O812", None),
    ],
)
def test_a_birth_year_is_the_latest_century_not_in_the_future(digits: str, born: date | None) -> None:
    assert birth_date(digits, TODAY) == born


@pytest.mark.parametrize(
    ("digits", "expires"),
    [("320415", date(2032, 4, 15)), ("990101", date(2099, 1, 1)), ("320230", None), ("32<<<<", None)],
)
def test_an_expiry_year_is_of_this_century(digits: str, expires: date | None) -> None:
    assert expiry_date(digits) == expires


@pytest.mark.parametrize(
    ("digits", "unknown"), [("74<<<<", True), ("740800", True), ("740012", True), ("740812", False)]
)
def test_unknown_parts_of_a_birth_date(digits: str, *, unknown: bool) -> None:
    assert has_unknown_part(digits) is unknown


@given(st.dates(date(1927, 1, 1), TODAY))
def test_every_birth_of_the_last_century_is_reported(born: date) -> None:
    assert birth_date(f"{born:%y%m%d}", TODAY) == born


@given(st.dates(date(2000, 1, 1), date(2099, 12, 31)))
def test_every_expiry_of_this_century_is_reported(expires: date) -> None:
    assert expiry_date(f"{expires:%y%m%d}") == expires


@pytest.mark.parametrize(
    "text",
    [
        "12 AUG 1974",
        "12AUG1974",
        "12 AUG/AOUT 1974",
        "12 AUG / AO\u00dbT 1974",
        "12 August 1974",
        "1974-08-12",
        "12.08.1974 UTOPIA",
        "12 ago 1974",
        "12 08 1974",
        "12.08.74",
        "1974. 08. 12.",
        "12 8\u6708/AUG 1974",
        "12 8\uc6d4/AUG 1974",
        "12 L\u00fan/Aug 1974",
    ],
)
def test_one_day_printed_in_many_ways(text: str) -> None:
    assert date(1974, 8, 12) in printed_dates(text)


def test_day_and_month_that_could_be_swapped_are_both_meant() -> None:
    assert set(printed_dates("05/06/1974")) == {date(1974, 6, 5), date(1974, 5, 6)}


def test_a_year_of_two_digits_is_meant_in_both_centuries() -> None:
    assert set(printed_dates("12 AUG 24")) == {date(1924, 8, 12), date(2024, 8, 12)}


def test_a_month_that_two_languages_read_differently_is_meant_in_both() -> None:
    assert set(printed_dates("12 MAR/NOV 1974")) == {date(1974, 3, 12), date(1974, 11, 12)}


@pytest.mark.parametrize(
    "text", ["", "ZENITH", "19900101-12345", "30 FEB 1974", "12 XYZ 1974", "1234 567 8901", "99/99/1974"]
)
def test_what_is_no_date(text: str) -> None:
    assert printed_dates(text) == ()
