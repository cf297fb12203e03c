"""The printed page as a witness: spellings that check digits do not distinguish, and centuries."""

from dataclasses import replace
from datetime import date

import pytest

from schemas.enums import ExtractionStatus
from streams.verification.observations import Agreement
from streams.verification.readers.td3_lines import Td3Fields, compose, verify
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from streams.verification.readers.td3_text import normalise
from streams.verification.readers.td3_witness import (
    Printed,
    Spelling,
    Spelt,
    could_be_settled,
    settle,
    spelt,
    windows,
)
from streams.verification.readers.visual_zone import compare, witness
from tests.specimens.text_pages import text_page, zone

TODAY = date(2026, 1, 1)
FIELDS = Td3Fields("ERIKSSON", "ANNA<MARIA", "C01X00T47", "740812", "F", "320415")
BLIND_PAIRS = [("G", "6"), ("L", "1"), ("S", "8"), ("F", "5"), ("F", "P"), ("Z", "5")]


def read(second: str | None = None, **changes: str) -> Td3Reading:
    first, true = compose(replace(FIELDS, **changes))
    found = read_td3(text_page(*zone(first, second or true)), TODAY)
    assert found is not None
    return found


def settled(reading: Td3Reading, *numbers: tuple[str, float], **dates: tuple[date, ...]) -> Td3Reading:
    printed = Printed(tuple(Spelling(text, score) for text, score in numbers), **dates)
    return settle(reading, printed, TODAY)


@pytest.mark.parametrize(("true", "seen"), [*BLIND_PAIRS, *((other, one) for one, other in BLIND_PAIRS)])
def test_a_spelling_the_digits_do_not_tell_apart_is_not_read_as_a_whole(true: str, seen: str) -> None:
    reading = read(number=f"C0{seen}X00T47")
    assert reading.status is ExtractionStatus.EXTRACTED
    assert settled(reading, (f"C0{true}X00T47", 0.995)).status is ExtractionStatus.PARTIAL


def test_the_same_spelling_proves_the_number() -> None:
    assert settled(read(), ("C01X00T47", 0.9)).status is ExtractionStatus.EXTRACTED


@pytest.mark.parametrize("print_of", ["CO1X00T47", "C0IX00T47", "COIXO0T47"])
def test_a_nought_like_an_o_is_decided_by_the_digits(print_of: str) -> None:
    assert spelt(read().lines[1], Spelling(print_of, 0.999)) is Spelt.SAME


def test_a_clear_print_the_digits_refute_is_doubt_and_an_unclear_one_nothing() -> None:
    reading = read(number="C0BX00T47")
    assert spelt(reading.lines[1], Spelling("C08X00T47", 0.99)) is Spelt.DOUBTFUL
    assert spelt(reading.lines[1], Spelling("C08X00T47", 0.90)) is Spelt.MISREAD
    assert settled(reading, ("C08X00T47", 0.99)).status is ExtractionStatus.PARTIAL
    assert settled(reading, ("C08X00T47", 0.90)).status is ExtractionStatus.EXTRACTED


def test_another_number_is_no_spelling_of_it() -> None:
    assert spelt(read().lines[1], Spelling("C07X00T47", 0.99)) is Spelt.OTHER
    assert spelt(read().lines[1], Spelling("C01X00T4", 0.99)) is Spelt.OTHER


def test_the_most_legible_print_speaks() -> None:
    reading = read(number="C06X00T47")
    assert settled(reading, ("C06X00T47", 0.99), ("C0GX00T47", 0.8)).status is ExtractionStatus.EXTRACTED
    assert settled(reading, ("C06X00T47", 0.8), ("C0GX00T47", 0.99)).status is ExtractionStatus.PARTIAL


def test_a_number_the_digits_chose_is_proven_by_its_print() -> None:
    first, second = compose(replace(FIELDS, number="X3S7943A7"))
    reading = read_td3(text_page(*zone(first, second.replace("X3S", "X35"))), TODAY)
    assert reading is not None
    assert (reading.status, reading.repairs) == (ExtractionStatus.PARTIAL, 1)
    assert settled(reading, ("X3S7943A7", 0.98)).status is ExtractionStatus.EXTRACTED


def test_of_several_spellings_that_hold_the_printed_one_is_taken_and_recorded() -> None:
    true = compose(replace(FIELDS, number="L898902C3"))[1]
    reading = read("LB98902C3" + true[9:])
    assert not reading.holds
    assert could_be_settled(reading)
    repaired = settled(reading, ("L898902C3", 0.97))
    assert (repaired.number, repaired.holds, repaired.repairs) == ("L898902C3", True, 1)
    assert repaired.fields["mrz_checks"] == {**verify(true), "calendar": True}
    assert repaired.status is ExtractionStatus.EXTRACTED


