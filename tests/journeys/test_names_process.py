"""The names process of a running service is killed: ERROR until it is back, then the right answers again."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psutil as untyped

from tests.journeys.service import METRICS, SHOW_METRICS, START_S, Service, readiness, running_service

psutil: Final[Any] = untyped

LISTED: Final = "Zafar Qadoori"
NOBODY: Final = "Ada Okafor"


@asynccontextmanager
async def service_with_a_list(data_dir: Any) -> AsyncIterator[Service]:
    """A service whose tenant has a list of one name."""
    async with asyncio.timeout(2 * START_S), running_service(data_dir, METRICS, preloaded=True) as service:
        entry = json.dumps({"entity_id": "1", "kind": "PERSON", "names": [LISTED]})
        async with service.client.put(
            f"{service.url}/v1/lists/payees?kind=NAMES&check=SANCTIONS",
            data=entry,
            headers={
                "Authorization": f"Bearer {service.live_key}",
                "Content-Type": "application/x-ndjson",
                "Idempotency-Key": "payees",
            },
        ) as answer:
            assert answer.status in {200, 201}, await answer.text()
        yield service


async def results(service: Service) -> list[str]:
    """Screen the listed name and another one with the live key."""
    async with service.client.post(
        f"{service.url}/v1/name-screenings",
        json={"queries": [{"kind": "PERSON", "name": name} for name in (LISTED, NOBODY)]},
        headers={"Authorization": f"Bearer {service.live_key}", "Idempotency-Key": os.urandom(8).hex()},
    ) as answer:
        body = await answer.json()
        assert answer.status == 201, body
    return [one["result"] for one in body["results"]]


async def right_after(service: Service) -> list[list[str]]:
    """Screen until both are answered rightly; return the other answers."""
    others = []
    while (found := await results(service)) != ["POSSIBLE", "CLEAR"]:
        others.append(found)
        await asyncio.sleep(0.1)
    return others


def names_processes(service: Service) -> list[Any]:
    """The names processes of the service."""
    found = []
    for one in psutil.Process(service.role.process.pid).children():
        with suppress(psutil.Error):  # it has just ended
            if "app.names.server" in one.cmdline():
                found.append(one)
    return found


async def test_a_killed_names_process_is_replaced_and_meanwhile_nobody_is_clear(tmp_path: Any) -> None:
    async with service_with_a_list(tmp_path) as service:
        first = await right_after(service)
        (killed,) = names_processes(service)

        os.kill(killed.pid, signal.SIGKILL)
        then = await right_after(service)

        (another,) = names_processes(service)
        assert {listed for listed, _ in (*first, *then)} <= {"ERROR", "POSSIBLE"}
        assert {nobody for _, nobody in (*first, *then)} <= {"ERROR", "CLEAR"}
        assert another.pid != killed.pid
        assert (await readiness(service.client, service.url))["dependencies"]["names"] == {"status": "up"}
        async with service.client.get(f"{service.url}/metrics", headers=SHOW_METRICS) as answer:
            shown = await answer.text()
        assert re.search(r'veristream_names_process_ends_total\{cause="ended"\} [1-9]', shown)
        assert re.search(r'veristream_names_process_memory_bytes\{process="names"\} [1-9]', shown)
        assert LISTED not in service.role.log.read_text(encoding="utf-8")

    assert not another.is_running() or another.status() == psutil.STATUS_ZOMBIE
