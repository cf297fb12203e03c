"""Whole documents through the real models: prints that contradict, slips, unknown pages, nothing at all."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from typing_extensions import override

from app.demo.specimens import (
    Alterations,
    PassportSpecimen,
    SlipSpecimen,
    draw_card_slip,
    draw_long_slip,
    draw_passport,
)
from app.vision.images import decode
from app.vision.ocr import SQUEEZED_ASPECT, RapidTextReader
from schemas.enums import ExtractionStatus, ReaderClass
from streams.verification.document_reader import DocumentClass, DocumentReading, findings_of, read_document
from streams.verification.image_text import machine_lines
from streams.verification.observations import Agreement, Source
from streams.verification.print_agreement import BEGINNING_ASPECT
from streams.verification.readers.layout import height, length
from streams.verification.readers.td3_lines import check_digit
from streams.vision_ports import Detail, Picture, Quad, TextLine, TextReader
from tests.specimens.degrade import as_pixels, photographed, rotated
from tests.specimens.people import TODAY, code, passport, portrait, slip

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOLDER = PassportSpecimen()
ALTERED = {
    "document_number": {"number": "L898962C3"},
    "surname": {"surname": "ERIKSEN"},
    "given_names": {"given_names": "JOANNA MARIA"},
    "date_of_birth": {"date_of_birth": "12 AUG 1984"},
    "expiry_date": {"expires": "15 APR 2035"},
    "sex": {"sex": "M"},
}
"""A visual zone that says something else, by the field that must contradict."""
PHOTOS = ("askew", "noisy", "glaring", "much compressed", "much blurred", "500 px wide")
SLIP_PHOTOS = ("rotated by up to 20 degrees", "on its right side", "much compressed", "blurred")


class RememberingReader(RapidTextReader):
    """The reader as it is in a child; it looks once where several tests read the same page."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[tuple[bytes, Detail], tuple[Quad, ...]] = {}
        self._read: dict[tuple[bytes, Quad, Detail], TextLine] = {}

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        looked = (_digest(picture), detail)
        if looked not in self._found:
            self._found[looked] = await super().find_lines(picture, detail)
        return self._found[looked]

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        digest = _digest(picture)
        for quad in quads:
            if (digest, quad, detail) not in self._read:
                (self._read[digest, quad, detail],) = await super().read_lines(picture, (quad,), detail)
        return tuple(self._read[digest, quad, detail] for quad in quads)


def _digest(picture: Picture) -> bytes:
    return hashlib.sha256(picture.pixels.tobytes()).digest() + repr(picture.pixels.shape).encode()


@pytest.fixture(scope="module")
def reader() -> RapidTextReader:
    """The reader of all tests here."""
    opened = RememberingReader()
    opened.warm()
    return opened


async def read(reader: TextReader, page: Image.Image, how: str = "clean", seed: int = 1) -> DocumentReading:
    picture = decode(photographed(page, how, random.Random(seed)))
    return await read_document(reader, picture, TODAY)


@pytest.mark.parametrize(
    ("field", "how"),
    [
        *((field, "clean") for field in ALTERED),
        ("document_number", "by a telephone"),
        ("expiry_date", "by a telephone"),
    ],
)
async def test_a_print_that_says_something_else_is_a_mismatch(
    reader: RapidTextReader, field: str, how: str
) -> None:
    page = draw_passport(HOLDER, portrait(), Alterations(printed=ALTERED[field]))
    reading = await read(reader, page, how)
    assert {name for name, agreed in reading.printed.items() if agreed is Agreement.MISMATCH} == {field}


@pytest.mark.parametrize(("seed", "how"), list(enumerate(PHOTOS)))
async def test_noise_never_makes_a_mismatch(reader: RapidTextReader, seed: int, how: str) -> None:
    reading = await read(reader, draw_passport(passport(random.Random(seed)), portrait()), how, seed)
    assert Agreement.MISMATCH not in reading.printed.values()


