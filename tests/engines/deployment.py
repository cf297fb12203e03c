"""A veristream over a real Kafka and a real Cassandra: its parts as on machines of their own."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout

from tests.engines.cassandra_server import CassandraServer
from tests.engines.kafka_server import KafkaServer
from tests.journeys.service import Role, Service, make_tenant, run_preloaded, start_preloaded, veristream_json


@dataclass(slots=True)
class Deployment:
    """Front and worker as processes with a folder each; they share a root key, evidence and two engines."""

    folder: Path
    kafka: KafkaServer
    cassandra: CassandraServer
    service: Service
    worker: Role

    @property
    def given(self) -> dict[str, str]:
        """The settings of every process."""
        return settings(self.folder, self.kafka, self.cassandra)

    async def command(self, *arguments: str) -> Any:
        """Run a command of an operator who sits at a third machine."""
        return await veristream_json(self.folder / "operator", *arguments, given=self.given)

    async def verify_audit(self) -> tuple[int, dict[str, Any]]:
        """Walk the audit chains: exit status and the reports by tenant."""
        status, out, _ = await run_preloaded(
            self.folder / "operator", "audit", "verify", "--json", given=self.given
        )
        return status, {report["tenant_id"]: report for report in json.loads(out)["chains"]}

    async def stop_roles(self) -> None:
        """Stop front and worker as an operator does."""
        await asyncio.gather(self.service.role.stop(), self.worker.stop())

    async def start_roles(self) -> None:
        """Start front and worker."""
        self.service.role, self.worker = await start_roles(self.folder, self.given)
        self.service.url = self.service.role.url

    async def restart_everything(self) -> None:
        """Kill every process, engines too, and start all of them again."""
        await asyncio.gather(self.service.role.kill(), self.worker.kill())
        await asyncio.gather(self.kafka.restart(), self.cassandra.restart())
        await self.start_roles()

    async def aclose(self) -> None:
        """End front and worker."""
        await asyncio.gather(self.service.role.kill(), self.worker.kill())


def settings(folder: Path, kafka: KafkaServer, cassandra: CassandraServer) -> dict[str, str]:
    """What every process of a deployment is given."""
    return {
        "SERVICE_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "SERVICE_CASSANDRA_CONTACT_POINTS": cassandra.contact_point,
        "SERVICE_BLOBS_DIR": str(folder / "evidence"),
        "SERVICE_ROOT_KEY": hashlib.sha256(b"a root key of the tests").hexdigest(),
    }


async def start_roles(folder: Path, given: dict[str, str]) -> tuple[Role, Role]:
    """Start a front and a worker."""
    front = await start_preloaded(folder / "front", "front", "--port", "0", given=given)
    try:
        return front, await start_preloaded(folder / "worker", "worker", given=given)
    except BaseException:
        await front.kill()
        raise


@asynccontextmanager
async def open_deployment(folder: Path, *, managed: bool = False) -> AsyncIterator[Deployment]:
    """Start the engines, migrate, make a tenant, start front and worker; end all of it."""
    async with AsyncExitStack() as stack:
        kafka = KafkaServer(folder / "kafka")
        cassandra = CassandraServer(folder / "cassandra", managed=managed)
        await asyncio.gather(stack.enter_async_context(kafka), stack.enter_async_context(cassandra))
        given = settings(folder, kafka, cassandra)
        await veristream_json(folder / "operator", "migrate", given=given)
        client = await stack.enter_async_context(ClientSession(timeout=ClientTimeout(total=300)))
        tenant = await make_tenant(folder / "operator", given=given)
        front, worker = await start_roles(folder, given)
        service = Service(folder / "front", front.url, *tenant, client, front)
        deployment = Deployment(folder, kafka, cassandra, service, worker)
        try:
            yield deployment
        finally:
            await deployment.aclose()
