"""S48: no address takes all connections, idle ones make room, and who does not read its answer is cut off."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

import pytest
from aiohttp import web

from app.http.connections import LEAST_READ_BYTES, ConnectionLimits, Connections
from tests.http.support import Front, open_front
from tests.http.test_wire import GET, HOST, UNFINISHED, exchange, until_busy

ASKED = GET + HOST + b"\r\n"
LAST = GET + HOST + b"Connection: close\r\n\r\n"

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(front: Front, count: int, address: str = "127.0.0.1") -> AsyncIterator[list[Pipe]]:
    """Open connections from an address of the loopback, one after the other."""
    pipes = [
        await asyncio.open_connection("127.0.0.1", front.port, local_addr=(address, 0)) for _ in range(count)
    ]
    try:
        yield pipes
    finally:
        for _, writer in pipes:
            writer.close()


async def is_open(pipe: Pipe) -> bool:
    """Return whether the front answers on a connection."""
    reader, writer = pipe
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        writer.write(ASKED)
        await reader.readuntil(b"}")
        return True
    return False


async def test_s48_idle_connections_of_one_address_end_service_for_nobody() -> None:
    async with (
        open_front(max_connections=30, connections_per_address=10) as front,
        connected(front, 40, "127.0.0.2"),
        connected(front, 3, "127.0.0.3") as others,
    ):
        answers = [await is_open(pipe) for pipe in others]
        here = await exchange(front, LAST)

    assert (answers, here.startswith(b"HTTP/1.1 200 ")) == ([True] * 3, True)


async def test_s48_a_newcomer_over_the_cap_of_its_address_takes_the_place_of_its_idlest() -> None:
    async with open_front(connections_per_address=2) as front, connected(front, 2) as first:
        assert await is_open(first[0])  # so the other one is idle for longer
        async with connected(front, 1) as newcomer:
            answers = [await is_open(pipe) for pipe in (*newcomer, first[0], first[1])]

    assert answers == [True, True, False]


async def test_s48_an_address_whose_connections_are_all_busy_is_refused_one_more() -> None:
    async with open_front(connections_per_address=2) as front, connected(front, 2) as busy:
        for _, writer in busy:
            writer.write(UNFINISHED)
        await until_busy(front, 2)
        refused = await exchange(front, LAST)
        async with connected(front, 1, "127.0.0.2") as other:
            served = await is_open(other[0])

    assert (refused.startswith(b"HTTP/1.1 503 "), b"Retry-After: " in refused, served) == (True, True, True)


async def test_s48_when_all_places_are_taken_the_address_with_the_most_loses_an_idle_one() -> None:
    async with (
        open_front(max_connections=5) as front,
        connected(front, 1, "127.0.0.3") as few,
        connected(front, 4, "127.0.0.2") as many,
        connected(front, 1) as newcomer,
    ):
        served = [await is_open(pipe) for pipe in (*newcomer, *few)]
        left = [await is_open(pipe) for pipe in many]

    assert (served, left) == ([True, True], [False, True, True, True])


async def test_s48_a_trusted_proxy_has_no_cap_of_its_own() -> None:
    trusted = (ip_network("127.0.0.2/32"),)
    async with (
        open_front(connections_per_address=2, trusted_proxies=trusted) as front,
        connected(front, 6, "127.0.0.2") as pipes,
    ):
        answers = [await is_open(pipe) for pipe in pipes]

    assert answers == [True] * 6


async def test_s48_two_hundred_half_sent_requests_leave_room_for_others() -> None:
    async with open_front(max_connections=64) as front:
        pipes = []
        for _ in range(200):
            pipes.append(await asyncio.open_connection("127.0.0.1", front.port))
            pipes[-1][1].write(GET + b"X-Slow: ")
        async with connected(front, 1, "127.0.0.2") as other:
            served = await is_open(other[0])
        for _, writer in pipes:
            writer.close()

    assert served


BIG = 16 * 1024 * 1024
"""More than the system takes for a client that does not read."""


async def all_at_once(_: web.Request) -> web.StreamResponse:
    """Answer as evidence images are answered."""
    return web.Response(body=b"x" * BIG)


async def in_pieces(request: web.Request) -> web.StreamResponse:
    """Answer as the export of the audit log is answered."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(BIG // 65536):
        await response.write(b"x" * 65536)
    return response


