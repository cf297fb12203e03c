"""Machine-readable zones of passports, from lines of text to a reading."""

from datetime import date

from streams.verification.readers.td3_mrz import read_td3
from tests.specimens.text_pages import page_of, written

TODAY = date(2026, 11, 22)

FIRST, SECOND = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", "L898902C36UTO7408122F1204159ZE184226B<<<<<10"

SEEDS = (
    written((FIRST, 70, 690), (SECOND, 70, 770)),
    written((FIRST, 70, 690), (SECOND[:30], 70, 770), (SECOND[30:], 700, 770)),
    written((FIRST.replace("<", "K"), 70, 690), (SECOND.replace("0", "O"), 70, 770)),
    written((FIRST * 3, 70, 690), (SECOND * 3, 70, 770)),
    written((SECOND, 70, 690)),
    written(*((FIRST, 71, 101 + number) for number in range(40)), (SECOND, 70, 770)),
    written(("Surname / Nom", 290, 130), ("SPECIMEN", 290, 165), (FIRST, 70, 690), (SECOND, 70, 770)),
)


def target(data: bytes) -> None:
    """Read one page."""
    read_td3(page_of(data), TODAY)