def test_a_z_read_as_2_in_a_short_number_is_settled_by_the_print() -> None:
    true = compose(replace(FIELDS, number="ZZ25S8"))[1]
    reading = read("222558" + true[6:])
    assert settled(reading, ("ZZ25S8", 0.97)).number == "ZZ25S8"
    assert settled(reading, ("ZZ25S8", 0.80)) == reading


def test_a_print_that_does_not_look_alike_mends_nothing() -> None:
    true = compose(FIELDS)[1]
    reading = read("C07X00T47" + true[9:])
    assert settled(reading, ("C01X00T47", 0.99)) == reading


def test_a_zone_whose_dates_do_not_hold_is_not_settled() -> None:
    true = compose(FIELDS)[1]
    assert not could_be_settled(read(true[:13] + "9" + true[14:]))


@pytest.mark.parametrize(
    ("score", "number", "status"),
    [
        (0.99, "C06X00T47", ExtractionStatus.EXTRACTED),
        (0.9, "C06X00T47", ExtractionStatus.PARTIAL),
        (0.9, "C03X00T47", ExtractionStatus.EXTRACTED),
    ],
)
def test_without_a_print_a_blind_spelling_needs_a_legible_zone(
    score: float, number: str, status: ExtractionStatus
) -> None:
    page = text_page(*zone(*compose(replace(FIELDS, number=number))), score=score)
    reading = read_td3(page, TODAY)
    assert reading is not None
    assert settle(reading, witness(page, reading), TODAY).status is status


def test_windows_are_the_parts_that_read_like_the_number() -> None:
    assert windows("NOC0GX00T47", "C06X00T47") == ["C0GX00T47"]
    assert windows("15APR2032", "C06X00T47") == []


def test_greek_and_cyrillic_capitals_are_the_latin_ones_they_look_like() -> None:
    assert normalise("\u03a1<UTO\u0410\u0412\u0421<<\u0397\u039d\u039a<") == "P<UTOABC<<HNK<"
    first, second = compose(replace(FIELDS, number="PA1234567"))
    page = text_page(*zone(first, "\u03a1\u0391" + second[2:]), ("\u03a1\u03911234567", 900, 150))
    reading = read_td3(page, TODAY)
    assert reading is not None
    assert reading.number == "PA1234567"
    assert compare(page, reading)["document_number"] is Agreement.MATCH


def test_the_page_tells_the_century_of_an_expiry() -> None:
    reading = read(expiry="980415")
    assert (reading.fields["expiry_date"], reading.status) == ("2098-04-15", ExtractionStatus.PARTIAL)
    result = settled(reading, ("C01X00T47", 0.99), expiries=(date(1998, 4, 15),))
    assert (result.fields["expiry_date"], result.expires) == ("1998-04-15", date(1998, 4, 15))
    assert result.status is ExtractionStatus.EXTRACTED


def test_an_expiry_beyond_2049_is_believed_where_the_page_prints_it() -> None:
    reading = read(expiry="530415")
    assert reading.status is ExtractionStatus.PARTIAL
    result = settled(reading, ("C01X00T47", 0.99), expiries=(date(2053, 4, 15),))
    assert (result.fields["expiry_date"], result.status) == ("2053-04-15", ExtractionStatus.EXTRACTED)


def test_a_day_that_could_be_a_month_still_tells_the_year() -> None:
    reading = read(expiry="530602")
    result = settled(reading, expiries=(date(2053, 6, 2), date(2053, 2, 6)))
    assert (result.fields["expiry_date"], result.status) == ("2053-06-02", ExtractionStatus.EXTRACTED)
    earlier = settled(reading, expiries=(date(1953, 6, 2), date(1953, 2, 6)))
    assert earlier.expires == date(1953, 6, 2)


def test_two_printed_digits_of_a_year_tell_no_century() -> None:
    both = (date(1998, 4, 15), date(2098, 4, 15))
    assert settled(read(expiry="980415"), expiries=both).status is ExtractionStatus.PARTIAL


def test_an_earlier_birth_on_the_page_is_reported_and_left_to_a_person() -> None:
    reading = read(birth="120812")
    assert reading.fields["date_of_birth"] == "2012-08-12"
    result = settled(reading, ("C01X00T47", 0.99), births=(date(1912, 8, 12),))
    assert (result.fields["date_of_birth"], result.birth) == ("1912-08-12", date(1912, 8, 12))
    assert result.status is ExtractionStatus.PARTIAL


@pytest.mark.parametrize("born", [date(1874, 8, 12), date(1974, 8, 13), date(2074, 8, 12)])
def test_a_birth_that_cannot_be_is_not_followed(born: date) -> None:
    assert settled(read(), ("C01X00T47", 0.99), births=(born,)).fields["date_of_birth"] == "1974-08-12"
