"""The process that holds the names: same answers, and never CLEAR while it is killed, stuck or restarting."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pytest

from app.names import child, messages
from app.names.process import NamesProcess, open_names
from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import EntityKind, Identifier, NameEntry
from schemas.problems import StoreUnavailable
from schemas.screenings import CheckAnswer, CheckResultKind, ErrorCause, ScreeningTarget
from streams.lists.listed_names import (
    EntriesInvalid,
    ListedNames,
    NamesUnavailable,
    index_locally,
    index_nothing,
    read_names,
)
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.screening import ListScreening
from streams.names.matching import Thresholds
from streams.ports.screening import ScreeningOptions

BOUND_S: Final = 120
NOW: Final = datetime(2026, 3, 9, tzinfo=UTC)
ACME: Final = TenantId("ten_acme")
ENTRIES: Final = tuple(
    NameEntry(
        entity_id=str(number),
        kind=EntityKind.PERSON,
        names=(f"Zafar Qadoori {word}",),
        birth_dates=("1970",),
        identifiers=(Identifier(type="passport", value=f"A{number}"),),
        wallets=("0x" + "1" * 40,) if word == "Benu" else (),
    )
    for number, word in enumerate(("Alif", "Benu", "Gimel", "Dalo"))
)
LISTED: Final = ScreeningTarget(kind=EntityKind.PERSON, name="Zafar Qadoori Benu", birth_date="1970-05-05")
NOBODY: Final = ScreeningTarget(kind=EntityKind.PERSON, name="Ada Okafor")


async def entries() -> AsyncIterator[Sequence[bytes]]:
    """The entries in two parts."""
    yield [entry.to_bytes() for entry in ENTRIES[:3]]
    yield [entry.to_bytes() + b"\n" for entry in ENTRIES[3:]]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions wait for a machine that is busy with something else."""
    monkeypatch.setattr(child, "PATIENCE_S", BOUND_S)


class Stage:
    """A list of the deployment that a names process has the index of."""

    def __init__(self, names: NamesProcess, listed: ListedNames) -> None:
        self.names = names
        loaded = LoadedList("un", None, CheckKind.SANCTIONS, "1", date(2026, 3, 9), NOW, listed)
        self.lists = LoadedLists([loaded])
        self.screening = ListScreening(self.lists, lambda: NOW)

    async def ask(self, target: ScreeningTarget) -> CheckAnswer:
        """Screen a target."""
        return await self.screening(
            CheckKind.SANCTIONS, target, ScreeningOptions(), tenant_id=ACME, livemode=True
        )

    async def is_right(self) -> bool:
        """Whether both targets are answered rightly; any other answer is an ERROR that says why."""
        found, nobody = await asyncio.gather(self.ask(LISTED), self.ask(NOBODY))
        kinds = (found.result, nobody.result)
        for answer in (found, nobody):
            unasked = ErrorCause.CHECK_UNAVAILABLE in answer.causes
            assert (answer.result is CheckResultKind.ERROR) == unasked == (not answer.list_versions)
        assert found.result is not CheckResultKind.CLEAR
        return kinds == (CheckResultKind.MATCH, CheckResultKind.CLEAR)

    async def ask_until(self, happened: Callable[[], Awaitable[bool]]) -> None:
        """Ask both again and again until something happened."""
        while not await happened():
            await self.is_right()

    @property
    def pid(self) -> int:
        """The names process that runs."""
        assert self.names.pid is not None
        return self.names.pid


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """A list that is served."""
    async with asyncio.timeout(BOUND_S), open_names() as names:
        yield Stage(names, await names(entries))