@asynccontextmanager
async def big_front(write_timeout_s: float) -> AsyncIterator[Front]:
    """A front with big answers; its routes come before the front's own, whose tree is frozen."""
    async with open_front(write_timeout_s=write_timeout_s) as front:
        server = front.runner.server
        assert server is not None

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            kind = in_pieces if request.path == "/pieces" else all_at_once
            return await kind(request)  # type: ignore[arg-type]  # it uses what every request has

        server._routes = answer  # type: ignore[attr-defined]
        yield front


def unread_connection(front: Front, path: str) -> socket.socket:
    """Ask for a big answer and read nothing of it."""
    asking = socket.create_connection(("127.0.0.1", front.port))
    asking.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    asking.setblocking(False)
    return asking


def dropped(front: Front) -> float | None:
    """How many connections the front cut off."""
    return front.ports.registry.get_sample_value("veristream_http_dropped_connections_total")


async def until_none(front: Front) -> None:
    """Return once the front has no connection left."""
    server = front.runner.server
    assert server is not None
    async with asyncio.timeout(60):
        while server.connections or len(server._open):  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/whole", "/pieces"])
async def test_s48_a_client_that_does_not_read_is_cut_off(path: str) -> None:
    async with big_front(write_timeout_s=0.5) as front:
        with unread_connection(front, path):
            async with asyncio.timeout(60):
                while not dropped(front):  # noqa: ASYNC110 - a metric
                    await asyncio.sleep(0.02)
            await until_none(front)

        assert dropped(front) == 1


@pytest.mark.parametrize("path", ["/whole", "/pieces"])
async def test_s48_a_client_that_reads_slowly_but_steadily_is_answered_in_full(path: str) -> None:
    received = 0
    async with big_front(write_timeout_s=2.0) as front:
        with unread_connection(front, path) as asking:
            loop = asyncio.get_running_loop()
            while piece := await loop.sock_recv(asking, 65536):
                received += len(piece)
                await asyncio.sleep(0.016)  # 256 pieces and more: over twice the timeout

    assert received > BIG


class Pretend:
    """A connection of which only what counts is there."""

    def __init__(self, unsent_bytes: int = 0) -> None:
        self.idle, self.idle_until, self.unsent_bytes, self.dropped = True, 0.0, unsent_bytes, False

    def drop(self) -> None:
        """Note it."""
        self.dropped = True


def test_s48_an_ipv6_address_counts_by_its_network() -> None:
    connections = Connections(ConnectionLimits(total=10, per_address=1))
    one, two, other = Pretend(), Pretend(), Pretend()
    admitted = [
        connections.admit(one, "2001:db8:0:1::a"),
        connections.admit(two, "2001:db8:0:1:ffff::b"),
        connections.admit(other, "2001:db8:0:2::a"),
    ]

    assert (admitted, one.dropped, two.dropped, len(connections)) == ([True] * 3, True, False, 2)


def test_s48_an_ipv4_address_is_the_same_within_ipv6() -> None:
    connections = Connections(ConnectionLimits(total=10, per_address=1))
    one, two = Pretend(), Pretend()
    assert connections.admit(one, "192.0.2.1")
    assert connections.admit(two, "::ffff:192.0.2.1")

    assert (one.dropped, len(connections)) == (True, 1)


def test_s48_a_byte_now_and_then_does_not_keep_an_answer_open() -> None:
    connections = Connections(ConnectionLimits(total=10, per_address=10, write_timeout_s=30))
    trickling = Pretend(unsent_bytes=100_000)
    connections.admit(trickling, "192.0.2.1")
    for now in range(0, 30, 5):
        assert connections.drop_unread(now) == 0
        trickling.unsent_bytes -= 1

    assert (connections.drop_unread(30), trickling.dropped, len(connections)) == (1, True, 0)


def test_s48_what_is_read_in_time_keeps_an_answer_open() -> None:
    connections = Connections(ConnectionLimits(total=10, per_address=10, write_timeout_s=30))
    reading = Pretend(unsent_bytes=1_000_000)
    connections.admit(reading, "192.0.2.1")
    for now in range(0, 600, 20):
        assert connections.drop_unread(now) == 0
        reading.unsent_bytes -= LEAST_READ_BYTES
