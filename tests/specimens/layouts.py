"""Passport pages laid out in the ways that issuers publish theirs, of nobody, each marked SPECIMEN.

What differs between issuers is here, one page each: where labels stand and in how many languages, names on
two lines or in one field, national characters beside the transliteration, dates, and codes of states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import cos, sin
from pathlib import Path
from types import MappingProxyType
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from streams.verification.readers.td3_lines import Td3Fields, compose

_INK: Final = (26, 30, 40)
_LABEL: Final = (80, 90, 110)
_ASIDE_PX: Final = 190
"""From the left edge of a label to the value beside it."""
_HOLE_LEVEL: Final = 110
_PITCH_PX: Final = 25.4
_LINES_TOP_PX: Final = (700, 764)
"""6.35 mm apart, as ICAO Doc 9303 part 4 section 4.2 places them; ten pixels a millimetre."""

Cell = tuple[str, tuple[str, ...], tuple[int, int]]
"""A label, the lines of its value, and where it stands."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A page and what a reader must make of it."""

    zone: Td3Fields
    cells: tuple[Cell, ...]
    true: Mapping[str, str]
    """Fields by the keys of G11."""
    number: str
    heading: str = "PASSPORT"
    value_px: int = 27
    font: str = "Sans-Bold"
    aside: bool = False
    """Whether labels stand to the left of their values."""
    extras: frozenset[str] = frozenset()
    """What else is on the page: a `ghost` of the portrait, a `signature`, the number down one `side`, or in
    `holes`."""


