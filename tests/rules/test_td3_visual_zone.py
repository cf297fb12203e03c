"""Print against zone: what agrees, what contradicts, and what says nothing."""

from dataclasses import replace
from datetime import date

import pytest

from streams.verification.observations import Agreement
from streams.verification.readers.td3_lines import Td3Fields, compose
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from streams.verification.readers.visual_zone import compare
from tests.specimens.text_pages import text_page, zone

TODAY = date(2026, 1, 1)
FIELDS = Td3Fields("ERIKSSON", "ANNA<MARIA", "L898902C3", "740812", "F", "320415", optional="ZE184226B")
PRINTED = {
    "document_number": ("Passport No. / No. du passeport", "L898902C3", (900, 110)),
    "surname": ("Surname / Nom", "ERIKSSON", (440, 180)),
    "given_names": ("Given names / Prénoms", "ANNA MARIA", (440, 250)),
    "date_of_birth": ("Date of birth / Date de naissance", "12 AUG 1974", (440, 400)),
    "sex": ("Sex / Sexe", "F", (900, 400)),
    "expiry_date": ("Date of expiry / Date d'expiration", "15 APR 2032", (440, 610)),
}
ZONE = zone(*compose(FIELDS))
OTHERS = (
    ("PASSPORT / PASSEPORT", 230, 40),
    ("Place of birth / Lieu de naissance", 440, 470),
    ("ZENITH", 440, 493),
)


def read(fields: Td3Fields) -> Td3Reading:
    found = read_td3(text_page(*zone(*compose(fields))), TODAY)
    assert found is not None
    return found


def agreement(
    field: str, text: str, *, score: float = 0.99, labelled: bool = True, **changes: str
) -> Agreement:
    """Compare a page on which one field is printed as reported."""
    fields = replace(FIELDS, **changes)
    cells = [*OTHERS, *zone(*compose(fields))]
    for name, (label, value, (left, top)) in PRINTED.items():
        if labelled or name != field:
            cells.append((label, left, top))
        cells.append((text if name == field else value, left, top + 40))
    return compare(text_page(*cells, score=score), read(fields))[field]


@pytest.mark.parametrize("field", PRINTED)
def test_the_same_print_agrees(field: str) -> None:
    assert agreement(field, PRINTED[field][1]) is Agreement.MATCH


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("document_number", "L898962C3"),
        ("document_number", "X1234567"),
        ("surname", "SMITH"),
        ("surname", "ERIKSEN"),
        ("given_names", "JOANNA MARIA"),
        ("date_of_birth", "12 AUG 1984"),
        ("date_of_birth", "12 AUG 1874"),
        ("expiry_date", "15 APR 2035"),
        ("expiry_date", "16.04.2032"),
        ("sex", "M"),
        ("sex", "V/M"),
        ("sex", "F/M"),
        ("sex", "4/M"),
        ("surname", "DR. ERIKSEN"),
        ("surname", "SMITH GEB. ERIKSSON"),
        ("date_of_birth", "12.08.84"),
    ],
)
def test_another_print_contradicts(field: str, text: str) -> None:
    assert agreement(field, text) is Agreement.MISMATCH


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("document_number", "L898962C3"),
        ("surname", "SMITH"),
        ("date_of_birth", "12 AUG 1984"),
        ("sex", "M"),
    ],
)
def test_another_print_that_was_hardly_recognised_says_nothing(field: str, text: str) -> None:
    assert agreement(field, text, score=0.7) is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("document_number", "L8989O2C3"),
        ("document_number", "L898902C3 "),
        ("document_number", "No L898902C3"),
        ("surname", "ER1KSS0N"),
        ("surname", "Eriksson"),
        ("given_names", "ANNA-MARIA"),
        ("date_of_birth", "12 AUG/AOUT 1974"),
        ("date_of_birth", "12.08.1974"),
        ("date_of_birth", "08/12/1974"),
        ("sex", "F/F"),
        ("sex", "M/F"),
        ("sex", "V / F"),
        ("sex", "F/\u0416"),
        ("sex", "XK/F"),
        ("sex", "/F"),
        ("surname", "DR. ERIKSSON"),
        ("surname", "Prof. Dr. Eriksson"),
        ("surname", "[a] ERIKSSON"),
        ("surname", "ERIKSSON GEB. MUSTER"),
        ("surname", "Eriksson e/v Molenaar"),
        ("surname", "ERIKSSON \u00e9p. DURAND"),
    ],
)
def test_a_look_alike_or_another_way_of_printing_agrees(field: str, text: str) -> None:
    assert agreement(field, text) is Agreement.MATCH


