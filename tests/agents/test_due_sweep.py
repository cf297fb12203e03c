"""A sweep sees what is due, soon after it is, and what earlier rounds left behind some rounds later."""

from datetime import UTC, datetime, timedelta

import pytest
from typing_extensions import override

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.ids import PLATFORM
from schemas.problems import StoreUnavailable
from streams.ports.records import Change, Record, RecordKind, due_index
from streams.ports.stores import Stores
from streams.runtime.due_sweep import LONG_ROUND, DueSweep
from streams.runtime.producer import LogWriter, Outgoing

START = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)


class Watching(DueSweep):
    """Notes the watches it is shown; with `fails` it cannot read."""

    kind = RecordKind.SESSION_WATCH
    fails = False

    def __init__(self, stores: Stores, writer: LogWriter) -> None:
        super().__init__(stores.records, writer, lambda: self.at)
        self.at = START
        self.stores = stores
        self.seen: list[str] = []

    @override
    async def command_of(self, watch: Record, now: datetime) -> Outgoing | None:
        if self.fails:
            raise StoreUnavailable("away")
        self.seen.append(watch.id)
        return None

    async def add(self, name: str, ago: timedelta) -> None:
        """Store a watch that was due some time ago."""
        due = START - ago
        record = Record(PLATFORM, RecordKind.SESSION_WATCH, name, b"{}", due, indexes=(due_index(due),))
        await self.stores.journal.commit(Change(PLATFORM, (record,)))

    async def round(self) -> list[str]:
        """Sweep once, and return what was shown."""
        self.seen.clear()
        await self.sweep()
        return sorted(self.seen)


async def watching(writer: LogWriter) -> Watching:
    """A sweep over three watches: of now, of a day and of ten days ago."""
    sweep = Watching(open_memory_stores(RootKey(b"r" * 32)), writer)
    for name, hours in (("now", 0), ("hour", 1), ("day", 24), ("week", 240)):
        await sweep.add(name, timedelta(hours=hours))
    return sweep


async def test_the_first_round_looks_back_for_weeks_and_the_next_ones_for_an_hour(writer: LogWriter) -> None:
    sweep = await watching(writer)
    rounds = [await sweep.round() for _ in range(LONG_ROUND + 2)]

    assert rounds[0] == ["day", "hour", "now", "week"]
    assert rounds[LONG_ROUND] == ["day", "hour", "now"]
    assert [one for number, one in enumerate(rounds) if number % LONG_ROUND] == [["hour", "now"]] * LONG_ROUND


async def test_what_became_due_while_rounds_failed_or_the_machine_slept_is_seen(writer: LogWriter) -> None:
    sweep = await watching(writer)
    await sweep.round()
    sweep.at = START + timedelta(days=3)
    await sweep.add("asleep", -timedelta(days=2))
    sweep.fails = True
    with pytest.raises(StoreUnavailable):
        await sweep.sweep()
    sweep.fails = False

    assert await sweep.round() == ["asleep", "hour", "now"]
