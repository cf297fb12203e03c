"""Loading a published list: the snapshot on disk, the version that stays, and the swap in memory (G116)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typing_extensions import override

from app.adapters.files.data_dir import LISTS_FOLDER
from app.adapters.files.list_snapshots import ListSnapshots, SnapshotDamaged
from app.adapters.memory.stores import MemoryRecords, Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.cli.main import app
from app.composition.stores import new_id
from app.lists import serving
from app.lists.downloading import ADDRESSES, download
from app.lists.publishing import GuardRefused, LoadRefused, PublishList, load_list
from app.lists.serving import ListsProbe
from app.lists.updating import ListUpdates
from app.settings import SettingsRefused, read_settings
from schemas.audit import Actor
from schemas.enums import ActorType, CheckKind
from schemas.ids import PLATFORM, TenantId
from schemas.lists import SANDBOX, EntityKind
from schemas.problems import StoreUnavailable
from schemas.screenings import CheckResultKind, ErrorCause, ScreeningTarget
from schemas.tenant_lists import ListChanged
from streams.lists.listed_names import index_locally
from streams.lists.screening import ListScreening
from streams.lists.storage import ListStorage
from streams.ports.records import Record, RecordKind
from streams.ports.screening import ScreeningOptions
from tests.journeys.service import begin_deployment

NOW = datetime(2026, 3, 9, tzinfo=UTC)
MOST_WAIT_S = 60


class Away(MemoryRecords):
    """A store that cannot be read."""

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        raise StoreUnavailable("away")


def published(folder: Path, count: int, name: str = "Zafar", topic: str = "sanction") -> Path:
    """Write so many entities of an OpenSanctions data set."""
    path = folder / f"{name}-{count}.json"
    lines = (
        {
            "id": str(at),
            "schema": "Person",
            "properties": {"name": [f"{name} Qadoori {at}"], "topics": [topic]},
        }
        for at in range(count)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def files_of(folder: Path) -> list[str]:
    """Return the names of all files of the lists."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_list_is_stored_under_its_hash_and_replaced_whole(tmp_path: Path) -> None:
    snapshots = ListSnapshots(tmp_path)

    first = load_list(snapshots, "un", [published(tmp_path, 100)], NOW)
    second = load_list(snapshots, "un", [published(tmp_path, 110)], NOW + timedelta(days=1))

    assert first.version == f"2026-03-09#{first.sha256[:8]}"
    assert snapshots.current() == {"un": second}
    assert len(list(snapshots.entries(second))) == 110
    assert files_of(tmp_path / LISTS_FOLDER) == ["current.json", f"un/{second.sha256}.ndjson"]


@pytest.mark.parametrize("text", ["", "<html>sorry</html>", "<export><sanctionEntity>", '{"id":"1"}\n'])
def test_another_document_leaves_the_last_version_and_says_why(tmp_path: Path, text: str) -> None:
    snapshots = ListSnapshots(tmp_path)
    last = load_list(snapshots, "un", [published(tmp_path, 100)], NOW)
    (tmp_path / "other").write_text(text, encoding="utf-8")

    with pytest.raises(LoadRefused) as refused:
        load_list(snapshots, "un", [tmp_path / "other"], NOW, force=True)

    assert snapshots.current()["un"] == last.model_copy(update={"problem": str(refused.value)})
    assert len(list(snapshots.entries(last))) == 100
    assert files_of(tmp_path / LISTS_FOLDER) == ["current.json", f"un/{last.sha256}.ndjson"]


def test_a_tenth_of_the_entries_needs_force(tmp_path: Path) -> None:
    snapshots = ListSnapshots(tmp_path)
    load_list(snapshots, "un", [published(tmp_path, 100)], NOW)

    with pytest.raises(LoadRefused, match="10 entries"):
        load_list(snapshots, "un", [published(tmp_path, 10)], NOW)
    forced = load_list(snapshots, "un", [published(tmp_path, 10)], NOW, force=True)

    assert (forced.entries, snapshots.current()["un"].problem) == (10, None)


def test_a_snapshot_that_was_altered_is_noticed(tmp_path: Path) -> None:
    snapshots = ListSnapshots(tmp_path)
    snapshot = load_list(snapshots, "un", [published(tmp_path, 3)], NOW)
    path = tmp_path / LISTS_FOLDER / "un" / f"{snapshot.sha256}.ndjson"
    path.write_text(path.read_text(encoding="utf-8").replace("Zafar", "Safar"), encoding="utf-8")

    with pytest.raises(SnapshotDamaged):
        list(snapshots.entries(snapshot))


