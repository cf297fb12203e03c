"""A backup taken of a service under load, rehearsed beside it, and put in its place."""

import asyncio
import json
import os
import random
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from PIL import Image
from typing_extensions import override

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.adapters.files.private_files import open_to_others
from app.composition.restore_marker import read_mark
from tests.chaos.load import Load, open_client
from tests.chaos.verdict import BOUND_S
from tests.documentation import marked
from tests.journeys.service import (
    encoded,
    environment,
    run_preloaded,
    running_service,
    small_request,
    start_preloaded,
    veristream_json,
)

ROOT = Path(__file__).parents[2]
BEFORE, AT_ONCE = 24, 2
ONE_CHILD = {"SERVICE_VISION_WORKERS": "1"}

INVARIANTS = ("doctor", "--invariants", "--due-after", "0", "--json")


class NoisyLoad(Load):
    """Clients whose documents are large enough for files of their own."""

    def __init__(self, client: ClientSession, url: str, key: str) -> None:
        super().__init__(client, url, key)
        self.answered_at: dict[int, datetime] = {}

    @override
    async def post(self, number: int) -> tuple[int, dict[str, Any]]:
        noise = Image.frombytes("RGB", (200, 160), random.Random(number).randbytes(200 * 160 * 3))
        png = BytesIO()
        noise.save(png, "PNG")
        body = small_request(self.subject(number))
        body["document"] = {"image_base64": encoded(png.getvalue())}
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": f"{self.name}-{number}"}
        async with self.client.post(f"{self.url}/v1/verifications", json=body, headers=headers) as answer:
            result = answer.status, await answer.json(content_type=None)
        self.answered_at.setdefault(number, datetime.now(UTC))
        return result


async def read(client: ClientSession, url: str, key: str, verification_id: str) -> tuple[int, Any]:
    """Read a verification: status and body."""
    headers = {"Authorization": f"Bearer {key}"}
    async with client.get(f"{url}/v1/verifications/{verification_id}", headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def violations(data_dir: Path, given: Mapping[str, str]) -> list[Any]:
    """What `veristream doctor --invariants` finds once nothing is under way any more."""
    deadline = asyncio.get_running_loop().time() + BOUND_S
    while True:
        status, out, err = await run_preloaded(data_dir, *INVARIANTS, given=given)
        assert status in {0, 1}, err
        report = json.loads(out)
        if not report["violations"] or asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(0.5)
    looked_at = {look["invariant"] for look in report["looks"] if look["looked_at"]}
    assert looked_at >= {"I1", "I3", "I4", "I5", "I6", "I7", "I8", "I10"}
    return list(report["violations"])


async def rehearse(folder: Path) -> None:
    """Run the documented block that takes a backup and restores it."""
    block = marked("backup").text
    assert "veristream restore" in block
    program = folder / ".venv" / "bin" / "veristream"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m app "$@"\n')
    program.chmod(0o700)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    pipe = asyncio.subprocess.PIPE
    shell = await asyncio.create_subprocess_exec(
        "/bin/sh", "-ec", block,
        cwd=folder, env={**environment(), "PYTHONPATH": path}, stdout=pipe, stderr=pipe,
    )  # fmt: skip
    out, err = await shell.communicate()
    assert shell.returncode == 0, out.decode() + err.decode()


async def test_a_backup_under_load_holds_every_answered_command_and_rests_until_it_is_activated(
    tmp_path: Path,
) -> None:
    live, copy, backup = tmp_path / "veristream-data", tmp_path / "rehearsal", tmp_path / "backups" / "monday"
    async with running_service(live, ONE_CHILD, preloaded=True) as service, open_client() as client:
        clients = NoisyLoad(client, service.url, service.test_key)
        enough = asyncio.Event()
        load = asyncio.create_task(clients.keep_posting(enough, AT_ONCE))
        async with clients.answered:
            await clients.answered.wait_for(lambda: len(clients.answers) >= BEFORE)
        rehearsal = asyncio.create_task(rehearse(tmp_path))
        while not rehearsal.done() and not backup.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
        enough.set()
        await asyncio.gather(load, rehearsal)
    given = {"SERVICE_ROOT_KEY_FILE": str(live / ROOT_KEY_FILE), **ONE_CHILD}
    mark = read_mark(copy)
    assert mark is not None
    before = [n for n, at in clients.answered_at.items() if at < mark.taken_at]
    assert BEFORE <= len(before) < clients.commands, "the backup was not taken under load"
    assert {clients.answers[n][0] for n in before} == {201}
    assert list(open_to_others(copy)) == []

    status, _, err = await run_preloaded(copy, "up", given=given)
    assert (status, "veristream activate" in err) == (2, True), err

    await veristream_json(copy, "activate", given=given)
    role = await start_preloaded(copy, "up", "--port", "0", given=given)
    try:
        async with open_client() as client:
            clients.client, clients.url = client, role.url
            for number in before:
                first = clients.answers[number][1]
                assert await read(client, role.url, clients.key, first["verification_id"]) == (200, first)
            await clients.settle_all(clients.begun - set(before))
            assert await violations(copy, given) == []
    finally:
        await role.stop()