@pytest.mark.parametrize(("zone", "print_of"), [("C06X00T47", "C0GX00T47"), ("K8L900T47", "KSL900T47")])
async def test_a_letter_no_check_digit_tells_from_a_digit_is_left_to_a_person(
    reader: RapidTextReader, zone: str, print_of: str
) -> None:
    """G counts 16 and S 28: a zone with 6 or 8 in their place satisfies all five check digits."""
    holder = replace(HOLDER, number=zone)
    page = draw_passport(holder, portrait(), Alterations(printed={"number": print_of}))
    findings = findings_of(await read(reader, page))
    assert findings.digits_hold
    assert findings.status is ExtractionStatus.PARTIAL
    assert findings.printed["document_number"] is not Agreement.MATCH


async def test_a_good_page_agrees_with_itself_in_everything(reader: RapidTextReader) -> None:
    reading = await read(reader, draw_passport(HOLDER, portrait()))
    assert set(reading.printed.values()) == {Agreement.MATCH}


class CountingReader(TextReader):
    """A reader that counts the lines it recognises."""

    def __init__(self, reader: RapidTextReader) -> None:
        self.model_version = reader.model_version
        self.lines = 0
        self.long: set[Detail] = set()
        """How long lines were read."""
        self._reader = reader

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return await self._reader.find_lines(picture, detail)

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        self.lines += len(quads)
        self.long |= {detail for quad in quads if length(quad) > SQUEEZED_ASPECT * height(quad)}
        return await self._reader.read_lines(picture, quads, detail)

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return await self._reader.read_codes(picture)


class CuttingReader(CountingReader):
    """A reader whose detector finds long lines in pieces."""

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        found = await super().find_lines(picture, detail)
        return tuple(piece for quad in found for piece in (_cut(quad) if _is_long(quad) else (quad,)))


class LosingReader(CountingReader):
    """A reader whose detector never finds the first line of a zone."""

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        found = await super().find_lines(picture, detail)
        first = min((quad for quad in found if _is_long(quad)), key=lambda quad: quad[0][1])
        return tuple(quad for quad in found if quad is not first)


@pytest.mark.parametrize("kind", [CuttingReader, LosingReader])
async def test_lines_in_pieces_are_joined_and_a_lost_first_line_is_found(
    reader: RapidTextReader, kind: type[CountingReader]
) -> None:
    reading = await read(kind(reader), draw_passport(HOLDER, portrait()))
    assert reading.status is ExtractionStatus.EXTRACTED
    assert (reading.fields["full_name"], reading.number) == ("ANNA MARIA ERIKSSON", HOLDER.number)


@pytest.mark.parametrize("degrees", [4.5, -4.5, 8])
async def test_a_page_tilted_on_its_side_keeps_its_names(reader: RapidTextReader, degrees: float) -> None:
    page = as_pixels(np.rot90(as_pixels(draw_passport(HOLDER, portrait()))))
    reading = await read_document(reader, Picture(rotated(page, degrees)), TODAY)
    assert reading.status is ExtractionStatus.EXTRACTED
    assert (reading.fields["full_name"], reading.turn) == ("ANNA MARIA ERIKSSON", 90)


async def test_of_a_page_that_agrees_only_what_decides_is_read(reader: RapidTextReader) -> None:
    picture = decode(photographed(draw_passport(HOLDER, portrait()), "clean", random.Random(1)))
    counting = CountingReader(reader)
    reading = await read_document(counting, picture, TODAY)
    assert set(reading.printed.values()) == {Agreement.MATCH}
    assert counting.lines < len(await reader.find_lines(picture, Detail.FINE)) * 2 / 3
    assert counting.long == {Detail.COARSE}