async def test_a_new_version_is_served_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_LOOK_EVERY_S", 0.01)
    snapshots = ListSnapshots(tmp_path)
    first = load_list(snapshots, "un", [published(tmp_path, 100)], NOW)

    async with serving.serving_lists(snapshots, lambda: NOW) as served:
        lists = served.lists
        before = {one.name: one.version for one in lists.current.values()}
        second = load_list(snapshots, "un", [published(tmp_path, 101)], NOW)
        async with asyncio.timeout(MOST_WAIT_S):
            while lists.current[None, "un"].version != second.version:  # noqa: ASYNC110 - of a thread
                await asyncio.sleep(0.01)

    assert before.keys() == {"un", SANDBOX}
    assert before["un"] == first.version
    assert len(lists.current[None, "un"].names) == 101


def test_the_commands_load_show_and_look_up(tmp_path: Path) -> None:
    path = published(tmp_path, 5, name="Wenceslas")
    begin_deployment(tmp_path)
    folder = ["--data-dir", str(tmp_path), "--json"]
    run = CliRunner()

    loaded = run.invoke(app, ["lists", "load", "peps", str(path), *folder])
    status = run.invoke(app, ["lists", "status", *folder])
    found = run.invoke(app, ["lists", "test", "Wenceslas Qadoori 3", *folder])

    assert (loaded.exit_code, status.exit_code, found.exit_code) == (0, 0, 0)
    assert json.loads(status.stdout) == [json.loads(loaded.stdout)]
    assert json.loads(loaded.stdout)["check"] == "PEP"
    assert json.loads(found.stdout)[0]["entity_id"] == "3"


def test_the_name_of_the_sandbox_cannot_be_loaded(tmp_path: Path) -> None:
    run = CliRunner().invoke(
        app, ["lists", "load", SANDBOX, str(published(tmp_path, 5)), "--data-dir", str(tmp_path)]
    )

    assert run.exit_code != 0
    assert not (tmp_path / LISTS_FOLDER).exists()


