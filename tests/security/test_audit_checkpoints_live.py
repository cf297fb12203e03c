"""Point 9, S57: a running worker writes signed checkpoints to the log and beside it, without being asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.adapters.files.data_dir import CHECKPOINTS_FOLDER
from app.composition.stores import Deployment, open_deployment
from app.composition.worker import open_worker
from app.doctor.audit_chains import AuditReport, verify_audit
from app.kafka.cluster import open_broker, prepare_topics
from app.settings import Settings
from schemas.ids import PLATFORM, AuditEventId, derive_id
from streams.audit.commit import CommitAndPublish
from streams.ports.records import Change
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from tests.agents.support import until
from tests.builders import ACME, build_audit_event, build_record
from tests.contracts.adapters import SqliteBreaker


@asynccontextmanager
async def worker_of_audit(
    settings: Settings, deployment: Deployment, access: LogAccess
) -> AsyncIterator[CommitAndPublish]:
    """Run the agent that seals, and yield what commits a change and says so to the log."""
    async with (
        LogWriter(access, deployment.record_keys) as writer,
        KafkaEventPublisher(writer, deployment.stores) as announcer,
        open_worker(settings, deployment, writer, access, streams=("audit",)),
    ):
        yield CommitAndPublish(deployment.stores.journal, announcer)


def faults_of(report: AuditReport) -> list[tuple[str, str, int | None]]:
    """What is wrong with the chains: tenant, fault, first bad place."""
    return [(c.tenant_id, c.fault.value, c.position) for c in report.chains if c.fault is not None]


async def test_s57_a_worker_writes_checkpoints_at_its_start_and_at_its_stop(tmp_path: Path) -> None:
    """With the file gone the topic has them still; with the broker gone the file has them."""
    folder = tmp_path / "data"
    settings, files = Settings(data_dir=folder), folder / CHECKPOINTS_FOLDER

    async def started() -> bool:
        return any(files.glob("*.jsonl"))

    async def sealed() -> bool:
        heads = await deployment.stores.audit_log.heads()
        return {(PLATFORM, 1), (ACME, 3)} == {(head.tenant_id, head.position) for head in heads}

    async with open_deployment(settings) as deployment, open_broker(settings) as access:
        await prepare_topics(access)
        async with worker_of_audit(settings, deployment, access) as commit:
            await until(started)
            for n in range(3):
                row = build_audit_event(event_id=AuditEventId(derive_id("aud", str(n))))
                await commit(Change(ACME, (build_record(id=f"ver_{n}"),), (row,)))
            await until(sealed)
        running = await verify_audit(settings)
        (written,) = files.iterdir()
        lines = written.read_bytes()
        written.unlink()
        without_file = await verify_audit(settings)
        written.write_bytes(lines)
        run = SqliteBreaker(folder).run
        for table in ("audit", "audit_chain", "audit_heads", "audit_waiting"):
            run(f"DELETE FROM {table}")  # noqa: S608 - names of the test
        cut = await verify_audit(settings)
    offline = await verify_audit(settings)

    assert (running.ok, without_file.ok) == (True, True)
    assert running.checkpoints.copies == {"file": "2 checkpoints", "topic": "2 checkpoints"}
    assert without_file.checkpoints.copies == {"file": "0 checkpoints", "topic": "2 checkpoints"}
    assert [faults_of(report) for report in (cut, offline)] == [[(PLATFORM, "cut", 1), (ACME, "cut", 1)]] * 2
    assert offline.checkpoints.copies["topic"].startswith("not reachable")