ROW = "Type / Type / Tipo Code / Code / C\u00f3digoPassport No. / No. du Passeport"


@pytest.mark.parametrize(
    ("number", "said"), [("L898902C3", Agreement.MATCH), ("L898962C3", Agreement.MISMATCH)]
)
def test_a_number_below_labels_that_were_read_as_one_line_is_compared(number: str, said: Agreement) -> None:
    page = text_page((ROW, 440, 90), ("P", 440, 115), ("UTO", 600, 115), (number, 1140, 115), *ZONE)
    assert compare(page, read(FIELDS))["document_number"] is said


@pytest.mark.parametrize(
    "label",
    [
        "Cognome. Surname. Nom. (1)",
        "Name \u2022 Nom \u2022 Cognome \u2022 Surname",
        "Name (Surname, Given names)",
    ],
)
@pytest.mark.parametrize(("name", "said"), [("ERIKSSON", Agreement.MATCH), ("SMITH", Agreement.MISMATCH)])
def test_labels_of_other_forms_name_their_field(label: str, name: str, said: Agreement) -> None:
    page = text_page((label, 440, 180), (name, 440, 205), *ZONE)
    assert compare(page, read(FIELDS))["surname"] is said


@pytest.mark.parametrize("label", ["Name", "Name:", "Ad\u0131 / Name"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ERIKSSON", Agreement.MATCH),
        ("ERIKSSON ANNA MARIA", Agreement.MATCH),
        ("ANNA MARIA", Agreement.NOT_FOUND),
        ("ANNA", Agreement.NOT_FOUND),
        ("SMITH", Agreement.MISMATCH),
    ],
)
def test_a_label_that_says_only_name_may_stand_for_either_name(
    label: str, name: str, said: Agreement
) -> None:
    page = text_page((label, 440, 180), (name, 440, 205), *ZONE)
    assert compare(page, read(FIELDS))["surname"] is said


def test_another_surname_above_the_given_names_contradicts_below_a_label_that_says_only_name() -> None:
    page = text_page(("Name", 440, 180), ("SMITH", 440, 205), ("ANNA MARIA", 440, 235), *ZONE)
    assert compare(page, read(FIELDS))["surname"] is Agreement.MISMATCH


def test_a_label_that_only_ends_like_another_names_no_field() -> None:
    page = text_page(("Sex/Sexe Previous Passport No.", 440, 180), ("B1234567", 620, 205), *ZONE)
    assert compare(page, read(FIELDS))["document_number"] is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("document_number", "L8989"),
        ("document_number", "L898902C"),
        ("given_names", "ANNA"),
        ("date_of_birth", "12 A 19"),
        ("sex", "P"),
        ("sex", "ЖF"),
    ],
)
def test_a_print_in_part_says_nothing(field: str, text: str) -> None:
    assert agreement(field, text) is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    "field", ["document_number", "surname", "given_names", "date_of_birth", "expiry_date"]
)
def test_without_its_label_a_print_can_agree(field: str) -> None:
    assert agreement(field, PRINTED[field][1], labelled=False) is Agreement.MATCH


@pytest.mark.parametrize(
    ("field", "text"),
    [("document_number", "L898962C"), ("surname", "SMITH"), ("expiry_date", "15 APR 2035")],
)
def test_without_its_label_a_print_cannot_contradict(field: str, text: str) -> None:
    assert agreement(field, text, labelled=False) is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("L898962C3", Agreement.MISMATCH),
        ("L8 98962 D3", Agreement.MISMATCH),
        ("L898962D4", Agreement.NOT_FOUND),
        ("L8989O2C3", Agreement.MATCH),
    ],
)
def test_a_number_without_a_label_contradicts_where_it_is_nearly_the_zones(
    number: str, said: Agreement
) -> None:
    assert agreement("document_number", number, labelled=False) is said


def test_a_number_without_a_label_contradicts_nothing_where_the_zones_is_printed_too() -> None:
    page = text_page(("L898962C3", 440, 90), ("L898902C3", 900, 150), *ZONE)
    assert compare(page, read(FIELDS))["document_number"] is Agreement.MATCH


