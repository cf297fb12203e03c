"""Requests to Cassandra go on the driver's connections directly, and the driver's own way after that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import pytest
from cassandra import cluster

from app.adapters.cassandra import requests
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.driver import LIGHTWEIGHT, PLAIN, SERIAL
from app.adapters.cassandra.pooled_connections import Page, PooledConnections
from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from schemas.problems import StoreUnavailable
from tests.agents.support import until
from tests.chaos.proxy import Proxy, Way
from tests.contracts.cassandra_adapter import DATACENTER, KEYSPACE, session_of

READ: Final = Statement("SELECT value FROM settings WHERE name = ?")
INSERT: Final = Statement("INSERT INTO settings (name, value) VALUES (?, ?)")
SET: Final = Statement("UPDATE settings SET value = ? WHERE name = ? IF value = ?")
DELETE: Final = Statement("DELETE FROM settings WHERE name = ?")
NAME: Final = "directly"


class DriversWay:
    """Counts what is sent by the driver's own way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        plain: Any = cluster.Session.execute_async

        def execute_async(session: Any, *arguments: Any, **options: Any) -> Any:
            self.taken += 1
            return plain(session, *arguments, **options)

        monkeypatch.setattr(cluster.Session, "execute_async", execute_async)


@pytest.fixture
def drivers_way(monkeypatch: pytest.MonkeyPatch) -> DriversWay:
    """What takes the driver's own way from now on."""
    return DriversWay(monkeypatch)


@pytest.fixture
async def proxy(contracts_keyspace: Address) -> AsyncIterator[Proxy]:
    """A proxy before Cassandra."""
    host, port = contracts_keyspace.contact_points[0]
    async with Proxy(host, port) as opened:
        yield opened


@pytest.fixture
async def session(proxy: Proxy, contracts_keyspace: Address) -> AsyncIterator[Session]:
    """A session through the proxy; what the tests ask is prepared."""
    behind = Address([("127.0.0.1", proxy.port)], DATACENTER, port=proxy.port)
    async with open_session(behind, KEYSPACE) as opened:
        await ask_everything(opened, b"0")
        yield opened
    await session_of(contracts_keyspace).execute(DELETE, (NAME,))


async def ask_everything(session: Session, value: bytes) -> list[object]:
    """Write a value by a batch and by a transaction, and return what is read then."""
    write: Write = (INSERT, (NAME, value))
    await session.batch([write, write])
    changed = await session.lwt(Attempt((SET, (value * 2, NAME, value)), (READ, (NAME,)), {}))
    lost = await session.lwt(Attempt((SET, (value, NAME, value)), (READ, (NAME,)), {}))
    read = await session.execute(READ, (NAME,))
    serial = await session.execute(READ, (NAME,), serial=True)
    paged = [rows async for rows in session.pages(READ, (NAME,))]
    return [changed.applied, lost.applied, lost.rows, read, serial, paged]


def answers(value: bytes) -> list[object]:
    """What `ask_everything` returns."""
    rows = [(value * 2,)]
    return [True, False, [{"value": value * 2}], rows, rows, [rows]]


def connection_of(session: Session) -> Any:
    """Return the driver's connection to the only node."""
    (pool,) = session.driver.get_pools()
    return pool._connection


async def test_what_is_answered_at_once_never_takes_the_drivers_way(
    session: Session, drivers_way: DriversWay
) -> None:
    connection = connection_of(session)
    streams = len(connection.request_ids), connection.highest_request_id

    assert await ask_everything(session, b"1") == answers(b"1")
    assert drivers_way.taken == 0
    assert connection.in_flight == 0
    assert (len(connection.request_ids), connection.highest_request_id) == streams


async def test_pages_follow_each_other(session: Session, drivers_way: DriversWay) -> None:
    writes: list[Write] = [(INSERT, (f"{NAME} {n}", b"%d" % n)) for n in range(9)]
    names = Statement("SELECT name FROM settings")
    for write in writes:
        await session.execute(*write)

    pages = [rows async for rows in session.pages(names, fetch_size=4)]

    assert {f"{NAME} {n}" for n in range(9)} <= {name for rows in pages for (name,) in rows}
    assert (max(map(len, pages)), drivers_way.taken) == (4, 0)
    for write in writes:
        await session.execute(DELETE, write[1][:1])


