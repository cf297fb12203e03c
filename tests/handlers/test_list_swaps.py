"""Lists swapped under load: an answer is of one state of all of them, and without a list nobody is CLEAR."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime
from typing import Final

import pytest

from app.names import child
from app.names.process import open_names
from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import EntityKind, NameEntry
from schemas.name_screenings import NameQuery, NameScreeningRequest
from schemas.screenings import CheckResultKind
from streams.lists.listed_names import IndexNames, index_locally
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.screening import ListScreening
from streams.name_screenings.screening import Screened, screen_all

ACME = TenantId("ten_acme")
NOW = datetime(2026, 3, 9, tzinfo=UTC)
CHECKS: Final = {"sanctioned": CheckKind.SANCTIONS, "exposed": CheckKind.PEP}
SWAPS: Final = 100
REQUEST: Final = NameScreeningRequest(
    queries=tuple(NameQuery(kind=EntityKind.PERSON, name=name) for name in ("Ada Okafor", "Zafar Qadoori")),
    checks=tuple(CHECKS.values()),
)
"""Nobody on a list, and somebody on each."""


async def version_of(name: str, number: int, index: IndexNames) -> LoadedList:
    """A version of one of the two lists; its number is its version, and the id of its only entity."""
    entry = NameEntry(entity_id=str(number), kind=EntityKind.PERSON, names=("Zafar Qadoori",))

    async def entries() -> AsyncIterator[Sequence[bytes]]:
        yield [entry.to_bytes()]

    return LoadedList(name, None, CHECKS[name], str(number), date(2026, 3, 9), NOW, await index(entries))


async def swap(lists: LoadedLists, index: IndexNames) -> None:
    """Replace both lists again and again, first the one and then the other; now and then one is missing."""
    for number in range(1, SWAPS + 1):
        for name in CHECKS:
            loaded = await version_of(name, number, index)
            if number % 10 == 0:
                lists.remove(None, name)
                lists.miss(name, CHECKS[name])
                await asyncio.sleep(0.002)
            lists.replace(loaded)
            await asyncio.sleep(0.001)


async def screen_until(over: asyncio.Task[None], screening: ListScreening) -> list[Screened]:
    """Screen the two names until the swaps are over, and once more."""
    made = []
    while True:
        last = over.done()
        made.append(await screen_all(screening, REQUEST, ACME, {}, livemode=True))
        if last:
            return made


@pytest.mark.parametrize("held_by", ["this process", "the names process"])
async def test_an_answer_is_of_one_state_and_never_clear_without_a_list(
    held_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PATIENCE_S", 60)  # for a machine that is busy with something else
    async with AsyncExitStack() as stack:
        index: IndexNames = index_locally
        if held_by == "the names process":
            index = await stack.enter_async_context(open_names())
        lists = LoadedLists([await version_of(name, 0, index) for name in CHECKS])
        screening = ListScreening(lists, lambda: NOW)
        swaps = asyncio.create_task(swap(lists, index))

        runs = await asyncio.gather(*(screen_until(swaps, screening) for _ in range(4)))

    answers = [answer for run in runs for answer in run]
    whole = [one for one in answers if len(one.list_versions) == len(CHECKS)]
    apart = [int(one.list_versions["sanctioned"]) - int(one.list_versions["exposed"]) for one in whole]
    assert {difference for difference in apart if difference not in {0, 1}} == set()
    assert len({one.list_versions["exposed"] for one in whole}) > 1
    clear = [one.results[0].result is CheckResultKind.CLEAR for one in answers]
    assert clear == [len(one.list_versions) == len(CHECKS) for one in answers]
    assert [{match.list: match.entity_id for match in one.results[1].matches} for one in answers] == [
        dict(one.list_versions) for one in answers
    ]
