"""A zone on a page: how its lines are found, what they say, and how sure it is."""

from dataclasses import replace
from datetime import date

import pytest

from schemas.enums import ExtractionStatus
from streams.verification.readers.layout import TURNS, turn_page
from streams.verification.readers.td3_lines import Td3Fields, compose
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from tests.rules.test_td3_lines import FIRST, SECOND
from tests.specimens.text_pages import text_line, text_page, zone

TODAY = date(2026, 1, 1)
FIELDS = Td3Fields("ERIKSSON", "ANNA<MARIA", "L898902C3", "740812", "F", "320415", optional="ZE184226B")


def read(first: str = FIRST, second: str = SECOND) -> Td3Reading:
    found = read_td3(text_page(*zone(first, second)), TODAY)
    assert found is not None
    return found


def read_fields(**changes: str) -> Td3Reading:
    return read(*compose(replace(FIELDS, **changes)))


def test_the_specimen_of_doc_9303_is_read() -> None:
    assert read().fields == {
        "document_code": "P",
        "issuing_state": "UTO",
        "surname": "ERIKSSON",
        "given_names": "ANNA MARIA",
        "full_name": "ANNA MARIA ERIKSSON",
        "date_of_birth": "1974-08-12",
        "sex": "F",
        "nationality": "UTO",
        "expiry_date": "2012-04-15",
        "personal_number_present": True,
        "mrz_checks": {
            "document_number": True,
            "date_of_birth": True,
            "expiry_date": True,
            "personal_number": True,
            "composite": True,
            "calendar": True,
        },
    }


def test_the_full_number_stands_apart_from_the_fields() -> None:
    reading = read()
    assert reading.number == "L898902C3"
    assert "L898902C3" not in str(reading.fields)


def test_a_zone_that_holds_is_read_as_a_whole() -> None:
    assert read().status is ExtractionStatus.EXTRACTED


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NGA", "NG"),
        ("D", "DE"),
        ("GBD", "GB"),
        ("XXA", "XXA"),
        ("XEX", "XEX"),
        ("UNO", "UNO"),
        ("GBR", "GB"),
    ],
)
def test_states_are_named_as_iso_writes_them(code: str, text: str) -> None:
    reading = read_fields(issuer=code, nationality=code)
    assert (reading.fields["issuing_state"], reading.fields["nationality"]) == (text, text)
    assert reading.status is ExtractionStatus.EXTRACTED


def test_a_state_nobody_knows_is_not_sure_enough() -> None:
    reading = read_fields(issuer="QQQ")
    assert reading.fields["issuing_state"] == "QQQ"
    assert reading.status is ExtractionStatus.PARTIAL


@pytest.mark.parametrize(("sex", "text"), [("M", "M"), ("F", "F"), ("<", "X")])
def test_the_sex_may_be_unspecified(sex: str, text: str) -> None:
    assert read_fields(sex=sex).fields["sex"] == text


def test_a_holder_may_have_one_name_only() -> None:
    fields = read_fields(surname="ARKFREITH", given_names="").fields
    assert (fields["surname"], "given_names" in fields, fields["full_name"]) == (
        "ARKFREITH",
        False,
        "ARKFREITH",
    )


def test_a_name_may_fill_the_line() -> None:
    long = "PAPANDROPOULOUS" * 2
    fields = read_fields(surname=long, given_names="JONATHON<ALEC").fields
    assert (fields["surname"], fields["given_names"]) == (long, "JONATHO")


def test_a_personal_number_may_be_absent() -> None:
    assert read_fields(optional="").fields["personal_number_present"] is False


def test_digits_that_do_not_hold_are_reported_and_leave_no_sure_field() -> None:
    reading = read(second=SECOND[:9] + "7" + SECOND[10:])
    checks = reading.fields["mrz_checks"]
    assert (checks["document_number"], checks["composite"], checks["date_of_birth"]) == (False, False, True)
    assert reading.confidence["document_number"] < 0.5
    assert reading.status is ExtractionStatus.PARTIAL


@pytest.mark.parametrize("change", [{"birth": "741301"}, {"birth": "740230"}, {"expiry": "320230"}])
def test_a_date_no_calendar_has_is_reported_although_its_digits_hold(change: dict[str, str]) -> None:
    reading = read_fields(**change)
    assert (reading.holds, reading.calendar) == (True, False)
    assert reading.fields["mrz_checks"]["calendar"] is False


