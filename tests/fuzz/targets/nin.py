"""Nigerian NIN slips, from lines of text and codes to a reading."""

from streams.verification.readers.nin_slip import compare_codes, number_row, read_slip
from tests.specimens.text_pages import page_of, written

SEEDS = (
    written(
        ("National Identity Management System", 250, 20),
        ("National Identification Number Slip (NINS)", 290, 100),
        ("Tracking ID: S7Y0SPECIMEN123", 40, 170),
        ("NIN: 12345678901", 40, 240),
        ("Surname: SPECIMEN", 600, 170),
        ("First Name: ADAEZE", 600, 240),
        ("Gender: F", 600, 380),
        ("Address:", 1000, 170),
        ("12 EXAMPLE CLOSE", 1000, 211),
    ),
    written(
        ("FEDERAL REPUBLIC OF NIGERIA", 40, 20),
        ("DIGITAL NIN SLIP", 40, 60),
        ("SURNAME/NOM", 290, 130),
        ("SPECIMEN", 290, 165),
        ("DATE OF BIRTH", 290, 290),
        ("02 JAN 1990", 290, 325),
        ("National Identification Number (NIN)", 280, 450),
        ("1234", 240, 500),
        ("567", 500, 500),
        ("8901", 700, 500),
    ),
)


def target(data: bytes) -> None:
    """Read one page, look for its row of digits, and compare its number with a code."""
    page = page_of(data)
    reading = read_slip(page, [(data[:40].decode(errors="replace"), 0.9)])
    number_row(page)
    compare_codes("12345678901", [data.decode(errors="replace")])
    if reading is not None:
        compare_codes(reading.number, [data[-60:].decode(errors="replace")])