LAYOUTS: Final[Mapping[str, Layout]] = MappingProxyType(
    {
        "three languages, numbered labels and an issuer of one letter": Layout(
            Td3Fields("MUELLER<LUEDERS", "JOERG<HEINZ", "C01X00T47", "640812", "M", "341031", "D", "D"),
            (
                ("Typ/Type/Type", ("P",), (440, 100)),
                ("Kode/Code/Code", ("D",), (600, 100)),
                ("Pass-Nr./Passport No./Passeport No", ("C01X00T47",), (820, 100)),
                ("1. Name/Surname/Nom", ("MÜLLER-LÜDERS",), (440, 170)),
                ("2. Vornamen/Given names/Prénoms", ("JÖRG HEINZ",), (440, 240)),
                ("3. Staatsangehörigkeit/Nationality/Nationalité", ("SPECIMENISCH",), (440, 310)),
                ("4. Geburtstag/Date of birth/Date de naissance", ("12.08.1964",), (440, 380)),
                ("5. Geschlecht/Sex/Sexe", ("M",), (440, 450)),
                ("6. Geburtsort/Place of birth/Lieu de naissance", ("MUSTERSTADT",), (640, 450)),
                ("7. Ausstellungsdatum/Date of issue/Date de délivrance", ("01.11.2024",), (440, 520)),
                ("8. Gültig bis/Date of expiry/Date d'expiration", ("31.10.2034",), (440, 590)),
            ),
            {
                "surname": "MUELLER LUEDERS",
                "given_names": "JOERG HEINZ",
                "issuing_state": "DE",
                "nationality": "DE",
                "date_of_birth": "1964-08-12",
                "sex": "M",
                "expiry_date": "2034-10-31",
            },
            "C01X00T47",
            "REISEPASS PASSPORT",
        ),
        "months in two languages and years of two digits": Layout(
            Td3Fields("SPECIMEN", "ANGELA<ZOE", "925665416", "951206", "F", "301128", "GBR", "GBR"),
            (
                ("Type/Type", ("P",), (440, 100)),
                ("Code of Issuing State/Code de l'État", ("GBR",), (560, 100)),
                ("Passport No./Passeport No.", ("925665416",), (940, 100)),
                ("Surname/Nom (1)", ("SPECIMEN",), (440, 170)),
                ("Given names/Prénoms (2)", ("ANGELA ZOE",), (440, 240)),
                ("Nationality/Nationalité (3)", ("SPECIMEN CITIZEN",), (440, 310)),
                ("Date of birth/Date de naissance (4)", ("06 DEC /DÉC 95",), (440, 380)),
                ("Sex/Sexe (5)", ("F",), (440, 450)),
                ("Place of birth/Lieu de naissance (6)", ("UTOPIA",), (600, 450)),
                ("Date of issue/Date de délivrance (7)", ("28 NOV /NOV 20",), (440, 520)),
                ("Date of expiry/Date d'expiration (9)", ("28 NOV /NOV 30",), (440, 590)),
            ),
            {
                "surname": "SPECIMEN",
                "given_names": "ANGELA ZOE",
                "issuing_state": "GB",
                "nationality": "GB",
                "date_of_birth": "1995-12-06",
                "sex": "F",
                "expiry_date": "2030-11-28",
            },
            "925665416",
        ),
        "both names in one field, a place instead of a nationality": Layout(
            Td3Fields("CHEN", "MEI<LING", "888800371", "800229", "F", "330704", "TWN", "TWN"),
            (
                ("Type", ("P",), (440, 100)),
                ("Country code", ("TWN",), (600, 100)),
                ("Passport No.", ("888800371",), (900, 100)),
                ("Surname, Given names", ("CHEN, MEI-LING",), (440, 180)),
                ("Nationality", ("SPECIMEN REPUBLIC",), (440, 260)),
                ("Personal Id. No.", ("A234567890",), (900, 260)),
                ("Sex", ("F",), (440, 340)),
                ("Date of birth", ("29 FEB 1980",), (640, 340)),
                ("Date of issue", ("04 JUL 2023",), (440, 420)),
                ("Place of birth", ("SPECIMEN CITY",), (800, 420)),
                ("Date of expiry", ("04 JUL 2033",), (440, 500)),
                ("Authority", ("MINISTRY OF SPECIMENS",), (800, 500)),
            ),
            {
                "surname": "CHEN",
                "given_names": "MEI LING",
                "issuing_state": "TW",
                "nationality": "TW",
                "date_of_birth": "1980-02-29",
                "sex": "F",
                "expiry_date": "2033-07-04",
            },
            "888800371",
        ),
        "national characters above the transliteration": Layout(
            Td3Fields("PAVLOVA", "MARIA", "51N789456", "740812", "F", "320415", "BGR", "BGR"),
            (
                ("Тип/Type", ("P",), (440, 100)),
                ("Код/Code", ("BGR",), (600, 100)),
                ("Паспорт №/Passport No", ("51N789456",), (860, 100)),
                ("Фамилия/Surname", ("ПАВЛОВА", "PAVLOVA"), (440, 170)),
                ("Имена/Given names", ("МАРИЯ", "MARIA"), (440, 270)),
                ("Дата на раждане/Date of birth", ("12.08.1974",), (440, 370)),
                ("Пол/Sex", ("Ж/F",), (860, 370)),
                ("Място на раждане/Place of birth", ("ОБРАЗЕЦ/SPECIMEN",), (440, 440)),
                ("Дата на издаване/Date of issue", ("15.04.2022",), (440, 510)),
                ("Валиден до/Date of expiry", ("15.04.2032",), (440, 580)),
            ),
            {
                "surname": "PAVLOVA",
                "given_names": "MARIA",
                "issuing_state": "BG",
                "nationality": "BG",
                "date_of_birth": "1974-08-12",
                "sex": "F",
                "expiry_date": "2032-04-15",
            },
            "51N789456",
        ),
        "names on two lines that the zone cuts, an expiry beyond 2049": Layout(
            Td3Fields(
                "PAPANDROPOULOUS<DE<LA<VEGA",
                "MARIA<INMACULADA",
                "XDB123456",
                "150603",
                "F",
                "530602",
                "ESP",
                "ESP",
            ),
            (
                ("Tipo/Type/Type", ("P",), (440, 100)),
                ("Código/Code/Code", ("ESP",), (640, 100)),
                ("Pasaporte/Passport No./Passeport No.", ("XDB123456",), (820, 100)),
                ("Apellidos/Surname/Nom", ("PAPANDROPOULOUS", "DE LA VEGA"), (440, 170)),
                ("Nombre/Given names/Prénoms", ("MARÍA", "INMACULADA"), (440, 270)),
                ("Fecha de nacimiento/Date of birth/Date de naissance", ("03 06 2015",), (440, 370)),
                ("Sexo/Sex/Sexe", ("F",), (440, 440)),
                ("Lugar de nacimiento/Place of birth", ("EJEMPLO",), (640, 440)),
                ("Fecha de expedición/Date of issue", ("03 06 2025",), (440, 510)),
                ("Fecha de caducidad/Date of expiry/Date d'expiration", ("02 06 2053",), (440, 580)),
            ),
            {
                "surname": "PAPANDROPOULOUS DE LA VEGA",
                "given_names": "MARIA INMAC",
                "issuing_state": "ES",
                "nationality": "ES",
                "date_of_birth": "2015-06-03",
                "sex": "F",
                "expiry_date": "2053-06-02",
            },
            "XDB123456",
        ),
    }
)
"""By what is peculiar to them; names, numbers and places are invented."""