class MisreadingReader(CountingReader):
    """A reader that mistakes a few letters in what it reads squeezed."""

    def __init__(self, reader: RapidTextReader, shown: str, read: str) -> None:
        super().__init__(reader)
        self.shown, self.read = shown, read

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        lines = await super().read_lines(picture, quads, detail)
        if detail is Detail.FINE:
            return lines
        return tuple(replace(line, text=line.text.replace(self.shown, self.read)) for line in lines)


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("SS", "SK"),
        ("ANNA", "ANN"),
        ("2F", "2M"),
        ("UT", "UA"),
        ("P<UT", "P<UA"),
        ("L898902C3", "L8989O2C8"),
    ],
)
async def test_letters_misread_in_a_squeezed_zone_are_read_again(
    reader: RapidTextReader, shown: str, read: str
) -> None:
    page = draw_passport(HOLDER, portrait())
    misreading = MisreadingReader(reader, shown, read)
    reading = await read_document(misreading, decode(photographed(page, "clean", random.Random(1))), TODAY)
    true = {"surname": "ERIKSSON", "given_names": "ANNA MARIA", "sex": "F", "nationality": "UTO"}
    assert {field: reading.fields[field] for field in true} == true
    assert (reading.number, reading.fields["issuing_state"]) == (HOLDER.number, "UTO")
    assert misreading.long == {*Detail}


@pytest.mark.parametrize("draw", [draw_long_slip, draw_card_slip])
async def test_a_slip_is_recognised_by_its_headings_and_nothing_is_read_upside_down(
    reader: RapidTextReader, draw: Callable[..., Image.Image]
) -> None:
    picture = decode(photographed(draw(SlipSpecimen(), portrait()), "clean", random.Random(1)))
    counting = CountingReader(reader)
    reading = await read_document(counting, picture, TODAY)
    headings = machine_lines(await reader.find_lines(picture, Detail.COARSE), 0)
    everything = len(await reader.find_lines(picture, Detail.FINE))
    assert (reading.document_class, reading.status) == (DocumentClass.NIN_SLIP, ExtractionStatus.EXTRACTED)
    assert counting.lines - len(headings) - everything in {0, 1}  # 1: the row of the number once more


class ShortSightedReader(CountingReader):
    """A reader to whom the beginning of a label says nothing."""

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        read = await super().read_lines(picture, quads, detail)
        beginnings = [length(quad) == pytest.approx(BEGINNING_ASPECT * height(quad)) for quad in quads]
        pairs = zip(read, beginnings, strict=True)
        return tuple(replace(line, text="Nam") if begins else line for line, begins in pairs)


async def test_more_of_a_label_is_read_where_its_beginning_names_no_field(reader: RapidTextReader) -> None:
    picture = decode(photographed(draw_passport(HOLDER, portrait()), "clean", random.Random(1)))
    quick, slow = CountingReader(reader), ShortSightedReader(reader)
    at_once, longer = [await read_document(one, picture, TODAY) for one in (quick, slow)]
    assert set(longer.printed.values()) == {Agreement.MATCH}
    assert longer.places.keys() == at_once.places.keys()
    assert quick.lines < slow.lines < len(await reader.find_lines(picture, Detail.FINE))


async def test_the_right_name_elsewhere_on_the_page_hides_no_altered_one(reader: RapidTextReader) -> None:
    page = draw_passport(HOLDER, portrait(), Alterations(printed={"surname": "ERIKSEN"}))
    ImageDraw.Draw(page).text((900, 250), "ERIKSSON", fill="black", font=ImageFont.load_default(28))
    assert (await read(reader, page)).printed["surname"] is Agreement.MISMATCH


@pytest.mark.parametrize("how", ["clean", "on its left side", "on its head"])
async def test_a_field_tells_where_on_the_picture_it_was_read(reader: RapidTextReader, how: str) -> None:
    reading = await read(reader, draw_passport(HOLDER, portrait()), how)
    middles = {place.source: _middle(place.quad, reading.turn) for place in reading.places["surname"]}
    assert middles[Source.PAGE] == pytest.approx((0.42, 0.25), abs=0.03)
    assert middles[Source.ZONE] == pytest.approx((0.25, 0.79), abs=0.04)


