"""Monitored names: compared with every new version of the lists, each match reported once (G118)."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pytest
from typing_extensions import override

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.dispositions import ScreeningCommand
from schemas.enums import ActorType, CaseKind, CheckKind, RiskLevel
from schemas.events import EventType
from schemas.ids import PLATFORM, DispositionId, ScreeningId, SubjectId, derive_id
from schemas.lists import EntityKind, NameEntry
from schemas.name_screenings import NameQuery, NameScreeningRequest, RescreenNames, ScreenNames
from schemas.people import SentActor
from schemas.reviews import StoredCase
from streams.audit.commit import CommitAndPublish
from streams.dispositions.records import StoredDispositions
from streams.lists.listed_names import ListedNames, LocalNames, UnsearchedNames
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.screening import ListScreening
from streams.name_screenings.handler import ScreenNamesOnce
from streams.name_screenings.monitoring import MonitoringSweep, Rescreen
from streams.name_screenings.records import request_label
from streams.ports.records import Change, Record, RecordKind
from streams.ports.screening import Suppression
from streams.ports.stores import Stores
from streams.privacy.sealing import seal, seal_subject_id
from streams.runtime.producer import Outgoing
from streams.tenants.handler import TENANTS_INDEX
from streams.verification.review_case import index_of
from tests.builders import ACME, build_tenant
from tests.http.support import HASHES, Silence

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
SUBJECT = SubjectId("customer-17")
ABOUT = ScreeningId(derive_id("ns", "monitored"))
ZOLTAN = NameEntry(entity_id="1", kind=EntityKind.PERSON, names=("Zoltan Qaraveli",), birth_dates=("1970",))
NAMESAKE = ZOLTAN.model_copy(update={"entity_id": "2", "birth_dates": ("1971",)})
OTHER = NameEntry(entity_id="9", kind=EntityKind.PERSON, names=("Mirembe Vostrikova",))


def clock() -> datetime:
    """The moment."""
    return NOW


class Judged(StoredDispositions):
    """Dispositions, those that a test adds too."""

    found: dict[tuple[str, str], Suppression]

    @override
    async def of_subject(self, *_: Any, **__: Any) -> dict[tuple[str, str], Suppression]:
        """Return what the test said."""
        return self.found


@dataclass
class Stage:
    """A worker's part in monitoring, over stores in memory."""

    stores: Stores = field(default_factory=lambda: open_memory_stores(RootKey(b"r" * 32), Shelves()))
    lists: LoadedLists = field(default_factory=LoadedLists)
    written: list[Outgoing] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Build the use cases and the sweep."""
        commit = CommitAndPublish(self.stores.journal, Silence())
        screening = ListScreening(self.lists, clock)
        self.judged = Judged(self.stores.records, HASHES, clock)
        self.judged.found = {}
        self.screen = ScreenNamesOnce(self.stores, screening, self.judged, clock, Silence())
        self.rescreen = Rescreen(self.stores, screening, self.judged, commit, clock)
        self.sweeping = MonitoringSweep(self.stores.records, self.write, self.lists.versions, clock)

    async def write(self, *records: Outgoing) -> None:
        """Take commands."""
        self.written += records

    def load(self, version: str, *entries: NameEntry) -> None:
        """Replace the list."""
        self.load_names(version, LocalNames(entries))

    def load_names(self, version: str, names: ListedNames) -> None:
        """Replace the list by names wherever their index is."""
        day = date(2026, 5, 4)
        self.lists.replace(LoadedList("us", None, CheckKind.SANCTIONS, version, day, NOW, names))

    async def ask(self) -> None:
        """Screen a name and have it monitored."""
        tenant = build_tenant(tenant_id=ACME).to_bytes()
        record = Record(PLATFORM, RecordKind.TENANT, ACME, tenant, NOW, indexes=(TENANTS_INDEX,))
        await self.stores.journal.commit(Change(PLATFORM, (record,)))
        query = NameQuery(kind=EntityKind.PERSON, name="Zoltan Qaraveli", birth_date="1970-01-01")
        body = NameScreeningRequest(queries=(query,), subject_id=SUBJECT, monitor=True)
        vault = self.stores.vault
        await self.screen(
            ScreenNames(
                tenant_id=ACME,
                screening_id=ABOUT,
                fingerprint="f",
                livemode=True,
                requested_at=NOW,
                subject_id=await seal_subject_id(vault, ACME, SUBJECT),
                sealed_request=await seal(vault, ACME, SUBJECT, request_label(ABOUT), body),
                actor=SentActor(actor_type=ActorType.API_KEY, actor_id="key_1", request_id="req-1"),
            )
        )

    async def round(self) -> int:
        """Sweep, and carry out what is asked for, twice; return how much was asked."""
        self.written.clear()
        asked = await self.sweeping.sweep()
        for record in [*self.written, *self.written]:
            assert record.value is not None
            command = ScreeningCommand.model_validate_json(record.value).root
            assert isinstance(command, RescreenNames)
            assert b"Qaraveli" not in record.value
            await self.rescreen(command)
        return asked

    async def cases(self) -> list[Any]:
        """Return the cases, newest first."""
        index = index_of(True, None, None, None)
        page = await self.stores.records.page(ACME, RecordKind.REVIEW_CASE, index, limit=10)
        return [StoredCase.from_bytes(one.body).case for one in page]

    async def events(self) -> list[str]:
        """Return the types of the events that were committed."""
        return [one.type for one in await self.stores.journal.pending_events(100)]


@pytest.fixture
async def stage() -> Stage:
    """A name is monitored; nobody like it is listed."""
    stage = Stage()
    stage.load("v1", OTHER)
    await stage.ask()
    return stage


async def test_a_name_that_becomes_listed_is_reported_once_with_a_case(stage: Stage) -> None:
    assert await stage.round() == 0

    stage.load("v2", OTHER, ZOLTAN)
    assert await stage.round() == 1
    (case,) = await stage.cases()
    assert (case.kind, case.screening_id, case.subject_id) == (CaseKind.SCREENING, ABOUT, SUBJECT)
    assert (case.risk_level, case.reasons[0].code) == (RiskLevel.CRITICAL, "SANCTIONS_MATCH")
    assert (await stage.events()).count(EventType.SCREENING_MATCH_FOUND) == 1
    assert (await stage.events()).count(EventType.CASE_OPENED) == 1

    stage.load("v3", ZOLTAN.model_copy(update={"note": "changed"}))
    assert (await stage.round(), await stage.round()) == (1, 0)
    assert len(await stage.cases()) == 1

    stage.load("v4", ZOLTAN, NAMESAKE)
    assert await stage.round() == 1
    assert len(await stage.cases()) == 2


async def test_a_match_that_was_judged_is_reported_only_when_it_counts_again(stage: Stage) -> None:
    about = DispositionId(derive_id("dsp", "one"))
    stage.judged.found = {("us", "1"): Suppression(about, ZOLTAN.digest())}
    stage.load("v2", ZOLTAN)
    assert await stage.round() == 1
    assert await stage.cases() == []

    stage.load("v3", ZOLTAN.model_copy(update={"note": "changed"}))
    assert await stage.round() == 1
    assert len(await stage.cases()) == 1


async def test_a_name_stays_due_as_long_as_the_list_cannot_be_asked(stage: Stage) -> None:
    stage.load_names("v2", UnsearchedNames(2))
    assert (await stage.round(), await stage.round()) == (1, 1)
    assert await stage.cases() == []

    stage.load("v2", OTHER, ZOLTAN)
    assert (await stage.round(), await stage.round()) == (1, 0)
    assert len(await stage.cases()) == 1


async def test_the_names_of_an_erased_subject_are_monitored_no_more(stage: Stage) -> None:
    await stage.stores.vault.destroy(ACME, SUBJECT)

    stage.load("v2", ZOLTAN)
    assert (await stage.round(), await stage.round()) == (1, 0)
    assert await stage.cases() == []
