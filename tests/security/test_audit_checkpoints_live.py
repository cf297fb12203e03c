"""Point 9, S57: a running worker writes signed checkpoints to the log and beside it, without being asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.adapters.layout import CHECKPOINTS_FOLDER
from app.house import House, open_house
from app.kafka_log import open_broker, prepare_topics
from app.settings import Settings
from app.wiring import open_worker
from schemas.ids import AuditEventId, derive_id
from streams.audit.committing import CommitAndTell
from streams.ports import Change
from streams.runtime.access import LogAccess
from streams.runtime.announcer import KafkaAnnouncer
from streams.runtime.writer import LogWriter
from tests.builders import ACME, build_audit_event, build_record
from tests.contracts.adapters import SqliteBreaker
from tests.journeys.service import veristream

PATIENCE_S = 30.0


@asynccontextmanager
async def worker_of_audit(
    settings: Settings, house: House, access: LogAccess
) -> AsyncIterator[CommitAndTell]:
    """Run the agent that seals, and yield what commits a change and says so to the log."""
    async with (
        LogWriter(access) as writer,
        KafkaAnnouncer(writer, house.stores.journal) as announcer,
        open_worker(settings, house, writer, access, streams=("audit",)),
    ):
        yield CommitAndTell(house.stores.journal, announcer)


async def verify(folder: Path) -> tuple[int, Any]:
    """Run the command."""
    status, out, err = await veristream(folder, "audit", "verify", "--json")
    assert out, err
    return status, json.loads(out)


async def test_s57_a_worker_writes_checkpoints_at_its_start_and_at_its_stop(tmp_path: Path) -> None:
    """With the file gone the topic has them still; with the broker gone the file has them."""
    folder = tmp_path / "data"
    settings = Settings(data_dir=folder)
    async with open_house(settings) as house, open_broker(settings) as access:
        await prepare_topics(access)
        async with worker_of_audit(settings, house, access) as commit:
            async with asyncio.timeout(PATIENCE_S):
                while not (written := list((folder / CHECKPOINTS_FOLDER).glob("*.jsonl"))):
                    await asyncio.sleep(0.1)
                for n in range(3):
                    row = build_audit_event(event_id=AuditEventId(derive_id("aud", str(n))))
                    await commit(Change(ACME, (build_record(id=f"ver_{n}"),), (row,)))
                while not (await house.stores.audit_log.heads())[-1:]:
                    await asyncio.sleep(0.1)
                while await house.stores.audit_log.unsealed(ACME, 1):
                    await asyncio.sleep(0.1)
        running = await verify(folder)
        (head,) = await house.stores.audit_log.heads()
        lines = written[0].read_bytes()
        written[0].unlink()
        without_file = await verify(folder)
        written[0].write_bytes(lines)
        run = SqliteBreaker(folder).run
        for table in ("audit", "audit_chain", "audit_heads", "audit_waiting"):
            run(f"DELETE FROM {table}")  # noqa: S608 - names of the test
        cut = await verify(folder)
    offline = await verify(folder)

    assert head.position == 3
    assert [(status, found["ok"]) for status, found in (running, without_file)] == [(0, True)] * 2
    assert running[1]["checkpoints"]["copies"] == {"file": "2 checkpoints", "topic": "2 checkpoints"}
    assert without_file[1]["checkpoints"]["copies"] == {"file": "0 checkpoints", "topic": "2 checkpoints"}
    for status, found in (cut, offline):
        bad = [(one["tenant_id"], one["fault"], one["position"]) for one in found["chains"] if not one["ok"]]
        assert (status, bad) == (1, [(ACME, "cut", 1)])
    assert offline[1]["checkpoints"]["copies"]["topic"].startswith("not reachable")
