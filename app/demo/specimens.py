"""Draw SPECIMEN documents for demonstrations and tests: a passport of Utopia and NIN slips (G75)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from math import sin
from pathlib import Path
from types import MappingProxyType
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from streams.verification.readers.mrz_names import to_machine_zone
from streams.verification.readers.td3_lines import Td3Fields, compose

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Point = tuple[int, int]
Size = tuple[int, int]

PASSPORT_SIZE: Final = (1250, 880)
"""A TD3 page of 125 x 88 mm at ten pixels a millimetre (ICAO Doc 9303 part 4 section 2.1)."""

_INK: Final = (28, 32, 44)
_LABEL: Final = (86, 96, 118)
_MARK: Final = (176, 58, 58)
_SLIP_NOTES: Final = (
    "Note: The National Identification Number (NIN) is your identity.",
    "It is confidential and may only be released for legitimate transactions.",
)
_LETTER_MM: Final = 2.54
"""Pitch of the machine-readable zone: ten characters an inch (part 3 section 4.7)."""


@dataclass(frozen=True, slots=True)
class PassportSpecimen:
    """Fields of a specimen passport. The defaults are the specimen of Doc 9303, with later dates."""

    surname: str = "ERIKSSON"
    given_names: str = "ANNA MARIA"
    number: str = "L898902C3"
    date_of_birth: date = date(1974, 8, 12)
    sex: str = "F"
    issued: date = date(2022, 4, 16)
    expires: date = date(2032, 4, 15)
    personal_number: str = "ZE184226B"
    place_of_birth: str = "ZENITH"
    issuer: str = "UTO"
    nationality: str = "UTO"

    def lines(self) -> tuple[str, str]:
        """Return the two lines of its machine-readable zone, all check digits right."""
        return compose(
            Td3Fields(
                surname=to_machine_zone(self.surname),
                given_names=to_machine_zone(self.given_names),
                number=self.number,
                birth=f"{self.date_of_birth:%y%m%d}",
                sex=self.sex.replace("X", "<"),
                expiry=f"{self.expires:%y%m%d}",
                issuer=self.issuer,
                nationality=self.nationality,
                optional=self.personal_number,
            )
        )


@dataclass(frozen=True, slots=True)
class Alterations:
    """Deliberate differences, so that a reader can be shown a document that contradicts itself."""

    printed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Texts of the visual zone by field: surname, given_names, number, date_of_birth, sex, expires."""
    lines: tuple[str, str] | None = None
    """Another machine-readable zone, such as one with a wrong check digit."""


@dataclass(frozen=True, slots=True)
class SlipSpecimen:
    """Fields of a specimen NIN slip; the number is invented."""

    number: str = "12345678901"
    tracking_id: str = "S7Y0SPECIMEN123"
    surname: str = "SPECIMEN"
    first_name: str = "ADAEZE"
    middle_name: str = "NGOZI"
    gender: str = "F"
    address: str = "12 EXAMPLE CLOSE, UTOPIA"
    date_of_birth: date = date(1990, 1, 2)
    issued: date = date(2024, 5, 17)


def draw_passport(
    passport: PassportSpecimen,
    portrait: Image.Image | None = None,
    alterations: Alterations | None = None,
) -> Image.Image:
    """Return the data page, 1250 x 880 px, marked SPECIMEN; without a portrait the frame stays grey."""
    altered = alterations or Alterations()
    page = _paper(PASSPORT_SIZE, (236, 240, 246), (206, 218, 232))
    pen = ImageDraw.Draw(page)
    _stamp(page, "SPECIMEN", (500, 250), 118)
    pen.text((60, 34), "UTOPIA", font=_font(34, bold=True), fill=_INK)
    pen.text((230, 42), "PASSPORT / PASSEPORT", font=_font(24), fill=_INK)
    pen.text((990, 40), "SPECIMEN", font=_font(30, bold=True), fill=_MARK)
    _paste_portrait(page, portrait, (60, 130), (340, 440))
    for label, text, place in _passport_fields(passport, altered.printed):
        _write_field(pen, label, text, place)
    for index, line in enumerate(altered.lines or passport.lines()):
        _write_machine_line(pen, line, 684 + 84 * index)
    return page


