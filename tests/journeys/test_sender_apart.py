"""What sends webhooks is a process of its own, as docker-compose.yml has it: the rest has no way out."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.demo.receiver import Heard, open_receiver
from tests.journeys.service import START_S, Role, run_preloaded, small_request, start_preloaded
from tests.journeys.several import a_test_key

SECRET = "a secret of the tests, as text"  # noqa: S105 - of an endpoint that dies with its test
ALLOWED = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}


def command_of(service: str) -> list[str]:
    """What docker-compose.yml starts a service with."""
    read: Any = yaml.safe_load  # untyped
    stack = read((Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8"))
    return [str(word) for word in stack["services"][service]["command"]]


async def start(stack: AsyncExitStack, data_dir: Path, *arguments: str, **given: str) -> Role:
    """Start one role; it ends with the stack."""
    role = await start_preloaded(data_dir, *arguments, given={**ALLOWED, **given})
    stack.push_async_callback(role.stop)
    return role


async def test_a_decision_of_one_worker_is_posted_by_the_other_which_has_no_root_key(tmp_path: Path) -> None:
    arrived: asyncio.Queue[Heard] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        await start(stack, tmp_path, "broker")
        key = await a_test_key(tmp_path)
        front, _ = await asyncio.gather(
            start(stack, tmp_path, "front", "--port", "0"),
            start(stack, tmp_path, *command_of("worker")),
        )
        _, printed, _ = await run_preloaded(tmp_path, "sender-key")
        (tmp_path / ROOT_KEY_FILE).rename(tmp_path / "kept elsewhere")
        await start(stack, tmp_path, *command_of("sender"), SERVICE_SENDER_KEY=printed.strip())
        url = await stack.enter_async_context(open_receiver(SECRET.encode(), arrived.put_nowait))
        client = await stack.enter_async_context(
            ClientSession(front.url, headers={"Authorization": f"Bearer {key}"})
        )
        body = {"url": url, "secret": SECRET, "event_types": ["verification.approved"]}
        async with client.post("/v1/webhooks/endpoints", json=body) as registered:
            assert registered.status == 201, await registered.text()
        async with client.post("/v1/verifications", json=small_request("sim:approved")) as answer:
            verification = await answer.json()
        async with asyncio.timeout(START_S):
            heard = await arrived.get()

    assert (heard.type, heard.fault) == ("verification.approved", None)
    assert heard.data["verification_id"] == verification["verification_id"]
    assert not (tmp_path / ROOT_KEY_FILE).exists()
