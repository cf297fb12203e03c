"""No command is lost while workers stop, die and come back with a backlog in the log."""

import asyncio
from pathlib import Path

from app.broker.server import Broker
from app.kafka.request_reply import Gateway
from schemas.ids import AuditEventId, TenantId
from schemas.topics import Topic
from streams.runtime.event_publisher import seal_record
from streams.runtime.producer import LogWriter
from tests.agents.support import WorkerProcess, ask, ended, names, submission, until, until_settled

COMMANDS = 420
REQUESTED_ALL = 260


def stored(store: Path) -> set[str]:
    """What the workers decided."""
    return {path.name for path in store.iterdir() if path.is_file()}


async def progress(store: Path, count: int) -> None:
    """Wait until that many commands were carried out."""

    async def reached() -> bool:
        return len(stored(store)) >= count

    await until(reached)


async def test_every_command_is_answered_once_while_workers_stop_die_and_join(
    broker: Broker, gateway: Gateway, store: Path
) -> None:
    """Duplicates are answered as replays, and the group ends with nothing uncommitted."""
    expected = names("loss", COMMANDS)

    async with ended([]) as workers, asyncio.TaskGroup() as asking:
        answers = [asking.create_task(ask(gateway, name)) for name in expected]
        for count, how in ((100, "stop"), (200, "kill"), (300, "join"), (400, "stop")):
            worker = await WorkerProcess.start("verification", broker.address, store)
            workers.append(worker)
            await worker.ready()
            await progress(store, count)
            if how == "stop":
                assert await worker.terminate() == 0
            elif how == "kill":
                await worker.kill()
        await asyncio.gather(*answers)
        await until_settled(broker.address)

    ids = {answer.result().verification_id for answer in answers}
    assert ids == {submission(name).verification_id for name in expected}
    assert stored(store) == set(expected)


async def test_an_agent_without_a_table_loses_nothing_either(
    broker: Broker, writer: LogWriter, store: Path
) -> None:
    """Without tables Faust assigns partitions and seeks in another way."""
    expected = [AuditEventId(name) for name in names("row", REQUESTED_ALL)]
    tenants = [TenantId(f"ten_{number % 40}") for number in range(REQUESTED_ALL)]
    await writer.write(*(seal_record(t, (e,)) for t, e in zip(tenants, expected, strict=True)))

    async with ended([]) as workers:
        for count, how in ((60, "kill"), (120, "join"), (180, "stop"), (240, "join")):
            worker = await WorkerProcess.start("audit", broker.address, store)
            workers.append(worker)
            if how != "join":
                await worker.ready()
            await progress(store, count)
            if how == "kill":
                await worker.kill()
            elif how == "stop":
                assert await worker.terminate() == 0
        await until_settled(broker.address, Topic.AUDIT)

    assert stored(store) == set(expected)
