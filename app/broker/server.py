"""The embedded broker: lock and open its directory, listen, run background work, shut down."""

import asyncio
import fcntl
import os
import resource
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

import structlog

from app.adapters.files.data_dir import make_private
from app.broker.apis.table import build_table
from app.broker.connection import Connection, Listener
from app.broker.coordinator import Coordinator
from app.broker.errors import BrokerLocked, UsersUnusable
from app.broker.flusher import Flusher, Wakeups
from app.broker.node import Node, ProducerIds
from app.broker.settings import BrokerSettings, Fsync, refuse_remote
from app.broker.store import Store
from app.broker.topics import TopicDirectory
from app.broker.upkeep import Upkeep
from app.broker.users import Users
from streams.runtime.background import BackgroundTask


class DirectoryLock:
    """Locked from `acquire` to `release` or the death of the process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._fd: int | None = None

    def acquire(self) -> None:
        """Make the directory if need be and take its lock, or raise `BrokerLocked`, naming the owner."""
        make_private(self._directory)
        fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise BrokerLocked(self._directory, owner) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Release the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


log = structlog.get_logger()

BACKLOG: Final = 512
"""Connections the kernel may hold before they are accepted."""


USERS_INTERVAL_S: Final = 1.0
"""How long a deleted user's open connections may still be served."""


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Broker:
    """A Kafka-protocol broker over one directory, inside the running event loop.

    `async with Broker(settings) as broker:` listens while the block runs. Entering raises `BrokerLocked` when
    another process has the directory, `RemoteAddressRefused` for an unprotected address, OSError when the
    port or the directory cannot be used.
    """

    def __init__(self, settings: BrokerSettings, *, now_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._lock = DirectoryLock(settings.directory)
        self._store = Store(settings.directory / "broker.sqlite", durable=settings.fsync is Fsync.ALWAYS)
        self._wakeups = Wakeups()
        self._flusher = Flusher(settings.fsync, settings.flush_interval_s, self._wakeups)
        self._topics = TopicDirectory(settings, self._store, self._flusher, now_ms)
        self._groups = Coordinator(settings, self._store)
        self._upkeep = Upkeep(settings, self._topics, self._flusher, now_ms)
        self._listener: Listener | None = None
        self._server: asyncio.Server | None = None
        self._port = 0
        self._opened = AsyncExitStack()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def address(self) -> str:
        """`host:port`, as a client's bootstrap setting wants it."""
        host = self._settings.advertised_host or self._settings.host
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    async def __aenter__(self) -> Self:
        refuse_remote(self._settings)
        async with AsyncExitStack() as opened:
            await self._open(opened)
            self._opened = opened.pop_all()
        log.info("broker.started", address=self.address, topics=len(self._topics))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, drop the clients, sync everything and give the directory back; may be repeated."""
        opened, self._opened = self._opened, AsyncExitStack()
        await opened.aclose()

    async def _open(self, opened: AsyncExitStack) -> None:
        raise_file_limit()
        await asyncio.to_thread(self._lock.acquire)
        opened.callback(self._lock.release)
        store = await self._store.open()
        opened.push_async_callback(store.aclose)
        await self._topics.open()
        opened.push_async_callback(self._topics.aclose)
        self._flusher.start()
        opened.push_async_callback(self._flusher.aclose)
        await self._groups.start()
        opened.push_async_callback(self._groups.aclose)
        self._upkeep.start()
        opened.push_async_callback(self._upkeep.aclose)
        node = Node(
            settings=self._settings,
            cluster_id=await store.cluster_id(uuid.uuid4()),
            topics=self._topics,
            groups=self._groups,
            flusher=self._flusher,
            wakeups=self._wakeups,
            producer_ids=ProducerIds(store),
        )
        asked = self._settings.authentication
        users = None if asked is None else Users(asked.users_file, asked.readable_topics)
        listener = Listener(node, build_table(), users)
        await self._listen(listener)
        opened.push_async_callback(self._stop_listening)
        if users is not None:
            watching = BackgroundTask(partial(_watch_users, listener, users), "broker-users")
            watching.start()
            opened.push_async_callback(watching.stop)

    async def _listen(self, listener: Listener) -> None:
        host, port = self._settings.host, self._settings.port
        self._listener = listener
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(listener), host, port, backlog=BACKLOG
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop_listening(self) -> None:
        if self._server is None or self._listener is None:
            return
        self._server.close()
        for connection in list(self._listener.connections):
            connection.close()
        await self._server.wait_closed()
        log.info("broker.stopped", address=self.address)


async def _watch_users(listener: Listener, users: Users) -> None:
    """End the connections of users who were deleted."""
    while True:
        await asyncio.sleep(USERS_INTERVAL_S)
        try:
            users.refresh()
        except UsersUnusable as error:
            log.error("broker.users_read_failed", error=str(error))  # noqa: TRY400 - the message says all
        listener.drop_deleted_users()


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as it may; every log segment holds one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # some systems allow less than they say
        log.warning("broker.file_limit_not_raised", limit=soft, error=str(error))
        return soft
    log.info("broker.file_limit_raised", before=soft, now=hard)
    return hard
