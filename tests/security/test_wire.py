"""No frame ends the embedded broker, and none makes it hold much memory."""

import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from crc32c import crc32c
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.types import GroupId

from app.broker.coordinator import MAX_GROUP_BYTES
from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from tests.broker.builders import Talk, one
from tests.broker.conftest import create_topic
from tests.broker.requests import milliseconds, produce_request
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


def joining(group: str, metadata: bytes) -> JoinGroupRequest:
    """Return the first join of a member that is admitted at once."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=metadata)
    return JoinGroupRequest(
        group_id=GroupId(group),
        session_timeout=milliseconds(60_000),
        rebalance_timeout=milliseconds(60_000),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )


async def test_subscriptions_of_many_groups_are_not_kept_without_end(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(tmp_path, group_initial_delay_s=0)) as broker:
        async with await Talk.to(broker.port) as talk:
            errors = [
                (await talk.ask(joining(f"g{number}", bytes(1_900_000)))).error_code for number in range(40)
            ]
        buffered = sum(group.held_bytes for group in broker._groups._groups.values())

    assert errors[0] is ErrorCode.none
    assert errors[-1] is ErrorCode.group_max_size_reached
    assert buffered <= MAX_GROUP_BYTES


async def test_a_group_cannot_be_named_with_thousands_of_letters(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(tmp_path)) as broker, await Talk.to(broker.port) as talk:
        answer = await talk.ask(joining("g" * 300, b""))

    assert answer.error_code is ErrorCode.invalid_group_id


@pytest.mark.parametrize("length", [3_000_000, 2**31 - 1])
async def test_a_question_of_megabytes_is_refused_before_it_is_sent(tmp_path: Path, length: int) -> None:
    async with Broker(BrokerSettings(tmp_path)) as broker, await Talk.to(broker.port) as talk:
        talk.writer.write(struct.pack(">ihhi", length, 3, 1, 1))
        assert await talk.closed()


async def test_a_batch_too_small_for_the_records_it_announces_is_refused(tmp_path: Path) -> None:
    records = bytearray(one(b"v"))
    struct.pack_into(">i", records, 23, 2**31 - 2)
    struct.pack_into(">i", records, 57, 2**31 - 1)
    struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
    async with Broker(BrokerSettings(tmp_path)) as broker, await Talk.to(broker.port) as talk:
        await create_topic(broker.address, "t")
        answer = await talk.ask(produce_request("t", bytes(records)))

    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.invalid_record