def draw_long_slip(slip: SlipSpecimen, portrait: Image.Image | None = None) -> Image.Image:
    """Return the standard slip, 1400 x 560 px, marked SPECIMEN."""
    page = _paper((1400, 560), (250, 250, 248), (238, 242, 238))
    pen = ImageDraw.Draw(page)
    pen.text((250, 20), "National Identity Management System", font=_font(34, bold=True), fill=_INK)
    pen.text((330, 66), "Federal Republic of Nigeria - SPECIMEN", font=_font(26), fill=_MARK)
    pen.text((290, 104), "National Identification Number Slip (NINS)", font=_font(28), fill=_INK)
    cells = (
        (("Tracking ID:", slip.tracking_id), (40, 170)),
        (("NIN:", slip.number), (40, 245)),
        (("Surname:", slip.surname), (570, 170)),
        (("First Name:", slip.first_name), (570, 235)),
        (("Middle Name:", slip.middle_name), (570, 300)),
        (("Gender:", slip.gender), (570, 365)),
        (("Address:", ""), (900, 170)),
    )
    for (label, text), (left, top) in cells:
        pen.text((left, top), label, font=_font(25, bold=True), fill=_INK)
        start = left + round(pen.textlength(label, font=_font(25, bold=True))) + 14
        pen.text((start, top), text, font=_font(25), fill=_INK)
    for index, part in enumerate(slip.address.split(", ")):
        pen.text((900, 215 + 36 * index), part, font=_font(23), fill=_INK)
    _paste_portrait(page, portrait, (1190, 150), (180, 230))
    for top, note in zip((470, 500), _SLIP_NOTES, strict=True):
        pen.text((40, top), note, font=_font(20), fill=_INK)
    return page


def draw_card_slip(
    slip: SlipSpecimen,
    portrait: Image.Image | None = None,
    code: Sequence[Sequence[int]] | None = None,
) -> Image.Image:
    """Return the improved slip, 1010 x 640 px, marked SPECIMEN; `code` is the matrix of its QR code."""
    page = _paper((1010, 640), (238, 246, 238), (208, 230, 208))
    pen = ImageDraw.Draw(page)
    pen.text((40, 24), "FEDERAL REPUBLIC OF NIGERIA", font=_font(30, bold=True), fill=(20, 92, 50))
    pen.text((40, 66), "DIGITAL NIN SLIP", font=_font(26, bold=True), fill=_INK)
    pen.text((400, 70), "SPECIMEN", font=_font(24, bold=True), fill=_MARK)
    _paste_portrait(page, portrait, (40, 130), (220, 280))
    fields = (
        ("SURNAME/NOM", slip.surname, (290, 130)),
        ("GIVEN NAMES/PRENOMS", f"{slip.first_name}, {slip.middle_name}", (290, 205)),
        ("DATE OF BIRTH", f"{slip.date_of_birth:%d %b %Y}".upper(), (290, 280)),
        ("SEX/SEXE", slip.gender, (560, 280)),
        ("ISSUE DATE", f"{slip.issued:%d %b %Y}".upper(), (290, 355)),
    )
    for label, text, place in fields:
        _write_field(pen, label, text, place)
    pen.text((840, 350), "NGA", font=_font(44, bold=True), fill=_INK)
    if code is not None:
        _paste_code(page, code, (745, 90), 230)
    pen.text((280, 450), "National Identification Number (NIN)", font=_font(22), fill=_LABEL)
    groups = "   ".join((slip.number[:4], slip.number[4:7], slip.number[7:]))
    pen.text((240, 490), groups, font=_font(64, bold=True), fill=_INK)
    return page


def to_jpeg(page: Image.Image, quality: int = 90) -> bytes:
    """Return the page as JPEG bytes without metadata."""
    written = BytesIO()
    page.save(written, "JPEG", quality=quality)
    return written.getvalue()


