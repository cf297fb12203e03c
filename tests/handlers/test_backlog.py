"""What waits is counted by one process; the last counts stay while store or log are away."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.memory.stores import open_memory_stores
from app.observability.backlog import Backlog, DiskUsage
from schemas.ids import AuditEventId, derive_id
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.ports.records import Change
from streams.ports.stores import Stores
from streams.runtime.lag import COMMANDS, Waiting
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_decision_event, build_record
from tests.contracts.adapters import ROOT_KEY, Opened

NO_COMMANDS: Final = dict.fromkeys(COMMANDS, 0.0)


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """The stores of every adapter in turn."""
    return opened.stores


class Log:
    """Dead letters that are there and a command of flows that waits, until the broker goes away."""

    def __init__(self, letters: int, taken_at: datetime | None = None) -> None:
        self.waiting = Waiting({}, {Topic.FLOW_COMMANDS: taken_at} if taken_at else {}, letters)
        self.away = False

    async def measure(self) -> Waiting:
        """What waits."""
        if self.away:
            raise StoreUnavailable("no broker answers")
        return self.waiting


async def write_some(stores: Stores) -> None:
    """Commit audit rows of two tenants, and an event of one that nobody has sent."""
    event = build_decision_event(timestamp=NOW - timedelta(seconds=40))
    await stores.journal.commit(Change(ACME, (build_record(),), (build_audit_event(),), (event,)))
    theirs = build_audit_event(event_id=AuditEventId(derive_id("aud", "theirs")))
    await stores.journal.commit(Change(GLOBEX, (build_record(tenant_id=GLOBEX),), (theirs,)))


async def test_what_waits_is_counted_with_the_age_of_the_oldest_event(stores: Stores) -> None:
    await write_some(stores)
    log = Log(3, NOW - timedelta(seconds=9))
    backlog = Backlog(stores, log.measure, lambda: True, lambda: NOW)

    await backlog.measure()

    assert backlog.waiting == {"events": 1, "audit_chains": 2, "audit_rows": 2, "dead_letters": 3}
    assert backlog.oldest_s == {"events": 40.0}
    assert backlog.commands_oldest_s == {**NO_COMMANDS, Topic.FLOW_COMMANDS: 9.0}


async def test_nothing_that_waits_has_no_age(stores: Stores) -> None:
    backlog = Backlog(stores, Log(0).measure, lambda: True, lambda: NOW)

    await backlog.measure()

    assert backlog.waiting == {"events": 0, "audit_chains": 0, "audit_rows": 0, "dead_letters": 0}
    assert backlog.oldest_s == {"events": 0.0}
    assert backlog.commands_oldest_s == NO_COMMANDS


async def test_a_process_that_is_not_responsible_any_more_tells_nothing() -> None:
    turns = iter((True, False))
    backlog = Backlog(open_memory_stores(ROOT_KEY), Log(1).measure, lambda: next(turns), lambda: NOW)

    await backlog.measure()
    counted = dict(backlog.waiting)
    await backlog.measure()

    assert counted["dead_letters"] == 1
    assert (backlog.waiting, backlog.oldest_s, backlog.commands_oldest_s) == ({}, {}, {})


async def test_while_the_broker_is_away_the_last_counts_stay_and_the_failure_is_counted() -> None:
    log = Log(2)
    backlog = Backlog(open_memory_stores(ROOT_KEY), log.measure, lambda: True, lambda: NOW)
    await backlog.measure()
    log.away = True

    await backlog.measure()

    assert backlog.waiting["dead_letters"] == 2
    assert backlog.failures == 1


async def test_a_folder_that_is_made_later_has_the_room_of_the_one_above_it(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(bytes(1000))
    (tmp_path / f"{DATABASE_FILE}-wal").write_bytes(bytes(24))
    segment = tmp_path / "broker" / "topic" / "0.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(300))
    disks = DiskUsage({"store": tmp_path, "broker": tmp_path / "broker", "evidence": tmp_path / "blobs"})

    await disks.measure()

    assert disks.used == {"store": 1024, "broker": 300}
    assert set(disks.free) == {"store", "broker", "evidence"}
    assert min(disks.free.values()) > 0


async def test_a_clock_behind_the_brokers_makes_no_negative_age() -> None:
    later = Log(0, NOW + timedelta(seconds=5)).measure
    backlog = Backlog(open_memory_stores(ROOT_KEY), later, lambda: True, lambda: NOW)

    await backlog.measure()

    assert backlog.commands_oldest_s == NO_COMMANDS