def draw(layout: Layout, portrait: Image.Image) -> Image.Image:
    """Return the data page, 1250 x 880 px."""
    page = Image.new("RGB", (1250, 880), (238, 240, 244))
    pen = ImageDraw.Draw(page)
    for row in range(0, 880, 9):
        pen.line([(0, row), (1250, row + 6)], fill=(222, 228, 236))
    pen.text((560, 300), "SPECIMEN", font=_font(110, "Sans-Bold"), fill=(226, 214, 214))
    pen.text((60, 34), layout.heading, font=_font(30, "Sans-Bold"), fill=_INK)
    pen.text((960, 34), "SPECIMEN", font=_font(30, "Sans-Bold"), fill=(176, 58, 58))
    page.paste(portrait.convert("RGB").resize((340, 440)), (60, 130))
    for label, lines, (left, top) in layout.cells:
        pen.text((left, top + 4 * layout.aside), label, font=_font(16), fill=_LABEL)
        beside, below = (_ASIDE_PX, 0) if layout.aside else (0, 21)
        for row, line in enumerate(lines):
            place = (left + beside, top + below + row * (layout.value_px + 4))
            pen.text(place, line, font=_font(layout.value_px, layout.font), fill=_INK)
    for line, top in zip(compose(layout.zone), _LINES_TOP_PX, strict=True):
        for index, character in enumerate(line):
            middle = 66 + (index + 0.5) * _PITCH_PX
            pen.text((middle, top), character, font=_font(38, "SansMono"), fill=_INK, anchor="ma")
    _draw_extras(page, layout, portrait)
    return page


def _draw_extras(page: Image.Image, layout: Layout, portrait: Image.Image) -> None:
    """Add what issuers put beside the fields."""
    if "ghost" in layout.extras:
        pale = Image.blend(portrait.convert("RGB"), Image.new("RGB", portrait.size, (238, 240, 244)), 0.45)
        page.paste(pale.resize((130, 168)), (1090, 500))
    if "signature" in layout.extras:
        pen = ImageDraw.Draw(page)
        points = [(90 + 9 * step, 625 + round(24 * sin(step * 1.3) * cos(step / 4))) for step in range(28)]
        pen.line(points, fill=(38, 44, 92), width=3, joint="curve")
    if "side" in layout.extras:
        down = Image.new("RGB", (300, 40), (238, 240, 244))
        ImageDraw.Draw(down).text((4, 4), layout.number, font=_font(28, "SansMono"), fill=(150, 60, 60))
        page.paste(down.rotate(90, expand=True), (6, 200))
    if "holes" in layout.extras:
        _perforate(page, layout.number, (420, 4))


def _perforate(page: Image.Image, number: str, place: tuple[int, int]) -> None:
    """Punch a number into the page: each character of holes in a raster of its own."""
    small = Image.new("L", (8 * len(number), 12), 0)
    for index, character in enumerate(number):
        ImageDraw.Draw(small).text((8 * index, 0), character, font=_font(10, "SansMono-Bold"), fill=255)
    pen = ImageDraw.Draw(page)
    for down in range(small.height):
        for across in range(small.width):
            if small.getpixel((across, down)) > _HOLE_LEVEL:  # type: ignore[operator]  # one band
                left, top = place[0] + 4 * across, place[1] + 4 * down
                pen.ellipse((left, top, left + 2, top + 2), fill=(84, 80, 76))


@cache
def _font(size: int, style: str = "Sans") -> ImageFont.FreeTypeFont:
    """Return DejaVu as matplotlib carries it; it has Greek and Cyrillic letters."""
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    return ImageFont.truetype(
        Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / f"DejaVu{style}.ttf", size
    )