@pytest.mark.usefixtures("unhurried")
async def test_it_finds_what_an_index_in_this_process_finds() -> None:
    by_number = ScreeningTarget(
        kind=EntityKind.PERSON, identifiers=(Identifier(type="passport", value="a 2"),)
    )
    async with asyncio.timeout(BOUND_S), open_names() as names:
        there, with_wallets = await read_names(entries, names)
        here, _ = await read_names(entries, index_locally)
        for target in (LISTED, NOBODY, by_number):
            assert await there.search(target, "un", Thresholds()) == await here.search(
                target, "un", Thresholds()
            )
        digests = [await there.entry_digest(entity_id) for entity_id in ("3", "nobody")]
        assert len(there) == len(here) == len(ENTRIES)

    assert [entry.entity_id for entry in with_wallets] == ["1"]
    assert digests == [ENTRIES[3].digest(), None]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_process_that_is_killed_or_stopped_is_replaced_and_meanwhile_nobody_is_clear(
    fault: signal.Signals,
) -> None:
    async with stage() as on:
        assert await on.is_right()
        first = on.pid

        os.kill(first, fault)
        await on.ask_until(replaced_of(on, first))
        await on.ask_until(on.is_right)

        assert on.names.ends["ended" if fault is signal.SIGKILL else "stuck"] > 0
        assert on.names.questions["unavailable"] > 0 or fault is signal.SIGKILL
        await wait_until_gone(first)


async def test_a_process_that_is_away_is_named_and_a_disposition_waits_for_it() -> None:
    async with stage() as on:
        os.kill(on.pid, signal.SIGSTOP)

        with pytest.raises(StoreUnavailable):
            await on.screening.entry_digest(ACME, "un", "3", livemode=True)
        late = await asyncio.gather(*(on.ask(LISTED) for _ in range(200)))

        assert {answer.result for answer in late} == {CheckResultKind.ERROR}
        assert await on.names.probe() is not None


async def test_a_version_that_nobody_uses_any_more_is_freed_and_not_built_again() -> None:
    built = 0

    async def counted() -> AsyncIterator[Sequence[bytes]]:
        nonlocal built
        built += 1
        async for part in entries():
            yield part

    async with stage() as on:
        unused = await on.names(counted)
        del unused
        os.kill(on.pid, signal.SIGKILL)
        await on.ask_until(on.is_right)

    assert built == 1


@pytest.mark.usefixtures("unhurried")
async def test_what_is_no_entry_or_too_long_is_refused_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of(line: bytes) -> Callable[[], AsyncIterator[Sequence[bytes]]]:
        async def lines() -> AsyncIterator[Sequence[bytes]]:
            yield [ENTRIES[0].to_bytes(), line]

        return lines

    async with stage() as on:
        with pytest.raises(EntriesInvalid):
            await on.names(of(b'{"entity_id": "Zafar"}'))
        monkeypatch.setattr(messages, "MESSAGE_BYTES", 1_000)
        with pytest.raises(EntriesInvalid):
            await on.names(of(b" " * 2_000 + ENTRIES[1].to_bytes()))
        long = ScreeningTarget(kind=EntityKind.PERSON, name="Zafar " * 300)
        assert (await on.ask(long)).result is CheckResultKind.ERROR

        assert await on.is_right()


async def test_a_deployment_without_lists_has_no_process() -> None:
    async with open_names() as names:
        assert await names.probe() is None
        assert names.pid is None
    with pytest.raises(NamesUnavailable):
        await (await index_nothing(entries)).search(LISTED, "un", Thresholds())


async def test_it_ends_with_its_worker_however_that_ends() -> None:
    pid = 0
    async with asyncio.timeout(BOUND_S):
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.handlers.names_worker", stdout=PIPE, start_new_session=True
        )
        assert worker.stdout is not None
        try:
            async for line in worker.stdout:
                if line.startswith(b"pid "):
                    pid = int(line.removeprefix(b"pid "))
                    break
        finally:
            worker.kill()
            await worker.wait()
        await wait_until_gone(pid)


def replaced_of(on: Stage, first: int) -> Callable[[], Awaitable[bool]]:
    """Tell whether another process than the first one runs."""

    async def replaced() -> bool:
        return on.names.pid not in {None, first}

    return replaced


async def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended."""
    while runs(pid):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)


def runs(pid: int) -> bool:
    """Tell whether a process has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
