"""Rendered passports through the real models: what is read, and that nothing wrong is ever believed."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio

from app.demo.specimens import PassportSpecimen, draw_passport
from app.vision.engines import EngineChoice, open_engines
from app.vision.images import decode
from schemas.enums import ExtractionStatus
from streams.verification.document_reader import DocumentReading, read_document
from tests.specimens.degrade import CHANGES, photographed
from tests.specimens.people import TODAY, passport, portrait

PAGES_EACH = 7
"""Pages of every kind of degradation: 7 x 15 = 105."""
AT_ONCE = 3
"""Documents under way: two threads read while the third is being drawn."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, how it was photographed, and what was read."""

    how: str
    holder: PassportSpecimen
    reading: DocumentReading

    @property
    def second(self) -> str | None:
        """The second line as it was read."""
        return self.reading.passport.lines[1] if self.reading.passport else None

    @property
    def believed(self) -> bool:
        """Whether all check digits hold."""
        return self.reading.passport is not None and self.reading.passport.holds


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages() -> AsyncIterator[list[Page]]:
    """Read the machine-readable zones of 105 seeded pages in two vision children."""
    free, face = asyncio.Semaphore(AT_ONCE), portrait()

    async def read(how: str, seed: int) -> Page:
        async with free:
            chance = random.Random(f"{how} {seed}")
            holder = passport(chance)
            picture = decode(photographed(draw_passport(holder, face), how, chance))
            return Page(how, holder, await read_document(reader, picture, TODAY, compare_print=False))

    async with open_engines(EngineChoice(workers=2, waiting=AT_ONCE)) as engines:
        reader = engines.text
        yield await asyncio.gather(*(read(how, seed) for how in CHANGES for seed in range(PAGES_EACH)))


def test_there_are_a_hundred_pages(pages: list[Page]) -> None:
    assert len(pages) >= 100


def test_nineteen_of_twenty_second_lines_are_exact(pages: list[Page]) -> None:
    wrong = [(page.how, page.holder.lines()[1], page.second) for page in pages if not exact(page)]
    assert len(wrong) <= len(pages) // 20, wrong


def test_no_wrong_second_line_is_believed(pages: list[Page]) -> None:
    assert [(page.how, page.second) for page in pages if page.believed and not exact(page)] == []


def test_no_wrong_name_counts_as_read_as_a_whole(pages: list[Page]) -> None:
    """Names carry no check digit: a line whose issuer makes no sense keeps the page from being EXTRACTED."""
    extracted = [page for page in pages if page.reading.status is ExtractionStatus.EXTRACTED]
    results = [(page.reading.fields["surname"], page.holder.surname) for page in extracted]
    assert [(read, true) for read, true in results if read != true] == []


def test_the_turn_of_the_page_is_reported(pages: list[Page]) -> None:
    turns = {"on its left side": 90, "on its head": 180, "on its right side": 270}
    believed = [page for page in pages if page.believed]
    assert {(page.how, page.reading.turn) for page in believed} == {
        (page.how, turns.get(page.how, 0)) for page in believed
    }


def exact(page: Page) -> bool:
    """Return whether the second line was read as it was drawn."""
    return page.second == page.holder.lines()[1]