@pytest.mark.parametrize("asked", ["a read", "a batch", "a transaction"])
async def test_a_statement_that_the_node_forgot_is_prepared_again(
    session: Session, drivers_way: DriversWay, asked: str
) -> None:
    await session.define("CREATE TABLE forgotten (id int PRIMARY KEY, name text)")
    read = Statement("SELECT id FROM forgotten WHERE id = ?")
    insert = Statement("INSERT INTO forgotten (id, name) VALUES (?, ?)")
    once = Statement("INSERT INTO forgotten (id, name) VALUES (?, ?) IF NOT EXISTS")
    try:
        await session.execute(read, (1,))
        await session.batch([(insert, (1, "n")), (insert, (2, "n"))])
        await session.lwt(Attempt((once, (3, "n")), (read, (3,)), {}))
        await session.define("ALTER TABLE forgotten ADD age int")
        drivers_way.taken = 0
        if asked == "a read":
            assert await session.execute(read, (1,)) == [(1,)]
        elif asked == "a batch":
            await session.batch([(insert, (4, "n")), (insert, (5, "n"))])
        else:
            assert (await session.lwt(Attempt((once, (6, "n")), (read, (6,)), {}))).applied

        assert drivers_way.taken == 1
        assert connection_of(session).in_flight == 0
    finally:
        await session.define("DROP TABLE forgotten")


async def test_a_request_is_given_up_in_time_and_its_late_answer_is_nobody_elses(
    session: Session, proxy: Proxy, drivers_way: DriversWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.requests.turns = turns = asyncio.Semaphore(2)
    monkeypatch.setattr(requests, "REQUEST_S", 0.2)
    monkeypatch.setattr(session.driver.get_execution_profile(PLAIN), "request_timeout", 0.2)
    with proxy.delayed(frozenset({Way.BACK})):
        with pytest.raises(StoreUnavailable, match="OperationTimedOut"):
            await session.execute(READ, (NAME,))
        assert (drivers_way.taken, turns._value) == (1, 2)
    monkeypatch.undo()

    assert await ask_everything(session, b"2") == answers(b"2")
    await until_idle(session)
    assert turns._value == 2


async def until_idle(session: Session) -> None:
    """Wait until the connection has no stream left that an answer is expected on."""

    async def is_idle() -> bool:
        return bool(connection_of(session).in_flight == 0)

    await until(is_idle, within_s=20)


async def test_a_connection_that_breaks_under_a_request_is_asked_about_by_the_driver(
    session: Session, proxy: Proxy, drivers_way: DriversWay
) -> None:
    with proxy.swallowing(Way.BACK):
        asked = asyncio.ensure_future(session.execute(READ, (NAME,)))
        await asyncio.sleep(0.1)

    with suppress(StoreUnavailable):  # the driver may not be connected again yet
        assert await asked == [(b"00",)]
    assert drivers_way.taken == 1


@pytest.mark.parametrize("trouble", ["closed", "full"])
async def test_a_connection_that_takes_nothing_leaves_no_stream_behind(
    session: Session, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connection_of(session)
    streams = len(connection.request_ids)
    bound = session._ready[READ].bind((NAME,))
    outcomes: list[object] = []
    attribute, value = ("is_closed", True) if trouble == "closed" else ("_socket_writable", False)

    with monkeypatch.context() as patched:
        patched.setattr(connection, attribute, value)
        patched.setattr(session.driver.cluster, "signal_connection_failure", lambda *_, **__: False)
        patched.setattr(session.driver, "submit", lambda *_: None)
        is_sent = PooledConnections(session.driver).send(bound, PLAIN, None, outcomes.append)

    assert (is_sent, outcomes) == (False, [])
    assert (connection.in_flight, len(connection.request_ids)) == (0, streams)


class OtherPool:
    """The pool of another node."""

    host = "another node"

    def borrow_connection(self, timeout: float) -> tuple[Any, int]:
        """Fail: it is not this node's turn."""
        raise AssertionError(f"{self.host} was asked, within {timeout}")


@pytest.mark.parametrize("profile", [PLAIN, LIGHTWEIGHT, SERIAL])
async def test_of_several_nodes_the_one_is_asked_that_the_policy_names_first(
    session: Session, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pool,) = session.driver.get_pools()
    bound = session._ready[READ].bind((NAME,))
    outcome: asyncio.Future[Page | BaseException] = asyncio.get_running_loop().create_future()

    monkeypatch.setattr(session.driver, "get_pools", lambda: [OtherPool(), pool])
    assert PooledConnections(session.driver).send(bound, profile, None, outcome.set_result)
    page = await outcome
    assert isinstance(page, Page)
    assert len(page.rows) == 1

    monkeypatch.setattr(session.driver, "get_pools", lambda: [OtherPool(), OtherPool()])
    assert not PooledConnections(session.driver).send(bound, profile, None, outcome.set_result)
    monkeypatch.setattr(session.driver, "get_pools", list)
    assert not PooledConnections(session.driver).send(bound, profile, None, outcome.set_result)
