"""What the benches load: one process on embedded engines, or front and worker on Kafka and Cassandra."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from app.kafka.cluster import access_of
from app.settings import read_settings
from streams.runtime.kafka_client_config import LogAccess
from tests.engines.cassandra_server import CassandraServer
from tests.engines.kafka_server import KafkaServer
from tests.journeys.service import (
    METRICS,
    Role,
    environment,
    make_tenant,
    running_service,
    small_request,
    veristream,
)

MARK = "(number)"

CONNECTIONS = 64
"""Kept open, as a proxy in front keeps its own: one more for each burst, never closed by aiohttp's pool as
long as requests go round all of them, would be the load's growth and not the service's."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A service under load."""

    name: str
    url: str
    test_key: str
    data_dir: Path
    access: LogAccess
    ours: Mapping[str, int]
    """Process ids of the service by role."""
    metrics: tuple[str, ...]
    """Addresses of the metrics of those."""
    engines: Mapping[str, int] = field(default_factory=dict)
    """Process ids of Kafka and Cassandra."""
    given: Mapping[str, str] = field(default_factory=dict)
    """`SERVICE_*` variables that lead to the engines."""

    async def command(self, *arguments: str) -> tuple[int, Any]:
        """Run a command of the service however long it takes; exit status and what it printed as JSON."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", *arguments, "--json", "--data-dir", str(self.data_dir),
            stdout=asyncio.subprocess.PIPE, env=environment(self.given),
        )  # fmt: skip
        out, _ = await process.communicate()
        return process.returncode or 0, json.loads(out or b"null")


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Fleet]:
    """`veristream up`: broker, store, agents and front in one process."""
    async with running_service(folder, METRICS) as service:
        yield Fleet(
            name="embedded",
            url=service.url,
            test_key=service.test_key,
            data_dir=folder,
            access=access_of(read_settings(data_dir=folder)),
            ours={"service": service.role.process.pid},
            metrics=(f"{service.url}/metrics",),
        )


@asynccontextmanager
async def on_engines(folder: Path) -> AsyncIterator[Fleet]:
    """A front and a worker on a Kafka and a Cassandra of their own."""
    async with AsyncExitStack() as stack:
        kafka, cassandra = KafkaServer(folder / "kafka"), CassandraServer(folder / "cassandra")
        await asyncio.gather(stack.enter_async_context(kafka), stack.enter_async_context(cassandra))
        given = {
            "SERVICE_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "SERVICE_CASSANDRA_CONTACT_POINTS": cassandra.host,
            "SERVICE_CASSANDRA_PORT": str(cassandra.port),
            "SERVICE_CASSANDRA_KEYSPACE": "bench",
            **METRICS,
        }
        data_dir = folder / "service"
        status, _, err = await veristream(data_dir, "migrate", given=given)
        assert status == 0, err
        worker = await Role.start(data_dir, "worker", "--health-port", "0", given=given)
        stack.push_async_callback(worker.stop)
        front = await Role.start(data_dir, "front", "--port", "0", given=given)
        stack.push_async_callback(front.stop)
        _, _, test_key = await make_tenant(data_dir, given=given)
        health = worker.said.partition("(")[2].partition(")")[0]
        yield Fleet(
            name="kafka + cassandra",
            url=front.url,
            test_key=test_key,
            data_dir=data_dir,
            access=LogAccess(kafka.bootstrap),
            ours={"front": front.process.pid, "worker": worker.process.pid},
            metrics=(f"{front.url}/metrics", f"{health}/metrics"),
            engines={"kafka": kafka.pid, "cassandra": cassandra.pid},
            given=given,
        )


@asynccontextmanager
async def posting(fleet: Fleet, run: str) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
    """Yield what posts the small sandbox verification of a number and returns the status."""
    template = json.dumps(small_request(f"sim:approved@{run}-{MARK}"))
    before, _, after = template.partition(MARK)
    headers = {"Authorization": f"Bearer {fleet.test_key}", "Content-Type": "application/json"}
    target = f"{fleet.url}/v1/verifications"
    timeout = ClientTimeout(total=60)
    pool = TCPConnector(limit=CONNECTIONS)
    async with ClientSession(connector=pool, timeout=timeout, headers=headers) as client:

        async def post(number: int) -> int:
            async with client.post(target, data=f"{before}{number}{after}".encode()) as answer:
                await answer.read()
                return answer.status

        yield post