@pytest.mark.parametrize("text", ["M", "F/M", "M/M", "4/M", "\u0427/M", "M / \u05d6"])
@pytest.mark.parametrize("label", ["Пол", "/Sx"])
def test_a_letter_alone_contradicts_the_sex_without_a_label(label: str, text: str) -> None:
    page = text_page((label, 900, 400), (text, 900, 440), *ZONE)
    assert compare(page, read(FIELDS))["sex"] is Agreement.MISMATCH


@pytest.mark.parametrize(
    "cells",
    [
        [("F", 900, 440)],
        [("M", 900, 440), ("F", 1100, 440)],
        [("m", 900, 440)],
        [("X", 900, 440)],
        [("Type", 900, 400), ("M", 900, 440)],
        [("Place of birth:", 700, 440), ("M", 1020, 440)],
        [("1.75 M", 900, 440)],
        [("Sex", 900, 400), ("F", 900, 440), ("M", 440, 130)],
    ],
)
def test_letters_of_something_else_do_not_contradict_the_sex(cells: list[tuple[str, float, float]]) -> None:
    assert compare(text_page(*cells, *ZONE), read(FIELDS))["sex"] is not Agreement.MISMATCH


def test_an_initial_does_not_contradict_the_sex() -> None:
    fields = replace(FIELDS, given_names="ANNA<M")
    page = text_page(("ANNA", 440, 250), ("M", 440, 330), *zone(*compose(fields)))
    assert compare(page, read(fields))["sex"] is Agreement.NOT_FOUND


def test_a_letter_that_was_not_very_clearly_read_does_not_contradict_the_sex() -> None:
    page = text_page(("M", 900, 440), *ZONE, score=0.95)
    assert compare(page, read(FIELDS))["sex"] is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    ("field", "dates"),
    [
        ("date_of_birth", ("12 AUG 1984", "15 APR 2022", "15 APR 2032")),
        ("expiry_date", ("12 AUG 1974", "15 APR 2022", "15 APR 2035")),
    ],
)
def test_a_date_without_a_label_contradicts_where_all_dates_are_printed(
    field: str, dates: tuple[str, ...]
) -> None:
    cells = [(one, 440.0, 300.0 + 90 * row) for row, one in enumerate(dates)]
    said = compare(text_page(*cells, *ZONE), read(FIELDS))
    assert [name for name in said if said[name] is Agreement.MISMATCH] == [field]


def test_the_date_of_issue_does_not_contradict_a_date_that_was_not_read() -> None:
    cells = (("12 AUG 1974", 440, 300), ("12 AUG 1974", 440, 480), ("15 APR 2022", 440, 390))
    page = text_page(*cells, *ZONE)
    assert compare(page, read(FIELDS))["expiry_date"] is Agreement.NOT_FOUND


@pytest.mark.parametrize(
    ("below", "said"),
    [
        ("ANNA MARIA", Agreement.MATCH),
        ("ANNA", Agreement.NOT_FOUND),
        ("JOANNA", Agreement.MISMATCH),
        ("Nationality", Agreement.NOT_FOUND),
    ],
)
def test_given_names_below_the_surname_at_a_label_for_both_are_compared(below: str, said: Agreement) -> None:
    page = text_page(("Name", 440, 180), ("ERIKSSON", 440, 205), (below, 440, 240), *ZONE)
    assert compare(page, read(FIELDS))["given_names"] is said


@pytest.mark.parametrize(
    ("printed", "written"),
    [
        ("MÜLLER", "MUELLER"),
        ("MÜLLER", "MULLER"),
        ("GRÖSSE", "GROESSE"),
        ("ÅSTRÖM", "AASTROEM"),
        ("O'CONNOR", "OCONNOR"),
        ("SMITH-JONES", "SMITH<JONES"),
        ("ŁUKASZ", "LUKASZ"),
    ],
)
def test_a_transliterated_name_agrees(printed: str, written: str) -> None:
    assert agreement("surname", printed, surname=written) is Agreement.MATCH