def _passport_fields(
    passport: PassportSpecimen, printed: Mapping[str, str]
) -> tuple[tuple[str, str, Point], ...]:
    """Return label, text and place of everything in the visual zone."""
    birth, expires = _printed_date(passport.date_of_birth), _printed_date(passport.expires)
    return (
        ("Type / Type", "P", (440, 108)),
        ("Country code / Code du pays", passport.issuer, (590, 108)),
        ("Passport No. / No. du passeport", printed.get("number", passport.number), (900, 108)),
        ("Surname / Nom", printed.get("surname", passport.surname), (440, 180)),
        ("Given names / Prénoms", printed.get("given_names", passport.given_names), (440, 252)),
        ("Nationality / Nationalité", "UTOPIAN", (440, 324)),
        ("Personal No. / No. personnel", passport.personal_number, (900, 324)),
        ("Date of birth / Date de naissance", printed.get("date_of_birth", birth), (440, 396)),
        ("Sex / Sexe", printed.get("sex", passport.sex), (900, 396)),
        ("Place of birth / Lieu de naissance", passport.place_of_birth, (440, 468)),
        ("Date of issue / Date de délivrance", _printed_date(passport.issued), (440, 540)),
        ("Authority / Autorité", "PASSPORT OFFICE", (900, 540)),
        ("Date of expiry / Date d'expiration", printed.get("expires", expires), (440, 612)),
    )


def _printed_date(day: date) -> str:
    return f"{day:%d %b %Y}".upper()


def _write_field(pen: ImageDraw.ImageDraw, label: str, text: str, place: Point) -> None:
    """Write a small label with its value below it."""
    pen.text(place, label, font=_font(17), fill=_LABEL)
    pen.text((place[0], place[1] + 23), text, font=_font(28, bold=True), fill=_INK)


def _write_machine_line(pen: ImageDraw.ImageDraw, line: str, top: int) -> None:
    """Write each character in the middle of its own pitch."""
    pitch = _LETTER_MM * PASSPORT_SIZE[0] / 125
    left = (PASSPORT_SIZE[0] - pitch * len(line)) / 2
    font = _font(38, mono=True)
    for index, character in enumerate(line):
        pen.text((left + (index + 0.5) * pitch, top), character, font=font, fill=_INK, anchor="ma")


def _paper(size: Size, colour: tuple[int, int, int], wave: tuple[int, int, int]) -> Image.Image:
    """Return a sheet with a pattern of fine waves."""
    page = Image.new("RGB", size, colour)
    pen = ImageDraw.Draw(page)
    for row in range(-40, size[1] + 40, 11):
        points = [(x, row + 16 * sin(x / 70 + row / 90) + 6 * sin(x / 23)) for x in range(0, size[0] + 8, 8)]
        pen.line(points, fill=wave, width=1)
    return page


def _stamp(page: Image.Image, text: str, place: Point, height: int) -> None:
    """Lay large pale words slanting over the page."""
    font = _font(height, bold=True)
    left, top, right, bottom = font.getbbox(text)
    mask = Image.new("L", (round(right - left) + 8, round(bottom - top) + 8), 0)
    ImageDraw.Draw(mask).text((4 - left, 4 - top), text, font=font, fill=42)
    mask = mask.rotate(18, expand=True, resample=Image.Resampling.BICUBIC)
    page.paste(_MARK, place, mask)


def _paste_portrait(page: Image.Image, portrait: Image.Image | None, place: Point, size: Size) -> None:
    """Fill the frame with the middle of the picture, or with grey."""
    if portrait is None:
        framed = Image.new("RGB", size, (198, 202, 208))
    else:
        scale = max(size[0] / portrait.width, size[1] / portrait.height)
        width, height = size[0] / scale, size[1] / scale
        left, top = (portrait.width - width) / 2, (portrait.height - height) / 2
        box = (left, top, left + width, top + height)
        framed = portrait.convert("RGB").resize(size, Image.Resampling.LANCZOS, box=box)
    page.paste(framed, place)


def _paste_code(page: Image.Image, code: Sequence[Sequence[int]], place: Point, side: int) -> None:
    """Draw a QR matrix with its quiet zone of four modules (ISO/IEC 18004 section 6.3.8)."""
    modules = len(code)
    picture = Image.new("L", (modules + 8, modules + 8), 255)
    for row, cells in enumerate(code):
        for column, dark in enumerate(cells):
            if dark:
                picture.putpixel((column + 4, row + 4), 0)
    page.paste(picture.resize((side, side), Image.Resampling.NEAREST).convert("RGB"), place)


@cache
def _font(size: int, *, bold: bool = False, mono: bool = False) -> Font:
    """Return DejaVu as matplotlib carries it, or Pillow's own font where matplotlib is not installed."""
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        return ImageFont.load_default(size)
    name = "DejaVuSansMono.ttf" if mono else "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / name, size)
