"""A sample of the bench of documents, and how it counts."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.demo.specimens import draw_passport
from app.vision.ocr import RapidTextReader
from schemas.enums import VerificationStatus
from tests.bench.altered_documents import KINDS
from tests.bench.documents import (
    Outcome,
    Result,
    add_up,
    altered_documents,
    decided_on_paper,
    recorded,
    td3_pages,
)
from tests.specimens.degrade import CAMERA
from tests.specimens.people import passport, portrait

TILTED = tuple(CAMERA).index("tilted on its side")
LOOK_ALIKE = KINDS.index("look-alike in the printed number")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader() -> AsyncIterator[RapidTextReader]:
    """The reader as it is in a child."""
    yield RapidTextReader()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_sample_of_pages_is_read_right(reader: RapidTextReader) -> None:
    results = [await td3_pages(reader)(index) for index in (0, TILTED)]
    assert [result.outcome for result in results] == [Outcome.RIGHT] * 2


@pytest.mark.asyncio(loop_scope="module")
async def test_a_sample_of_altered_documents_is_not_approved(reader: RapidTextReader) -> None:
    assert (await altered_documents(reader)(LOOK_ALIKE)).outcome is Outcome.RIGHT


@pytest.mark.asyncio(loop_scope="module")
async def test_a_document_that_is_not_altered_is_approved_on_paper(reader: RapidTextReader) -> None:
    """Otherwise nothing would follow from the altered ones that are not."""
    page = draw_passport(passport(random.Random("unaltered")), portrait())
    assert await decided_on_paper(reader, page) is VerificationStatus.APPROVED


def test_parts_add_up_and_the_last_run_of_a_document_counts(tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_text('{"set": "td3", "index": 1, "how": "clean", "outcome": "wrong", "note": ""}\n')
    later = [Result("td3", 1, "clean", Outcome.RIGHT), Result("slips", 1, "clean", Outcome.INCOMPLETE)]
    counts = add_up([*recorded(file), *later])
    assert counts == {"td3": {Outcome.RIGHT: 1}, "slips": {Outcome.INCOMPLETE: 1}}
