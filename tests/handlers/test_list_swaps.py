"""Lists swapped under load: an answer is of one state of all of them, and without a list nobody is CLEAR."""

import asyncio
from datetime import UTC, date, datetime
from typing import Final

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import EntityKind, NameEntry
from schemas.name_screenings import NameQuery, NameScreeningRequest
from schemas.screenings import CheckResultKind
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.screening import ListScreening
from streams.name_screenings.screening import Screened, screen_all
from streams.names.index import NameIndex

ACME = TenantId("ten_acme")
NOW = datetime(2026, 3, 9, tzinfo=UTC)
INDEX: Final = NameIndex([NameEntry(entity_id="1", kind=EntityKind.PERSON, names=("Zafar Qadoori",))])
CHECKS: Final = {"sanctioned": CheckKind.SANCTIONS, "exposed": CheckKind.PEP}
SWAPS: Final = 100
NOBODY: Final = NameScreeningRequest(
    queries=tuple(NameQuery(kind=EntityKind.PERSON, name=name) for name in ("Ada Okafor", "Ben Musa")),
    checks=tuple(CHECKS.values()),
)


def version_of(name: str, number: int) -> LoadedList:
    """A version of one of the two lists; its number is its version."""
    return LoadedList(name, None, CHECKS[name], str(number), date(2026, 3, 9), NOW, INDEX)


async def swap(lists: LoadedLists) -> None:
    """Replace both lists again and again, first the one and then the other; now and then one is missing."""
    for number in range(1, SWAPS + 1):
        for name in CHECKS:
            if number % 10 == 0:
                lists.remove(None, name)
                lists.miss(name, CHECKS[name])
                await asyncio.sleep(0.002)
            lists.replace(version_of(name, number))
            await asyncio.sleep(0.001)


async def screen_until(over: asyncio.Task[None], screening: ListScreening) -> list[Screened]:
    """Screen two names that nobody lists, until the swaps are over and once more."""
    made = []
    while True:
        last = over.done()
        made.append(await screen_all(screening, NOBODY, ACME, {}, livemode=True))
        if last:
            return made


async def test_an_answer_is_of_one_state_and_never_clear_without_a_list() -> None:
    lists = LoadedLists([version_of(name, 0) for name in CHECKS])
    screening = ListScreening(lists, lambda: NOW)
    swaps = asyncio.create_task(swap(lists))

    runs = await asyncio.gather(*(screen_until(swaps, screening) for _ in range(4)))

    answers = [answer for run in runs for answer in run]
    whole = [one for one in answers if len(one.list_versions) == len(CHECKS)]
    apart = [int(one.list_versions["sanctioned"]) - int(one.list_versions["exposed"]) for one in whole]
    assert {difference for difference in apart if difference not in {0, 1}} == set()
    assert len({one.list_versions["exposed"] for one in whole}) > 1
    clear = [[one.result is CheckResultKind.CLEAR for one in answer.results] for answer in answers]
    assert clear == [[len(answer.list_versions) == len(CHECKS)] * 2 for answer in answers]
