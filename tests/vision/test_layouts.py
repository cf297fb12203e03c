"""Passport pages laid out as issuers publish theirs, through the real models."""

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.vision.images import decode
from app.vision.ocr import RapidTextReader
from schemas.enums import ExtractionStatus
from streams.verification.document_reader import read_document
from streams.verification.observations import Agreement
from tests.specimens.degrade import photographed
from tests.specimens.layouts import LAYOUTS, draw
from tests.specimens.people import TODAY, portrait

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
