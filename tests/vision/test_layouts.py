"""Passport pages laid out as issuers publish theirs, through the real models."""

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.vision.images import decode
from app.vision.ocr import RapidTextReader
from schemas.enums import ExtractionStatus, VerificationStatus
from streams.verification.document_reader import read_document
from streams.verification.observations import Agreement
from tests.bench.documents import decided_on_paper
from tests.specimens.degrade import photographed
from tests.specimens.issuers import MANNERS, forged, issued_page
from tests.specimens.layouts import LAYOUTS, draw
from tests.specimens.people import TODAY, portrait

ISSUERS = {code: place for place, code in reversed([*enumerate(one.code for one in MANNERS.values())])}
"""Each issuer's first manner."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader() -> AsyncIterator[RapidTextReader]:
    """The reader as it is in a child."""
    opened = RapidTextReader()
    opened.warm()
    yield opened


@pytest.mark.parametrize("name", LAYOUTS)
async def test_a_page_of_any_layout_is_read_as_a_whole_and_contradicts_nothing(
    reader: RapidTextReader, name: str
) -> None:
    layout = LAYOUTS[name]
    page = photographed(draw(layout, portrait()), "clean", random.Random(1))
    reading = await read_document(reader, decode(page), TODAY)
    read = {key: reading.fields.get(key) for key in layout.true}
    assert (read, reading.number) == (layout.true, layout.number)
    assert reading.status is ExtractionStatus.EXTRACTED
    assert Agreement.MISMATCH not in reading.printed.values(), reading.printed


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("D", "clean"),
        ("LTU", "half in shade"),
        ("USA", "among papers"),
        ("CAN", "on its head"),
        ("JPN", "under a hand"),
    ],
)
async def test_a_page_in_the_manner_of_an_issuer_is_read_as_it_is_photographed(
    reader: RapidTextReader, code: str, how: str
) -> None:
    _, layout = issued_page(ISSUERS[code], random.Random(f"{code} {how}"))
    page = photographed(draw(layout, portrait()), how, random.Random(2))
    reading = await read_document(reader, decode(page), TODAY)
    read = {key: reading.fields.get(key) for key in layout.true}
    assert (read, reading.number) == (layout.true, layout.number)
    assert reading.status is ExtractionStatus.EXTRACTED
    assert Agreement.MISMATCH not in reading.printed.values(), reading.printed


async def test_a_right_page_in_the_manner_of_an_issuer_is_approved_on_paper(reader: RapidTextReader) -> None:
    _, layout = issued_page(ISSUERS["NLD"], random.Random(1))
    decided = await decided_on_paper(reader, draw(layout, portrait()), "half in shade")
    assert decided is VerificationStatus.APPROVED


@pytest.mark.parametrize(
    ("code", "what"), [("USA", "number"), ("LTU", "sex"), ("ITA", "expires"), ("UKR", "sex")]
)
async def test_a_print_altered_in_the_manner_of_an_issuer_is_not_approved(
    reader: RapidTextReader, code: str, what: str
) -> None:
    _, layout = forged(ISSUERS[code], what, random.Random(f"{code} {what}"))
    assert await decided_on_paper(reader, draw(layout, portrait())) is not VerificationStatus.APPROVED


async def test_an_altered_sex_upon_a_large_pale_word_is_not_approved(reader: RapidTextReader) -> None:
    _, layout = forged(ISSUERS["TWN"], "sex", random.Random("forged 49"))
    assert await decided_on_paper(reader, draw(layout, portrait())) is not VerificationStatus.APPROVED
