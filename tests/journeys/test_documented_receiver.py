"""The receiver and the test vectors of the webhooks page, run as they are printed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession
from standardwebhooks import Webhook

from app.demo.receiver import fault_of
from streams.webhooks.signing import secret_bytes, signatures, timestamp
from tests.documentation import marked
from tests.engines.jvm import free_ports
from tests.journeys.service import START_S, Service, environment, small_request

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' published example


@asynccontextmanager
async def running(folder: Path, port: int) -> AsyncIterator[asyncio.StreamReader]:
    """Run the documented receiver; yields what it prints."""
    (folder / "receiver.py").write_text(marked("receiver").text, encoding="utf-8")
    given = environment({"WEBHOOK_SECRET": SECRET, "PORT": str(port)})
    pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(folder / "receiver.py"), stdout=pipe, stderr=quiet, env=given
    )
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def deliver(port: int, event: dict[str, Any], secrets: Sequence[str] = (SECRET,)) -> int:
    """Post an event to the receiver as the service does, once it listens; returns its answer."""
    at, body = datetime.now(UTC), json.dumps(event).encode()
    headers = {
        "webhook-id": event["id"],
        "webhook-timestamp": timestamp(at),
        "webhook-signature": signatures(event["id"], at, body, [secret_bytes(text) for text in secrets]),
    }
    async with asyncio.timeout(START_S), ClientSession() as client:
        while True:
            try:
                async with client.post(f"http://127.0.0.1:{port}/", data=body, headers=headers) as answer:
                    return answer.status
            except ClientConnectorError:
                await asyncio.sleep(0.05)  # it says nothing when it is ready


def event(id_: str, sequence: int, verification_id: str = "ver_1") -> dict[str, Any]:
    """An event as the service tells it."""
    data = {"verification_id": verification_id, "status": "APPROVED"}
    return {"id": id_, "type": "verification.approved", "sequence": sequence, "data": data}


def test_the_receiver_is_as_short_as_it_claims() -> None:
    lines = marked("receiver").text.splitlines()

    assert len([line for line in lines if line.strip()]) <= 20


async def test_the_receiver_acts_once_on_what_is_new_and_signed(tmp_path: Path) -> None:
    sent = [
        (event("evt_1", 1), SECRET),
        (event("evt_1", 1), SECRET),
        (event("evt_3", 3), SECRET),
        (event("evt_2", 2), SECRET),
        (event("evt_4", 4), "whsec_" + "A" * 32),
        (event("evt_5", 1, "ver_2"), SECRET),
    ]
    (port,) = free_ports(1)
    async with running(tmp_path, port) as printed:
        answers = [await deliver(port, one, [secret]) for one, secret in sent]
        lines = [(await printed.readline()).decode() for _ in range(3)]

    assert answers == [204, 204, 204, 204, 400, 204]
    assert ["ver_1" in lines[0], "ver_1" in lines[1], "ver_2" in lines[2]] == [True, True, True]


@pytest.mark.asyncio(loop_scope="session")
async def test_the_receiver_acts_on_what_a_running_service_delivers(service: Service, tmp_path: Path) -> None:
    (port,), key = free_ports(1), {"Authorization": f"Bearer {service.test_key}"}
    body = {"url": f"http://127.0.0.1:{port}/", "secret": SECRET, "event_types": ["verification.completed"]}
    async with running(tmp_path, port) as printed:
        assert await deliver(port, event("evt_1", 1)) == 204  # it listens
        await printed.readline()
        registered = service.client.post(f"{service.url}/v1/webhooks/endpoints", json=body, headers=key)
        async with registered as answer:
            endpoint_id = (await answer.json())["endpoint_id"]
        status, verification, _ = await service.post(small_request("sim:approved"), key=service.test_key)
        async with asyncio.timeout(START_S):
            line = (await printed.readline()).decode()
    await service.client.delete(f"{service.url}/v1/webhooks/endpoints/{endpoint_id}", headers=key)

    assert (status, line.split()[0]) == (201, "verification.completed")
    assert verification["verification_id"] in line


@pytest.mark.parametrize("vector", json.loads(marked("vectors").text), ids=lambda vector: vector["id"])
def test_a_published_signature_is_what_we_send_and_what_the_library_expects(vector: dict[str, Any]) -> None:
    at = datetime.fromtimestamp(int(vector["timestamp"]), UTC)
    secrets = [secret_bytes(text) for text in vector["secrets"]]
    by_library = [Webhook(secret).sign(vector["id"], at, vector["body"]) for secret in secrets]
    headers = {f"webhook-{name}": vector[name] for name in ("id", "timestamp", "signature")}

    assert signatures(vector["id"], at, vector["body"].encode(), secrets) == vector["signature"]
    assert " ".join(by_library) == vector["signature"]
    assert [fault_of(secret, headers, vector["body"].encode(), any_time=True) for secret in secrets] == [
        None for _ in secrets
    ]
