"""The fleets of the pipeline bench: the roles in one process or several, each sampled on demand."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import psutil
from aiohttp import ClientSession

from schemas.ids import TenantId
from tests.engines.cassandra_server import CassandraServer
from tests.engines.kafka_server import KafkaServer
from tests.journeys.people import sign_in
from tests.journeys.service import (
    START_S,
    environment,
    make_tenant,
    new_log,
    veristream,
    veristream_json,
)
from tests.tied import tied

ONE: Final = "one process"
SPLIT: Final = "front | worker"
TWO_WORKERS: Final = "front | 2 workers"
ENGINES: Final = "Kafka + Cassandra"

LAYOUTS: Final[Mapping[str, Sequence[str]]] = {
    ONE: ("up",),
    SPLIT: ("broker", "worker", "front"),
    TWO_WORKERS: ("broker", "worker", "worker", "front"),
    ENGINES: ("worker", "front"),
}
"""The roles of each layout in the order of their starts; those of `ENGINES` need Java and Maven."""

FLOWS: Final = "/v1/verification-flows"

_OPTIONS: Final = {"up": ("--port", "0"), "front": ("--port", "0"), "broker": (), "worker": ()}


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one process notified of a measurement."""

    process_s: float
    stages_s: Counter[str]
    places_s: Counter[str]
    counts: Counter[str]


@dataclass(slots=True)
class Member:
    """One process of a fleet."""

    name: str
    process: asyncio.subprocess.Process
    report: Path
    said: str

    def spent_s(self) -> tuple[float, float]:
        """Return the processor seconds of the process, and of its children included."""
        find: Any = psutil.Process  # untyped
        own = find(self.process.pid)
        return _cpu_s(own), sum(map(_cpu_s, own.children(recursive=True)))

    def begin(self) -> None:
        """Let it sample from now on."""
        self.process.send_signal(signal.SIGUSR1)

    async def end(self) -> Sampled:
        """Let it sample no more, and return what it saw."""
        self.process.send_signal(signal.SIGUSR2)
        async with asyncio.timeout(START_S):
            while not self.report.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        answer = json.loads(self.report.read_text())
        self.report.unlink()
        seen = (Counter(answer[name]) for name in ("stages_s", "places_s", "counts"))
        return Sampled(answer["process_s"], *seen)

    async def stop(self) -> None:
        """End it."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


def _cpu_s(process: Any) -> float:
    try:
        return float(sum(process.cpu_times()[:2]))
    except psutil.NoSuchProcess:
        return 0.0


@dataclass(slots=True)
class StagedFleet:
    """A service under load."""

    layout: str
    members: list[Member]
    url: str
    key: str
    flow_id: str
    """A published flow."""
    tenant_id: TenantId
    engines: Mapping[str, int] = field(default_factory=dict)
    """Process ids of Kafka and Cassandra."""

    def spent_s(self) -> dict[str, float]:
        """Return the processor seconds of each process, those of vision children included."""
        spent, children = {}, 0.0
        for member in self.members:
            spent[member.name], of_children = member.spent_s()
            children += of_children
        find: Any = psutil.Process  # untyped
        engines = {name: _cpu_s(find(pid)) for name, pid in self.engines.items()}
        return {**spent, "children": children, **engines}


async def _start(folder: Path, number: int, role: str, given: Mapping[str, str]) -> Member:
    report, log = folder / f"sampled-{number}.json", new_log(folder, role)
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *tied(), sys.executable, "-m", "tests.bench.staged", str(report), role, *_OPTIONS[role],
            "--data-dir", str(folder), stdout=asyncio.subprocess.PIPE, stderr=sink, env=environment(given),
        )  # fmt: skip
    assert process.stdout is not None
    member = Member(f"{role}-{number}", process, report, "")
    async with asyncio.timeout(START_S):
        line = (await process.stdout.readline()).decode()
    if "is ready" not in line:
        await member.stop()
        raise RuntimeError(log.read_text()[-3000:])
    member.said = line.partition(": ")[2].split()[0]
    return member


@asynccontextmanager
async def running_fleet(
    folder: Path, layout: str, settings: Mapping[str, str] | None = None
) -> AsyncIterator[StagedFleet]:
    """Run the roles of a layout with a tenant of its own, and with these settings."""
    async with AsyncExitStack() as stack:
        engines: dict[str, int] = {}
        given = {"SERVICE_CONNECTIONS_PER_ADDRESS": "5000", **(settings or {})}  # one address sends all
        if layout == ENGINES:
            engines, of_engines = await _engines(stack, folder)
            given |= of_engines
        members = []
        for number, role in enumerate(LAYOUTS[layout]):
            member = await _start(folder, number, role, given)
            stack.push_async_callback(member.stop)
            members.append(member)
        tenant_id, _, key = await make_tenant(folder, given=given)
        url = members[-1].said
        flow_id = await _publish_flow(folder, url, tenant_id, given)
        yield StagedFleet(layout, members, url, key, flow_id, TenantId(tenant_id), engines)


async def _publish_flow(folder: Path, url: str, tenant_id: str, given: Mapping[str, str]) -> str:
    async def command(*words: str) -> Any:
        return await veristream_json(folder, *words, given=given)

    async with ClientSession() as client:
        admin = await sign_in(client, url, command, tenant_id, "ADMIN", f"{tenant_id}@acme.example")
        documents = [{"country": "NG", "capabilities": ["NG_PASSPORT"]}]
        draft = {"name": "Bench", "flow_type": "DOCUMENT", "documents": documents}
        _, flow = await admin.ask("POST", FLOWS, json=draft)
        status, published = await admin.ask("POST", f"{FLOWS}/{flow['flow_id']}/publish")
    if status != HTTPStatus.OK:
        raise RuntimeError(published)
    return str(flow["flow_id"])


async def _engines(stack: AsyncExitStack, folder: Path) -> tuple[dict[str, int], dict[str, str]]:
    kafka, cassandra = KafkaServer(folder / "kafka"), CassandraServer(folder / "cassandra")
    await asyncio.gather(stack.enter_async_context(kafka), stack.enter_async_context(cassandra))
    given = {
        "SERVICE_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "SERVICE_CASSANDRA_CONTACT_POINTS": cassandra.host,
        "SERVICE_CASSANDRA_PORT": str(cassandra.port),
        "SERVICE_CASSANDRA_KEYSPACE": "bench",
    }
    status, _, err = await veristream(folder, "migrate", given=given)
    if status:
        raise RuntimeError(err)
    return {"kafka": kafka.pid, "cassandra": cassandra.pid}, given
