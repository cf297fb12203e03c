"""A worker in a process of its own tells truly whether it works; a container engine asks it nothing else."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from tests.journeys.service import Role, readiness, run_preloaded, start_preloaded


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Role]:
    """The embedded broker of the test's folder."""
    role = await start_preloaded(tmp_path, "broker")
    yield role
    await role.stop()


async def test_a_worker_is_ready_by_its_own_word_and_not_once_its_broker_is_gone(
    broker: Role, tmp_path: Path
) -> None:
    worker = await start_preloaded(tmp_path, "worker", "--streams", "audit", "--health-port", "0")
    url = worker.said.partition("(")[2].partition(")")[0]
    try:
        async with ClientSession() as client:
            first = await readiness(client, url)
            await broker.kill()
            second = await readiness(client, url, 503)
    finally:
        await worker.kill()

    assert {name: one["status"] for name, one in first["dependencies"].items()} == {
        "store": "up", "broker": "up", "tasks": "up", "disk": "up", "agents": "up",
    }  # fmt: skip
    assert second["dependencies"]["broker"]["status"] == "down"


async def test_a_taken_health_port_refuses_the_start_with_the_mend(broker: Role, tmp_path: Path) -> None:
    assert broker.process.returncode is None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, _, err = await run_preloaded(tmp_path, "worker", "--streams", "audit", "--health-port", port)

    assert status == 2
    assert "--health-port" in err
    assert "Traceback" not in err