async def test_a_print_that_contradicts_is_kept_as_it_was_read(reader: RapidTextReader) -> None:
    altered = Alterations(printed=ALTERED["surname"])
    reading = await read(reader, draw_passport(HOLDER, portrait(), altered))
    texts = {place.source: place.text for place in reading.places["surname"]}
    assert texts == {Source.ZONE: "ERIKSSON", Source.PAGE: "ERIKSEN"}


async def test_a_slip_tells_where_its_fields_were_read(reader: RapidTextReader) -> None:
    reading = await read(reader, draw_long_slip(SlipSpecimen(), portrait()))
    assert {"document_number", "surname", "first_name", "address"} <= reading.places.keys()
    (place,) = reading.places["document_number"]
    assert _middle(place.quad, 0) == pytest.approx((0.12, 0.46), abs=0.05)


async def test_a_passport_tells_its_fields(reader: RapidTextReader) -> None:
    findings = findings_of(await read(reader, draw_passport(HOLDER, portrait())))
    assert (findings.status, findings.reader) == (ExtractionStatus.EXTRACTED, ReaderClass.TD3_MRZ)
    assert findings.number == "L898902C3"
    assert findings.fields["full_name"] == "ANNA MARIA ERIKSSON"
    assert findings.fields["expiry_date"] == "2032-04-15"


@pytest.mark.parametrize("place", [9, 43])
async def test_a_wrong_check_digit_is_reported(reader: RapidTextReader, place: int) -> None:
    first, second = HOLDER.lines()
    wrong = second[:place] + str((int(second[place]) + 3) % 10) + second[place + 1 :]
    reading = await read(reader, draw_passport(HOLDER, portrait(), Alterations(lines=(first, wrong))))
    findings = findings_of(reading)
    assert findings.reader is ReaderClass.TD3_MRZ
    assert not findings.digits_hold
    assert reading.printed == {}


async def test_an_impossible_date_with_right_digits_is_reported(reader: RapidTextReader) -> None:
    never = Alterations(lines=_with_birth("740230"))
    findings = findings_of(await read(reader, draw_passport(HOLDER, portrait(), never)))
    assert (findings.digits_hold, findings.impossible_date) == (True, True)


@pytest.mark.parametrize("how", SLIP_PHOTOS)
async def test_a_long_slip_tells_its_fields(reader: RapidTextReader, how: str) -> None:
    holder = slip(random.Random(how))
    reading = await read(reader, draw_long_slip(holder, portrait()), how)
    assert reading.document_class is DocumentClass.NIN_SLIP
    assert reading.number == holder.number
    assert reading.fields == _slip_fields(holder) | {
        "tracking_id": holder.tracking_id,
        "address": holder.address,
    }


@pytest.mark.parametrize("how", SLIP_PHOTOS)
async def test_a_card_slip_tells_its_fields(reader: RapidTextReader, how: str) -> None:
    holder = slip(random.Random(how))
    page = draw_card_slip(holder, portrait(), code(f"NIN: {holder.number}"))
    reading = await read(reader, page, how)
    assert reading.number == holder.number
    assert reading.fields == _slip_fields(holder)
    assert reading.code is not Agreement.MISMATCH


async def test_a_code_with_the_printed_number_agrees(reader: RapidTextReader) -> None:
    reading = await read(reader, draw_card_slip(SlipSpecimen(), portrait(), code("12345678901;SPECIMEN")))
    assert reading.code is Agreement.MATCH


async def test_a_code_with_another_number_contradicts(reader: RapidTextReader) -> None:
    reading = await read(reader, draw_card_slip(SlipSpecimen(), portrait(), code("NIN 10987654321")))
    assert reading.code is Agreement.MISMATCH


