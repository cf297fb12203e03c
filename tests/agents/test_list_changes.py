"""Notices of changed lists over the broker: each reaches every process that reads, and no forged one does."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from typer.testing import CliRunner

from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.cli.main import app
from app.composition.stores import record_keys_of
from app.kafka.list_changes import ListChanges, announcing
from app.settings import Settings
from schemas.ids import PLATFORM, TenantId
from schemas.tenant_lists import ListChanged
from schemas.topics import Topic
from streams.runtime.authentication import RecordKeys
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter, Outgoing
from tests.agents.support import KEYS, open_broker
from tests.builders import ACME
from tests.handlers.test_list_loading import published
from tests.journeys.service import begin_deployment

MOST_WAIT_S = 60.0


class Heard:
    """The tenants whose lists a process was notified to read again."""

    def __init__(self) -> None:
        self.tenants: asyncio.Queue[TenantId] = asyncio.Queue()

    def __call__(self, tenant_id: TenantId) -> None:
        """Note one."""
        self.tenants.put_nowait(tenant_id)

    async def next(self) -> TenantId:
        """Return the next one."""
        async with asyncio.timeout(MOST_WAIT_S):
            return await self.tenants.get()


def notice(tenant_id: TenantId = ACME) -> ListChanged:
    """That a list of a tenant changed."""
    return ListChanged(tenant_id=tenant_id, list="watched", version="2026-11-23#00000000")


async def test_a_notice_reaches_its_writer_at_once_and_every_reader_by_the_log(
    broker: Broker, writer: LogWriter
) -> None:
    here, one, two = Heard(), Heard(), Heard()
    access, announce = LogAccess(broker.address), announcing(writer, here)
    await announce(notice(TenantId("ten_before")))
    async with ListChanges(access, KEYS, one), ListChanges(access, KEYS, two):
        assert [await one.next(), await two.next()] == [PLATFORM, PLATFORM]
        await announce(notice())
        assert [await one.next(), await two.next()] == [ACME, ACME]

    assert [await here.next() for _ in range(2)] == ["ten_before", ACME]
    assert (one.tenants.qsize(), two.tenants.qsize()) == (0, 0)


async def test_forged_and_unreadable_notices_are_counted_and_not_believed(
    broker: Broker, writer: LogWriter
) -> None:
    heard, access = Heard(), LogAccess(broker.address)
    others = RecordKeys(RootKey(b"s" * 32).derive)
    async with ListChanges(access, KEYS, heard) as changes, LogWriter(access, others) as forger:
        assert await heard.next() == PLATFORM
        await announcing(forger, lambda _: None)(notice(TenantId("ten_forged")))
        await writer.write(Outgoing(Topic.LIST_CHANGES, b"x", b"{", partition=0))
        await announcing(writer, lambda _: None)(notice())

        assert await heard.next() == ACME
        assert changes.refused == 2


async def test_a_reader_hears_again_when_the_broker_is_back(tmp_path: Path) -> None:
    heard = Heard()
    async with AsyncExitStack() as reading:
        async with open_broker(tmp_path / "broker") as broker:
            access = LogAccess(broker.address)
            port = int(broker.address.rpartition(":")[2])
            await reading.enter_async_context(ListChanges(access, KEYS, heard))
            assert await heard.next() == PLATFORM
        async with open_broker(tmp_path / "broker", port=port), LogWriter(access, KEYS) as writer:
            await announcing(writer, lambda _: None)(notice())
            while await heard.next() != ACME:  # it may begin anew, and then looks at all
                pass


async def test_the_command_that_loads_a_list_tells_the_processes_that_run(
    broker: Broker, tmp_path: Path
) -> None:
    begin_deployment(tmp_path)
    environment = {"SERVICE_KAFKA_BOOTSTRAP": broker.address}
    settings = Settings(data_dir=tmp_path, kafka_bootstrap=broker.address)
    heard, keys = Heard(), await record_keys_of(settings)
    async with ListChanges(LogAccess(broker.address), keys, heard):
        assert await heard.next() == PLATFORM
        command = ["lists", "load", "un", str(published(tmp_path, 5)), "--data-dir", str(tmp_path)]
        loaded = await asyncio.to_thread(CliRunner().invoke, app, command, env=environment)

        assert loaded.exit_code == 0, loaded.output
        assert await heard.next() == PLATFORM
