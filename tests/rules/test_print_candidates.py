"""Which lines may print a compared field, before any is recognised."""

from streams.verification.readers.layout import levelled
from streams.verification.readers.print_candidates import candidates, pairs_of, width_of
from streams.vision_ports import TextPage
from tests.specimens.text_pages import text_page

PAGE = text_page(
    ("Type / Type", 440, 110), ("P", 440, 142),
    ("Passport No. / No. du passeport", 900, 110), ("L898902C3", 900, 142),
    ("Surname / Nom", 440, 190), ("ERIKSSON", 440, 222),
    ("Given names", 440, 270), ("ANNA MARIA", 440, 302),
    ("Nationality", 440, 350), ("UTOPIAN", 440, 382),
    ("Personal No.", 900, 350), ("ZE184226B", 900, 382),
    ("Date of birth", 440, 430), ("12 AUG 1974", 440, 462),
    ("Sex / Sexe", 900, 430), ("F", 900, 462),
    ("Date of issue", 440, 510), ("16 APR 2022", 440, 542),
    ("Date of expiry", 440, 590), ("15 APR 2032", 440, 622),
)  # fmt: skip
LETTERS = {
    "document_number": 9, "surname": 8, "given_names": 10, "date_of_birth": 11, "expiry_date": 11, "sex": 1,
}  # fmt: skip
WIDTHS = (14.0, 18.0, 23.0)


def chosen(page: TextPage, letters: dict[str, int]) -> dict[str, tuple[str, str]]:
    """The texts of the chosen values and their labels, which the choice never sees."""
    lines = levelled(TextPage(page.lines, page.width, page.height, page.turn))
    found = candidates(lines, pairs_of(lines), letters, WIDTHS)
    return {name: (lines[one.value].text, lines[one.label].text) for name, one in found.items()}


def test_a_usual_page_is_understood_by_its_shape() -> None:
    assert chosen(PAGE, LETTERS) == {
        "document_number": ("L898902C3", "Passport No. / No. du passeport"),
        "surname": ("ERIKSSON", "Surname / Nom"),
        "given_names": ("ANNA MARIA", "Given names"),
        "date_of_birth": ("12 AUG 1974", "Date of birth"),
        "expiry_date": ("15 APR 2032", "Date of expiry"),
        "sex": ("F", "Sex / Sexe"),
    }


def test_a_name_no_line_is_long_enough_for_has_no_place() -> None:
    assert "surname" not in chosen(PAGE, {"surname": 30})


def test_a_lower_line_that_fits_better_is_chosen_before_an_upper_one() -> None:
    page = text_page(
        ("Authority", 440, 110),
        ("PASSPORT OFFICE", 440, 142),
        ("Surname", 440, 190),
        ("SPECIMENEXMPLE", 440, 222),
    )
    assert chosen(page, {"surname": 14})["surname"][0] == "SPECIMENEXMPLE"


def test_a_page_without_lines_has_no_places() -> None:
    assert chosen(text_page(), LETTERS) == {}


def test_a_line_nearer_to_another_is_no_value_of_a_label() -> None:
    found = chosen(PAGE, {"surname": 11})  # as long as the label below the surname
    assert "Given names" not in {value for value, _ in found.values()}


def test_lines_that_were_read_tell_how_wide_letters_are() -> None:
    assert width_of(levelled(PAGE)) == 18.0
    assert width_of(levelled(text_page(("F", 10, 10)))) is None
