"""What is read once more of a page: parts of bilingual lines, and lines that a large one hides."""

from collections.abc import Mapping, Sequence
from datetime import date

import numpy as np
import pytest
from typing_extensions import override

from streams.verification.image_text import PictureText
from streams.verification.observations import Agreement
from streams.verification.print_agreement import read_hidden, read_parts
from streams.verification.readers.layout import moved
from streams.verification.readers.td3_lines import Td3Fields, compose
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from streams.verification.readers.visual_zone import compare
from streams.vision_ports import Detail, Picture, Quad, TextLine, TextPage, TextReader
from tests.specimens.text_pages import text_line, text_page, zone

PICTURE = Picture(np.zeros((880, 1250, 3), np.uint8))
SEX = text_line("/Sx", 900, 400, score=0.9)
LETTER = text_line("4/M", 900, 440)
LARGE = text_line("PECIMEN", 700, 370, height=110)
AROUND = (645, 315)
"""Where the part of the picture around the large line begins."""
Parts = Mapping[tuple[str, int, int], str]
"""What is recognised in a part of a line, by the line and the hundredths of it where the part begins and
ends."""


class PartReader(TextReader):
    """A reader of parts of known lines; it finds the hidden lines in a part of the picture."""

    def __init__(self, lines: Sequence[TextLine], parts: Parts, hidden: Sequence[TextLine] = ()) -> None:
        self.model_version = "parts"
        self._lines = [*lines, *hidden]
        self._parts = parts
        self._hidden = hidden
        self.read = 0

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return tuple(moved(line.quad, (-AROUND[0], -AROUND[1])) for line in self._hidden)

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        self.read += len(quads)
        return tuple(self._read(quad) for quad in quads)

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return ()

    def _read(self, quad: Quad) -> TextLine:
        for line in self._lines:
            (left, top), (right, _) = line.quad[:2]
            if quad[0][1] == top and left <= quad[0][0] < quad[1][0] <= right:
                start, stop = (round(100 * (x - left) / (right - left)) for x in (quad[0][0], quad[1][0]))
                whole = (start, stop) == (0, 100)
                text = line.text if whole else self._parts.get((line.text, start, stop), "")
                return TextLine(text, 0.99 if text else 0.0, quad)
        raise AssertionError(quad)


def a_zone() -> Td3Reading:
    fields = Td3Fields("ERIKSSON", "ANNA<MARIA", "L898902C3", "740812", "F", "320415")
    found = read_td3(text_page(*zone(*compose(fields))), date(2026, 1, 1))
    assert found is not None
    return found


async def parts_of(line: TextLine, parts: Parts, *others: TextLine) -> TextPage:
    """Return a page of some lines after parts of one were read."""
    page = TextPage((line, *others), 1250, 880, 0)
    return await read_parts(PictureText(PartReader(page.lines, parts), PICTURE), page, a_zone())


@pytest.mark.asyncio
async def test_a_part_that_names_a_field_is_its_label() -> None:
    page = await parts_of(SEX, {("/Sx", 50, 100): "Sex"}, LETTER)
    assert [line.text for line in page.lines] == ["Sex", "4/M"]
    assert compare(page, a_zone())["sex"] is Agreement.MISMATCH


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "part", "shown", "become"),
    [
        ("\u03c0/D", (50, 100), "\u0434/ERIKSSON", "\u03c0/ERIKSSON"),
        ("12 / 74", (40, 100), "4/AUG 74", "12 /AUG 74"),
        ("XK/F", (50, 100), "/F", "F"),
        ("F/2", (0, 40), "F", "F"),
        ("XK/F", (50, 100), "/E", "XK/F"),
        ("ER/KSSON", (50, 100), "SSON", "ER/KSSON"),
        ("ERIKSSON", (50, 100), "/SMITH", "ERIKSSON"),
    ],
)
async def test_a_part_replaces_what_stands_on_its_side_of_a_stroke(
    text: str, part: tuple[int, int], shown: str, become: str
) -> None:
    page = await parts_of(text_line(text, 440, 205, score=0.9), {(text, *part): shown})
    assert [line.text for line in page.lines] == [become]


@pytest.mark.asyncio
async def test_a_page_of_one_script_is_not_read_in_parts() -> None:
    lines = (text_line("Surname / Nom", 440, 180, score=0.9), text_line("SMITH", 440, 205, score=0.9))
    page, reader = TextPage(lines, 1250, 880, 0), PartReader(lines, {})
    assert await read_parts(PictureText(reader, PICTURE), page, a_zone()) == page
    assert reader.read == 0


@pytest.mark.asyncio
async def test_lines_that_a_large_one_hides_are_read() -> None:
    usual = [text_line(text, 440, 180 + 40 * row) for row, text in enumerate(("Surname", "ERIKSSON", "UTO"))]
    lines = (*usual, LARGE)
    hidden = (text_line("Sex", 900, 400), text_line("M", 900, 440))
    page = TextPage(lines, 1250, 880, 0)
    seen = await read_hidden(PictureText(PartReader(lines, {}, hidden), PICTURE), page, a_zone())
    assert [line.text for line in seen.lines[len(lines) :]] == ["Sex", "M"]
    assert compare(seen, a_zone())["sex"] is Agreement.MISMATCH
