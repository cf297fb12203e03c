"""NIN slips: both forms, the number in groups, and what is never guessed."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.enums import ExtractionStatus
from streams.verification.observations import Agreement
from streams.verification.readers.anchors import label_of
from streams.verification.readers.nin_slip import LABELS as OF_SLIPS
from streams.verification.readers.nin_slip import (
    SlipForm,
    SlipReading,
    compare_codes,
    number_row,
    read_slip,
)
from streams.verification.readers.visual_zone import LABELS as OF_PASSPORTS
from tests.specimens.text_pages import Cell, text_page

HEADING: tuple[Cell, ...] = (
    ("National Identity Management System", 250, 20),
    ("Federal Republic of Nigeria", 330, 60),
    ("National Identification Number Slip (NINS)", 290, 100),
)
LONG: dict[str, tuple[Cell, ...]] = {
    "tracking_id": (("Tracking ID: S7Y0SPECIMEN123", 40, 170),),
    "number": (("NIN: 12345678901", 40, 240),),
    "surname": (("Surname: SPECIMEN", 600, 170),),
    "first_name": (("First Name: ADAEZE", 600, 240),),
    "middle_name": (("Middle Name: NGOZI", 600, 310),),
    "gender": (("Gender: F", 600, 380),),
    "address": (("Address:", 1000, 170), ("12 EXAMPLE CLOSE", 1000, 210), ("UTOPIA", 1000, 250)),
}
CARD: tuple[Cell, ...] = (
    ("FEDERAL REPUBLIC OF NIGERIA", 40, 20),
    ("DIGITAL NIN SLIP", 40, 60),
    ("SURNAME/NOM", 290, 130),
    ("SPECIMEN", 290, 165),
    ("GIVEN NAMES/PRENOMS", 290, 210),
    ("ADAEZE, NGOZI", 290, 245),
    ("DATE OF BIRTH", 290, 290),
    ("02 JAN 1990", 290, 325),
    ("SEX/SEXE", 700, 290),
    ("F", 700, 325),
    ("ISSUE DATE", 290, 370),
    ("17 MAY 2024", 290, 405),
    ("National Identification Number (NIN)", 280, 450),
)
GROUPS: tuple[Cell, ...] = (("1234", 240, 500), ("567", 500, 500), ("8901", 700, 500))


def long_slip(**changed: tuple[Cell, ...]) -> SlipReading | None:
    cells = [cell for group in (LONG | changed).values() for cell in group]
    return read_slip(text_page(*HEADING, *cells))


def card(*number: Cell) -> SlipReading | None:
    return read_slip(text_page(*CARD, *number))


def known(reading: SlipReading | None) -> SlipReading:
    assert reading is not None
    return reading


def test_a_long_slip_tells_all_its_fields() -> None:
    reading = known(long_slip())
    assert (reading.form, reading.status, reading.number) == (
        SlipForm.LONG,
        ExtractionStatus.EXTRACTED,
        "12345678901",
    )
    assert reading.fields == {
        "tracking_id": "S7Y0SPECIMEN123",
        "surname": "SPECIMEN",
        "first_name": "ADAEZE",
        "middle_name": "NGOZI",
        "gender": "F",
        "address": "12 EXAMPLE CLOSE, UTOPIA",
        "full_name": "ADAEZE NGOZI SPECIMEN",
        "issuing_state": "NG",
    }


def test_a_card_tells_all_its_fields() -> None:
    reading = known(card(*GROUPS))
    assert (reading.form, reading.status, reading.number) == (
        SlipForm.CARD,
        ExtractionStatus.EXTRACTED,
        "12345678901",
    )
    assert reading.fields["first_name"] == "ADAEZE"
    assert reading.fields["middle_name"] == "NGOZI"
    assert reading.fields["gender"] == "F"


def test_the_label_of_the_gender_is_known_when_motion_blurred_it() -> None:
    """As it was read of a card moved by 7 px."""
    cells = [("SENSENE", x, y) if text == "SEX/SEXE" else (text, x, y) for text, x, y in (*CARD, *GROUPS)]
    assert known(read_slip(text_page(*cells))).fields["gender"] == "F"


def test_a_card_tells_its_birth_date_beside_the_fields() -> None:
    reading = known(card(*GROUPS))
    assert reading.birth is not None
    assert (reading.birth.isoformat(), "date_of_birth" in reading.fields) == ("1990-01-02", False)


@pytest.mark.parametrize(
    "cells",
    [
        (("Surname", 600, 170), ("SPECIMEN", 770, 170)),
        (("Surname SPECIMEN", 600, 170),),
        (("SURNAME:SPECIMEN", 600, 170),),
        (("Surname:", 600, 170), ("SPEClMEN", 770, 170)),
    ],
)
def test_a_value_may_stand_in_its_labels_line_or_beside_it(cells: tuple[Cell, ...]) -> None:
    assert known(long_slip(surname=cells)).fields["surname"] == "SPECIMEN"


def test_two_cells_run_into_each_other_are_parted() -> None:
    joined = (("Surname: SPECIMEN Gender: F", 600, 170),)
    fields = known(long_slip(surname=joined, gender=())).fields
    assert (fields["surname"], fields["gender"]) == ("SPECIMEN", "F")


@pytest.mark.parametrize(
    "cells",
    [
        GROUPS,
        (("1234   567 8901", 240, 500),),
        (("1234 567", 240, 500), ("8901", 700, 500)),
        (("I234", 240, 500), ("567", 500, 500), ("89O1", 700, 500)),
        (("8901", 700, 500), ("1234", 240, 500), ("567", 500, 503)),
    ],
)
def test_a_number_in_groups_is_joined(cells: tuple[Cell, ...]) -> None:
    assert known(card(*cells)).number == "12345678901"


def test_a_lost_group_is_no_number_but_a_row_to_read_again() -> None:
    page = text_page(*CARD, GROUPS[0], GROUPS[2])
    row = number_row(page)
    assert known(read_slip(page)).number is None
    assert row is not None
    assert row[0][0] < 240
    assert row[1][0] > 772


def test_a_second_reading_of_the_row_completes_the_number() -> None:
    page = text_page(*CARD, GROUPS[0], GROUPS[2])
    assert known(read_slip(page, [("1234 567 8901", 0.95)])).number == "12345678901"


def test_two_different_numbers_are_a_question_and_not_a_guess() -> None:
    reading = known(card(("12345678901", 240, 500), ("10987654321", 240, 600)))
    assert (reading.number, reading.ambiguous, reading.status) == (None, True, ExtractionStatus.PARTIAL)


def test_the_number_at_its_label_outranks_another() -> None:
    assert known(long_slip(other=(("10987654321", 40, 600),))).number == "12345678901"


@pytest.mark.parametrize("text", ["NIN: 1234567890", "NIN: 123456789012", "NIN: ABCDEFGHIJK", "NIN:"])
def test_anything_but_eleven_digits_is_no_number(text: str) -> None:
    assert known(long_slip(number=((text, 40, 240),))).number is None


def test_a_tracking_id_of_another_length_is_left_out() -> None:
    assert "tracking_id" not in known(long_slip(tracking_id=(("Tracking ID: S7Y0", 40, 170),))).fields


def test_hardly_recognised_text_is_read_in_part() -> None:
    cells = [cell for group in LONG.values() for cell in group]
    reading = known(read_slip(text_page(*HEADING, *cells, score=0.4)))
    assert reading.status is ExtractionStatus.FAILED


@pytest.mark.parametrize(
    "cells",
    [
        (("FEDERAL REPUBLIC OF NIGERIA", 40, 20), ("PASSPORT", 40, 60), ("12345678901", 40, 100)),
        (("Surname: SPECIMEN", 40, 20), ("NIN: 12345678901", 40, 60)),
        (),
    ],
)
def test_a_page_without_the_marks_is_no_slip(cells: tuple[Cell, ...]) -> None:
    assert read_slip(text_page(*cells)) is None


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (("NIN: 12345678901;SPECIMEN",), Agreement.MATCH),
        (('{"nin":"12345678901"}', "10987654321"), Agreement.MATCH),
        (("10987654321",), Agreement.MISMATCH),
        (("opaque+signed/text==",), Agreement.NOT_FOUND),
        (("123456789012345",), Agreement.NOT_FOUND),
        ((), Agreement.NOT_FOUND),
    ],
)
def test_what_codes_say_of_the_number(codes: tuple[str, ...], said: Agreement) -> None:
    assert compare_codes("12345678901", codes) is said


def test_codes_say_nothing_of_a_number_that_was_not_read() -> None:
    assert compare_codes(None, ("12345678901",)) is Agreement.NOT_FOUND


def test_nothing_personal_shows_in_the_representation() -> None:
    shown = repr(known(long_slip()))
    assert not any(secret in shown for secret in ("ADAEZE", "12345678901", "EXAMPLE"))


@given(st.text(string.digits, min_size=11, max_size=11), st.sampled_from([(4, 7), (4, 8), (3, 7), (5, 9)]))
def test_any_number_in_any_groups_is_reported(number: str, cuts: tuple[int, int]) -> None:
    one, two = cuts
    parts = number[:one], number[one:two], number[two:]
    cells = [(part, 200.0 + 250 * index, 500.0) for index, part in enumerate(parts)]
    assert known(card(*cells)).number == number


@given(st.lists(st.tuples(st.text(max_size=30), st.floats(0, 1200), st.floats(0, 800)), max_size=12))
def test_no_text_breaks_the_reader(cells: list[Cell]) -> None:
    reading = read_slip(text_page(*HEADING, *cells))
    assert reading is not None
    assert reading.number is None or len(reading.number) == 11


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SURNANE/NON", "surname"),
        ("Sumame: GARCIA", "surname"),
        ("GVEN NAMES PRENOMS", "given_names"),
        ("GINEN NANESIPRENONS", "given_names"),
        ("SEXISEXE", "gender"),
        ("SEXVSEIE", "gender"),
        ("ISSUE DATE", ""),
    ],
)
def test_a_label_blurred_by_motion_is_known(text: str, name: str) -> None:
    assert label_of(text, OF_SLIPS) == name


@pytest.mark.parametrize("text", ["ESSEX", "GARCIA", "OLIVIA, PAUL", "SAMUEL", "MINA", "VIVIEN", "NORMA"])
def test_a_name_is_no_label(text: str) -> None:
    assert label_of(text, OF_SLIPS) is None
    assert label_of(text, OF_PASSPORTS) is None