async def test_a_clean_code_is_read_that_a_search_for_several_misses(reader: RapidTextReader) -> None:
    """OpenCV's search for several codes finds nothing on this card."""
    card = slip(chance := random.Random("q3"))
    page = photographed(draw_card_slip(card, portrait(), code(f"NIN: {card.number}")), "clean", chance)
    assert await reader.read_codes(decode(page)) == (f"NIN: {card.number}",)


async def test_a_card_without_a_code_says_nothing_by_it(reader: RapidTextReader) -> None:
    assert (await read(reader, draw_card_slip(SlipSpecimen(), portrait()))).code is Agreement.NOT_FOUND


async def test_an_expected_slip_that_is_a_passport_is_read_as_one(reader: RapidTextReader) -> None:
    picture = decode(photographed(draw_passport(HOLDER), "clean", random.Random(1)))
    reading = await read_document(reader, picture, TODAY, expected=ReaderClass.NG_NIN_SLIP)
    assert reading.document_class is DocumentClass.TD3_PASSPORT


async def test_a_letter_is_an_unknown_document_with_text(reader: RapidTextReader) -> None:
    page = Image.new("RGB", (900, 700), "white")
    pen = ImageDraw.Draw(page)
    for row, text in enumerate(("Dear Ada,", "the weather in Lagos is fine", "and I miss you all.", "Ngozi")):
        pen.text((80, 80 + 90 * row), text, fill="black", font=ImageFont.load_default(40))
    reading = await read(reader, page)
    assert (reading.document_class, reading.status) == (DocumentClass.UNKNOWN, ExtractionStatus.UNSUPPORTED)


async def test_an_empty_wall_is_not_readable(reader: RapidTextReader) -> None:
    reading = await read_document(reader, Picture(np.full((700, 900, 3), 180, np.uint8)), TODAY)
    assert (reading.readable, reading.status) == (False, ExtractionStatus.FAILED)


async def test_a_portrait_alone_is_no_known_document(reader: RapidTextReader) -> None:
    reading = await read_document(reader, Picture(as_pixels(portrait().convert("RGB"))), TODAY)
    assert (reading.passport, reading.slip) == (None, None)


async def test_no_personal_part_shows_in_the_representation(reader: RapidTextReader) -> None:
    shown = repr(await read(reader, draw_passport(HOLDER, portrait())))
    assert not any(secret in shown for secret in ("ERIKSSON", "L898902C3", "1974", "ANNA"))


def _middle(quad: Quad, turn: int) -> tuple[float, float]:
    """Return the middle of a quad on the page turned upright."""
    across, down = (sum(corner[axis] for corner in quad) / 4 for axis in (0, 1))
    return {0: (across, down), 90: (1 - down, across), 180: (1 - across, 1 - down)}[turn]


def _with_birth(digits: str) -> tuple[str, str]:
    """Return the specimen's lines with another birth date and the check digits that belong to it."""
    first, second = HOLDER.lines()
    changed = second[:13] + digits + check_digit(digits) + second[20:43]
    return first, changed + check_digit(changed[:10] + changed[13:20] + changed[21:43])


def _slip_fields(holder: SlipSpecimen) -> dict[str, str]:
    return {
        "surname": holder.surname,
        "first_name": holder.first_name,
        "middle_name": holder.middle_name,
        "gender": holder.gender,
        "full_name": f"{holder.first_name} {holder.middle_name} {holder.surname}",
        "issuing_state": "NG",
    }


def _is_long(quad: Quad) -> bool:
    return length(quad) > 15 * height(quad)


def _cut(quad: Quad) -> tuple[Quad, Quad]:
    """Return two fifths and three fifths of a line."""
    one, two, three, four = quad
    top, bottom = (
        (left[0] + 0.4 * (right[0] - left[0]), left[1] + 0.4 * (right[1] - left[1]))
        for left, right in ((one, two), (four, three))
    )
    return (one, top, bottom, four), (top, two, three, bottom)