def test_a_birth_date_with_unknown_parts_is_lawful_but_no_date() -> None:
    reading = read_fields(birth="7408<<")
    assert (reading.holds, reading.calendar, reading.birth) == (True, True, None)
    assert "date_of_birth" not in reading.fields


def test_a_choice_made_by_the_check_digits_is_not_sure_enough() -> None:
    first, second = compose(replace(FIELDS, number="X3S7943A7", optional=""))
    reading = read(first, second.replace("X3S", "X35"))
    assert (reading.number, reading.repairs) == ("X3S7943A7", 1)
    assert reading.status is ExtractionStatus.PARTIAL


def test_a_look_alike_put_right_by_its_place_is_counted_and_still_sure() -> None:
    reading = read(second=SECOND.replace("UTO", "UT0"))
    assert (reading.typed, reading.repairs) == (1, 0)
    assert reading.status is ExtractionStatus.EXTRACTED


def test_a_badly_recognised_name_is_not_sure_enough() -> None:
    upper, lower = text_page(*zone(FIRST, SECOND)).lines
    page = text_page()
    reading = read_td3(replace(page, lines=(replace(upper, score=0.4), lower)), TODAY)
    assert reading is not None
    assert reading.confidence["surname"] == 0.4
    assert reading.status is ExtractionStatus.PARTIAL


def test_a_second_line_alone_tells_what_stands_in_it() -> None:
    reading = read_td3(text_page((SECOND, 70, 770)), TODAY)
    assert reading is not None
    assert (reading.number, reading.status) == ("L898902C3", ExtractionStatus.PARTIAL)
    assert "surname" not in reading.fields


def test_a_number_that_begins_with_p_does_not_make_a_first_line() -> None:
    first, second = compose(replace(FIELDS, number="PA1234567"))
    assert read(first, second).lines == (first, second)


@pytest.mark.parametrize("gap", [5, 400])
def test_lines_that_do_not_stand_below_each_other_are_no_pair(gap: float) -> None:
    reading = read_td3(text_page(*zone(FIRST, SECOND, gap=gap)), TODAY)
    assert reading is not None
    assert reading.lines[0] == ""


def test_the_lines_may_come_in_any_order() -> None:
    page = text_page(*zone(FIRST, SECOND))
    assert read_td3(replace(page, lines=page.lines[::-1]), TODAY) == read()


def test_a_page_without_a_zone_has_none() -> None:
    assert read_td3(text_page(("PASSPORT", 60, 40), ("ERIKSSON", 440, 200)), TODAY) is None


def test_a_zone_of_a_smaller_document_is_none() -> None:
    td2 = ("I<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<", "D231458907UTO7408122F1204159<<<<<<<6")
    assert read_td3(text_page(*zone(*td2)), TODAY) is None


@pytest.mark.parametrize("turn", TURNS)
def test_a_turned_page_reads_the_same(turn: int) -> None:
    """Lines are laid onto the page turned by `turn`; four quarter turns are none."""
    upright = text_page(*zone(FIRST, SECOND))
    steps = [90] * (turn // 90) + [90] * ((360 - turn) // 90 % 4)
    page = upright
    for _ in steps:
        page = turn_page(page.lines, (page.width, page.height), 90)
    assert read_td3(page, TODAY) == read()


def test_a_tilted_page_reads_the_same() -> None:
    lines = []
    for line in text_page(*zone(FIRST, SECOND)).lines:
        one, two, three, four = ((x - 0.2 * y, y + 0.2 * x) for x, y in line.quad)
        lines.append(replace(line, quad=(one, two, three, four)))
    assert read_td3(replace(text_page(), lines=tuple(lines)), TODAY) == read()


def test_noise_around_the_zone_changes_nothing() -> None:
    page = text_page(*zone(FIRST, SECOND))
    noise = tuple(text_line("P<" + "X" * 42, 70, top) for top in (100, 300))
    assert read_td3(replace(page, lines=page.lines + noise), TODAY) == read()


def test_nothing_personal_shows_in_the_representation() -> None:
    assert not any(secret in repr(read()) for secret in ("ERIKSSON", "L898902C3", "1974"))
