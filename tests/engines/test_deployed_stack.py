"""The services of docker-compose.yml verify, with its variables and files: all of it but the containers."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import ClientSession

from deploy.cassandra_roles import Deployment, make_roles
from tests.engines.deployed import DeployedCassandra, DeployedKafka, environment_of
from tests.engines.kafka_server import Lock
from tests.journeys.service import Role, make_tenant, small_request, veristream, veristream_json

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the word in the file, not an address to bind
SECRETS = ("root_key", "platform_operator_token", "kafka_password", "cassandra_password")


def moved(
    service: str, folder: Path, kafka: DeployedKafka, cassandra: DeployedCassandra, **more: str
) -> Mapping[str, str]:
    """The variables of a service with the places of this test instead of those in containers."""
    places = {
        "kafka:9092": kafka.locked_bootstrap,
        "cassandra": cassandra.host,
        "9042": str(cassandra.port),
        "dc1": "datacenter1",  # the snitch of this test names it so
        EVERYWHERE: "127.0.0.1",
        "8080": "0",
        "8081": "0",
        "/var/lib/veristream/blobs": str(folder / "blobs"),
        **{f"/run/secrets/{name}": str(folder / name) for name in SECRETS},
    }
    told = environment_of(service)
    return {**{name: places.get(value, value) for name, value in told.items() if "URL" not in name}, **more}


async def test_migrate_front_and_worker_verify_under_the_variables_of_the_compose_file(
    tmp_path: Path,
) -> None:
    for name in SECRETS:
        (tmp_path / name).write_text(secrets.token_hex(32) + "\n")
    (tmp_path / "blobs").mkdir()
    kafka_password, ours = ((tmp_path / name).read_text().strip() for name in SECRETS[2:])
    kafka = DeployedKafka(tmp_path / "kafka", lock=Lock("veristream", kafka_password))
    cassandra = DeployedCassandra(tmp_path / "cassandra")
    async with AsyncExitStack() as stack:
        await asyncio.gather(stack.enter_async_context(kafka), stack.enter_async_context(cassandra))
        wanted = Deployment((cassandra.host,), cassandra.port, "veristream", ours, "administrator's")
        await asyncio.to_thread(make_roles, wanted)

        migrated, _, err = await veristream(
            tmp_path / "migrate", "migrate", given=moved("migrate", tmp_path, kafka, cassandra)
        )
        assert migrated == 0, err
        given = moved("worker", tmp_path, kafka, cassandra)
        worker = await Role.start(tmp_path / "worker", "worker", given=given)
        stack.push_async_callback(worker.stop)
        given = moved("front", tmp_path, kafka, cassandra)
        front = await Role.start(tmp_path / "front", "front", given=given)
        stack.push_async_callback(front.stop)
        tenant, _, key = await make_tenant(tmp_path / "front", given=given)
        health = worker.said.partition("(")[2].partition(")")[0]
        async with ClientSession(headers={"Authorization": f"Bearer {key}"}) as client:
            async with client.post(
                f"{front.url}/v1/verifications", json=small_request("sim:approved@compose")
            ) as answer:
                decided = await answer.json()
            async with (
                client.get(f"{front.url}/readyz") as at_front,
                client.get(f"{health}/readyz") as at_worker,
            ):
                ready = {
                    **(await at_front.json())["dependencies"],
                    **(await at_worker.json())["dependencies"],
                }
        found = await veristream_json(tmp_path / "front", "audit", "verify", "--tenant", tenant, given=given)

    assert (answer.status, decided["status"]) == (201, "APPROVED")
    assert {"store", "broker", "agents"} <= set(ready)
    assert {told["status"] for told in ready.values()} == {"up"}
    assert [chain["ok"] for chain in found["chains"]] == [True]
    assert not (tmp_path / "front" / "root.key").exists()
