"""Bytes no client would send: the connection they came on ends, everybody else goes on."""

import asyncio
import gc
import random
import struct
from pathlib import Path

import pytest
from kio.index import load_request_schema
from structlog.typing import EventDict

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from tests.broker.builders import Talk, batch, one
from tests.broker.conftest import create_topic
from tests.broker.requests import fetch_request, produce_request
from tests.broker.test_versions import TABLE, smallest


async def alive(broker: Broker) -> bool:
    """Return whether another client is served."""
    async with await Talk.to(broker.port) as talk:
        return bool((await talk.ask(smallest(load_request_schema(18, 0)))).api_keys)


def head(key: int, version: int) -> bytes:
    """Begin a request without a client id."""
    return struct.pack(">hhih", key, version, 1, -1)


def framed(content: bytes) -> bytes:
    """Put a length before it."""
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 9) + b"x" * 9,
        struct.pack(">i", 64 * 1024 * 1024 + 1),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50,
        framed(head(999, 0)),
        framed(head(-1, -1)),
        framed(head(3, 99)),
        framed(head(0, 2) + b"\0" * 20),
        framed(head(3, 1) + b"\x7f\xff\xff\xff"),
        framed(head(3, 1) + b"\x00\x00\x00\x01\x00\x05ab"),
        framed(head(3, 12) + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        framed(struct.pack(">hhih", 3, 1, 1, 30000)),
        framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
    ],
)
async def test_bytes_that_are_no_request_close_the_connection_and_nothing_else(
    broker: Broker, sent: bytes
) -> None:
    async with await Talk.to(broker.port) as talk:
        talk.writer.write(sent)
        assert await talk.closed()
    assert await alive(broker)


async def test_random_frames_never_end_the_broker(broker: Broker, logs: list[EventDict]) -> None:
    chance = random.Random(20261121)
    keys = sorted(TABLE.by_version)
    for _ in range(300):
        key, version = chance.choice(keys)
        content = head(key, version) + chance.randbytes(chance.randrange(120))
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(framed(content))
        writer.write_eof()
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()

    assert await alive(broker)
    assert not [entry for entry in logs if entry["event"] == "broker.request_failed"]


async def test_changed_bytes_in_a_batch_are_refused_or_written_never_fatal(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    chance = random.Random(7)
    records = bytearray(batch([(b"k", b"v" * 20)] * 3))
    async with await Talk.to(broker.port) as talk:
        for _ in range(300):
            changed = bytearray(records)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            await talk.ask(produce_request("t", bytes(changed)))
        answer = await talk.ask(produce_request("t", bytes(records)))

    assert answer.responses[0].partition_responses[0].error_code.value == 0


async def test_a_request_in_single_bytes_is_served(broker: Broker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    for byte in framed(head(18, 0)):
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(60):
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        assert len(await reader.readexactly(length)) == length
    writer.close()


async def test_answers_come_in_the_order_of_the_requests(broker: Broker) -> None:
    """A long poll holds up what was sent after it on its own connection, even when that is ready first."""
    await create_topic(broker.address, "t")
    waiting = fetch_request("t", 0, wait_ms=30_000)
    versions = smallest(load_request_schema(18, 0))
    async with await Talk.to(broker.port) as talk, await Talk.to(broker.port) as other:
        talk.send(versions)
        talk.send(waiting)
        talk.send(versions)
        assert (await talk.receive(versions)).api_keys
        await other.ask(produce_request("t", one(b"v")))
        assert (await talk.receive(waiting)).responses[0].partitions[0].high_watermark == 1
        assert (await talk.receive(versions)).api_keys


async def test_a_client_that_leaves_during_a_long_poll_leaves_nothing_behind(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    partition = broker._topics.partition("t", 0)
    assert partition is not None
    async with await Talk.to(broker.port) as talk:
        talk.send(fetch_request("t", 0, wait_ms=60_000))
        async with asyncio.timeout(60):
            while not partition.watchers:  # noqa: ASYNC110 - the broker says this to nobody
                await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        while partition.watchers:  # noqa: ASYNC110 - the broker says this to nobody
            await asyncio.sleep(0.01)


async def test_no_answer_is_given_to_acks_0(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    versions = smallest(load_request_schema(18, 0))
    async with await Talk.to(broker.port) as talk:
        talk.send(produce_request("t", one(b"v"), acks=0))
        talk.send(produce_request("no topic", one(b"v"), acks=0))
        talk.send(versions)
        assert (await talk.receive(versions)).api_keys
        fetched = await talk.ask(fetch_request("t", 0))
    assert fetched.responses[0].partitions[0].high_watermark == 1


async def test_no_more_connections_are_held_than_allowed(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(tmp_path, max_connections=3)) as broker:
        talks = [await Talk.to(broker.port) for _ in range(3)]
        for talk in talks:
            await talk.ask(smallest(load_request_schema(18, 0)))
        async with await Talk.to(broker.port) as fourth:
            assert await fourth.closed()
        talks[0].writer.close()
        async with asyncio.timeout(60):
            while len(broker._listener.connections if broker._listener else ()) == 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await alive(broker)
        for talk in talks:
            talk.writer.close()


async def test_half_sent_requests_at_once_use_only_so_much_memory(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(tmp_path, max_buffered_bytes=1_000_000)) as broker:
        talks = [await Talk.to(broker.port) for _ in range(10)]
        for talk in talks:
            talk.writer.write(struct.pack(">i", 50_000_000) + b"x" * 300_000)
        closed = [asyncio.create_task(talk.closed()) for talk in talks]
        done, _ = await asyncio.wait(closed, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert done
        assert broker._listener is not None
        assert broker._listener.buffered <= 1_300_000
        for task in closed:
            task.cancel()
        for talk in talks:
            talk.writer.close()
        assert await alive(broker)


async def test_a_client_that_does_not_read_is_not_answered_without_end(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        for _ in range(8):
            await talk.ask(produce_request("t", one(b"x" * 900_000)))
        for _ in range(200):
            talk.send(fetch_request("t", 0, max_bytes=8 << 20))
        assert await alive(broker)
        listener = broker._listener
        assert listener is not None
        buffered = max(connection._transport.get_write_buffer_size() for connection in listener.connections)

    assert buffered < 3 * (8 << 20)
    gc.collect()


async def test_an_unknown_fetch_session_is_answered_so(broker: Broker) -> None:
    async with await Talk.to(broker.port) as talk:
        answer = await talk.ask(fetch_request("t", 0, session_id=5, session_epoch=1))
    assert answer.error_code.value == 70


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (1, 0), (2, 1), (10**15, 1)])
async def test_an_offset_outside_the_log_is_out_of_range(broker: Broker, offset: int, code: int) -> None:
    await create_topic(broker.address, "t")
    async with await Talk.to(broker.port) as talk:
        await talk.ask(produce_request("t", one(b"v")))
        answer = await talk.ask(fetch_request("t", offset))
    assert answer.responses[0].partitions[0].error_code.value == code
