"""No frame ends the embedded broker, and none makes it hold much memory."""

import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from kio.index import load_request_schema

from tests.broker.builders import Talk
from tests.broker.runner import BrokerProcess
from tests.broker.test_versions import smallest
from tests.security.hostile_frames import MEMORY_BYTES

ROOT = Path(__file__).parents[2]


def frame(key: int, version: int, body: bytes, length: int = 58) -> bytes:
    """Return a request of `length` bytes with its own length before it."""
    content = struct.pack(">hhih", key, version, 1, -1) + body
    content += bytes(length - 4 - len(content))
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    "hostile",
    [
        frame(3, 1, struct.pack(">i", 2**31 - 1)),
        frame(3, 12, b"\0" + b"\xff\xff\xff\xff\x07"),
        frame(0, 8, struct.pack(">hhii", -1, -1, 1, 2**31 - 1)),
        frame(10, 4, b"\0\0" + b"\xff\xff\xff\xff\x07"),
        frame(18, 3, b"\0" + b"\xff\xff\xff\xff\x07"),
    ],
    ids=["metadata", "flexible", "produce", "coordinators", "versions"],
)
async def test_a_frame_that_announces_billions_of_items_ends_only_its_own_connection(
    tmp_path: Path, hostile: bytes
) -> None:
    async with BrokerProcess(tmp_path / "broker") as process:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        port = int(process.address.rpartition(":")[2])
        async with await Talk.to(port) as talk:
            talk.writer.write(hostile)
            assert await talk.closed()
        async with await Talk.to(port) as talk:
            assert (await talk.ask(smallest(load_request_schema(18, 0)))).api_keys


def test_no_length_at_any_place_of_any_request_ends_the_process() -> None:
    command = [sys.executable, "-m", "tests.security.hostile_frames"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603

    assert ended.returncode == 0, ended.stderr[-2000:]
    assert int(ended.stdout) > 10_000