@asynccontextmanager
async def publisher(body: bytes, status: int = 200, length: int | None = None) -> AsyncIterator[str]:
    """Answer every request on a loopback port; a length that is not the body's makes an answer break off."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {length or len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/list"


async def test_a_list_is_fetched_from_the_address_given(tmp_path: Path) -> None:
    body = published(tmp_path, 5).read_bytes()
    folder = tmp_path / "data"
    begin_deployment(folder)

    async with publisher(body) as address:
        arguments = ["lists", "update", "un", "--from", address, "--data-dir", str(folder), "--json"]
        run = await asyncio.to_thread(CliRunner().invoke, app, arguments)

    assert run.exit_code == 0
    assert [one["entries"] for one in json.loads(run.stdout)] == [5]
    assert ListSnapshots(folder).current()["un"].entries == 5


@pytest.mark.parametrize(
    ("status", "longer", "most"), [(503, 0, 1_000_000), (200, 10, 1_000_000), (200, 0, 10)]
)
async def test_an_answer_that_is_no_whole_list_is_refused(
    tmp_path: Path, status: int, longer: int, most: int
) -> None:
    body = published(tmp_path, 5).read_bytes()

    async with publisher(body, status, len(body) + longer) as address:
        with pytest.raises(LoadRefused):
            await download(address, tmp_path / "fetched", most)


async def test_a_machine_copies_what_another_one_loaded_and_keeps_it_whole(tmp_path: Path) -> None:
    stores = open_memory_stores(RootKey(b"r" * 32), Shelves())
    storage = ListStorage(stores.records, stores.journal, stores.vault)
    first, second = ListSnapshots(tmp_path / "first"), ListSnapshots(tmp_path / "second")

    async def announce(_: ListChanged) -> None:
        pass

    async with serving.serving_lists(second, lambda: NOW, storage) as served:
        commit, serve = stores.journal.commit, served.refresh
        publish = PublishList(first, storage, commit, lambda: NOW, new_id, announce, serve)
        stored = await publish("un", [published(tmp_path, 1_500)], Actor(actor_type=ActorType.OPERATOR))
        with pytest.raises(GuardRefused):
            await publish("un", [published(tmp_path, 50)], Actor(actor_type=ActorType.OPERATOR))
        loaded = served.lists.current[None, "un"]
        assert await served.probe() is None
        shown = ListsProbe(served, lambda: NOW + timedelta(hours=2)).shown()

    assert shown == {"lists": {"un": {"version": stored.version, "age_s": 7_200}}}
    assert stored.parts > 1
    assert (loaded.version, len(loaded.names)) == (stored.version, 1_500)
    assert list(second.entries(second.current()["un"])) == list(first.entries(first.current()["un"]))
    lists, _ = await storage.load(PLATFORM)
    assert lists.lists[0].problem is not None


async def test_nobody_is_clear_of_a_list_that_is_damaged_on_this_machine(tmp_path: Path) -> None:
    snapshots = ListSnapshots(tmp_path)
    snapshot = load_list(snapshots, "un", [published(tmp_path, 50)], NOW)
    load_list(snapshots, "eu_fsf", [published(tmp_path, 50)], NOW)
    path = tmp_path / LISTS_FOLDER / "un" / f"{snapshot.sha256}.ndjson"
    path.write_bytes(path.read_bytes().replace(b"Qadoori 7", b"Qadoori 8", 1))
    target = ScreeningTarget(kind=EntityKind.PERSON, name="Quite Somebody")

    async with serving.serving_lists(snapshots, lambda: NOW) as served:
        screen = ListScreening(served.lists, lambda: NOW)
        tenant_id = TenantId("ten_acme")
        answer = await screen(
            CheckKind.SANCTIONS, target, ScreeningOptions(), tenant_id=tenant_id, livemode=True
        )
        cause = await served.probe()
        shown = ListsProbe(served, lambda: NOW).shown()["lists"]

    assert (shown["un"], shown["eu_fsf"]["age_s"]) == (None, 0)
    assert cause == "cannot be read: un; load it again"

    assert (answer.result, answer.causes) == (CheckResultKind.ERROR, (ErrorCause.LIST_MISSING,))
    assert set(answer.list_versions) == {"eu_fsf"}


async def test_it_is_not_ready_before_it_was_read_which_lists_there_are(tmp_path: Path) -> None:
    stores = open_memory_stores(RootKey(b"r" * 32), Shelves())
    storage = ListStorage(stores.records, stores.journal, stores.vault)
    away = ListStorage(Away(Shelves()), stores.journal, stores.vault)
    served = serving.DeploymentLists(ListSnapshots(tmp_path), lambda: NOW, away, index_locally)

    await served.start()
    assert await served.probe() == "which there are could not be read from the store yet"
    served = serving.DeploymentLists(ListSnapshots(tmp_path), lambda: NOW, storage, index_locally)
    await served.start()
    assert await served.probe() is None


async def test_lists_that_are_due_are_updated_and_a_refused_one_keeps_no_other_back(tmp_path: Path) -> None:
    stores, moment = open_memory_stores(RootKey(b"r" * 32), Shelves()), NOW
    storage = ListStorage(stores.records, stores.journal, stores.vault)
    asked: list[str] = []
    body = await asyncio.to_thread(published(tmp_path, 30).read_bytes)

    async def announce(_: ListChanged) -> None:
        pass

    async def serve() -> None:
        pass

    async def fetch(name: str, path: Path) -> None:
        asked.append(name)
        if name == "eu_fsf":
            raise LoadRefused("it answered with status 503")
        await asyncio.to_thread(path.write_bytes, body)

    publish = PublishList(
        ListSnapshots(tmp_path), storage, stores.journal.commit, lambda: moment, new_id, announce, serve
    )
    updates = ListUpdates(publish, fetch, timedelta(hours=12), lambda: True, lambda: moment)
    await updates.update_due()
    first = list(asked)
    moment += timedelta(hours=2)
    await updates.update_due()
    again = asked[len(first) :]
    moment += timedelta(hours=10)
    await updates.update_due()

    assert sorted(first) == sorted(ADDRESSES)
    assert again == ["eu_fsf"]
    assert sorted(asked[len(first) + 1 :]) == sorted(ADDRESSES)
    lists, _ = await storage.load(PLATFORM)
    assert {one.name for one in lists.lists} == ADDRESSES.keys() - {"eu_fsf"}
    assert {one.loaded_at for one in lists.lists} == {NOW + timedelta(hours=12)}


def test_nothing_is_downloaded_unasked_and_the_hours_must_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().lists_update is None
    taken_of = {"12h": True, "1h": True, "12": False, "0h": False, "1000h": False, "1d": False}
    for hours, taken in taken_of.items():
        monkeypatch.setenv("SERVICE_LISTS_UPDATE", hours)
        with nullcontext() if taken else pytest.raises(SettingsRefused, match="SERVICE_LISTS_UPDATE"):
            assert read_settings().lists_update == hours