@pytest.mark.parametrize(
    ("issuer", "printed", "said"),
    [
        ("D<<", "GROẞMANN", Agreement.MATCH),
        ("D<<", "GROSMANN", Agreement.NOT_FOUND),  # how the recogniser reads it
        ("D<<", "GROBMANN", Agreement.NOT_FOUND),
        ("AUT", "GROSMANN", Agreement.NOT_FOUND),
        ("UTO", "GROSMANN", Agreement.MISMATCH),
        ("D<<", "GROMANN", Agreement.MISMATCH),
        ("D<<", "GROSMAN", Agreement.MISMATCH),
    ],
)
def test_a_sharp_s_read_as_another_letter_contradicts_only_where_none_is_printed(
    issuer: str, printed: str, said: Agreement
) -> None:
    assert agreement("surname", printed, surname="GROSSMANN", issuer=issuer) is said


def test_a_name_cut_at_the_end_of_the_zone_agrees() -> None:
    printed = "NILAVADHANANANDA OLARNRITTHINAN PAPANDROPOULOUS"
    cut = printed.replace(" ", "<")[:39]
    assert agreement("surname", printed, surname=cut, given_names="") is Agreement.MATCH


@pytest.mark.parametrize(
    ("surname", "given_names", "printed"),
    [
        ("PAPANDROPOULOUS", "JONATHON<ALEC<BENJAMIN", "JONATHON ALEC BENJAMIN"),
        ("NILAVADHANANANDA", "CHAYAPA<DEJTHAMRONG<KRASUANG", "CHAYAPA DEJTHAMRONG KRASUANG"),
        ("NILAVADHANANANDA", "CHAYAPA<DEJTHAM<KRAS", "CHAYAPA DEJTHAM KRASUANG"),
        ("PAPANDROPOULOUS", "JON<ALEXANDROS<BENJAM", "JONATHON ALEXANDROS BENJAMIN"),
    ],
)
def test_given_names_cut_where_the_line_is_full_agree(surname: str, given_names: str, printed: str) -> None:
    assert agreement("given_names", printed, surname=surname, given_names=given_names) is Agreement.MATCH


def test_other_given_names_contradict_where_the_line_is_full() -> None:
    for field, printed in (("given_names", "JONATHON ALED BENJAMIN"), ("surname", "PAPANDROPOULOUSIS")):
        said = agreement(field, printed, surname="PAPANDROPOULOUS", given_names="JONATHON<ALEC<BENJAMIN")
        assert said is Agreement.MISMATCH


@pytest.mark.parametrize("field", ["surname", "given_names"])
@pytest.mark.parametrize("printed", ["ERIKSSON ANNA MARIA", "Anna Maria ERIKSSON", "ERIKSSON, ANNA MARIA"])
def test_both_names_in_one_field_agree(field: str, printed: str) -> None:
    assert agreement(field, printed) is Agreement.MATCH


@pytest.mark.parametrize(
    ("printed", "said"),
    [("ERIKSSON, ANNA MARIA", Agreement.MATCH), ("ERIKSSON, ANNA", Agreement.NOT_FOUND)],
)
def test_given_names_without_a_label_agree_where_both_names_are_in_one_field(
    printed: str, said: Agreement
) -> None:
    page = text_page(("Name (Surname, Given names)", 440, 180), (printed, 440, 205), *ZONE)
    assert compare(page, read(FIELDS))["given_names"] is said


def test_both_names_of_somebody_else_in_one_field_contradict() -> None:
    assert agreement("surname", "SMITH ANNA MARIA") is Agreement.MISMATCH


@pytest.mark.parametrize(
    "printed",
    [
        "\u0397\u03a1\u0399\u039a\u03a3\u039f\u039d / ERIKSSON",
        "ERIKSSON | \u042d\u0420\u0418\u041a\u0421\u041e\u041d",
        "\u0395RIKSS\u039f\u039d",
    ],
)
def test_a_name_beside_its_national_spelling_agrees(printed: str) -> None:
    assert agreement("surname", printed) is Agreement.MATCH


@pytest.mark.parametrize(
    "printed",
    [
        "12 \u0410\u0412\u0413/AUG 1974",
        "12 AUG/AO\u00dbT 1974",
        "12 AUG /AOUT 74",
        "12 4EP/AUG 1974",
        "12 /AUG 74",
    ],
)
def test_a_date_in_two_languages_agrees(printed: str) -> None:
    assert agreement("date_of_birth", printed) is Agreement.MATCH


def test_a_page_of_the_zone_alone_says_nothing() -> None:
    said = compare(text_page(*zone(*compose(FIELDS))), read(FIELDS))
    assert set(said.values()) == {Agreement.NOT_FOUND}
