"""A deployment to be hurt: broker, front and workers as processes, on embedded or other engines."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from app.adapters.files.data_dir import BROKER_ADDRESS_FILE, ROOT_KEY_FILE
from app.adapters.security.crypto import load_root_key
from app.kafka.cluster import access_of
from app.settings import read_settings
from streams.runtime.authentication import RecordKeys
from streams.runtime.kafka_client_config import LogAccess
from tests.chaos import faulty_worker
from tests.chaos.crash_points import ON_SQLITE, Point
from tests.chaos.store_lock import nobody_reads_or_writes, nobody_writes
from tests.journeys.service import (
    Role,
    begin_deployment,
    make_tenant,
    print_last,
    run_preloaded,
    start_preloaded,
)
from tests.prefork import Run

SETTINGS: Final = {"SERVICE_ANSWER_TIMEOUT_S": "25", "SERVICE_WORKER_SESSION_TIMEOUT_S": "6"}
"""A dead worker is replaced within the patience of a request."""

UNHURRIED: Final = {"SERVICE_ANSWER_TIMEOUT_S": "120", "SERVICE_WORKER_SESSION_TIMEOUT_S": "60"}
"""Where nobody dies: a busy machine makes no worker count as dead and no request give up."""

STARTS: Final = 5
"""How often a worker that is not ready in its own time is started; a busy machine makes it late."""


class Profile(Protocol):
    """The engines a fleet runs on."""

    @property
    def settings(self) -> Mapping[str, str]:
        """`SERVICE_*` variables that lead to the engines; empty for the embedded ones."""
        ...

    @property
    def bootstrap(self) -> str:
        """Where the broker is, `host:port`."""
        ...

    @property
    def access(self) -> LogAccess:
        """How the broker is reached and signed in to."""
        ...

    @property
    def deaths(self) -> Sequence[Point]:
        """Where a worker can be made to die on these engines."""
        ...

    async def prepare(self) -> None:
        """Start what a first command needs: the broker, and a store with its tables."""
        ...

    async def start_broker(self) -> None:
        """Start the broker again with what it had written."""
        ...

    async def kill_broker(self) -> None:
        """End the broker the hard way."""
        ...

    def store_away(self) -> AbstractAsyncContextManager[None]:
        """Let nobody read or write the store for the length of the context."""
        ...

    def store_stuck(self) -> AbstractAsyncContextManager[None]:
        """Let every write wait for the end of the context; it goes on afterwards, unless given up."""
        ...

    async def aclose(self) -> None:
        """End what was started."""
        ...


class Embedded:
    """The embedded broker as a process of its own, and SQLite in the data folder."""

    settings: Mapping[str, str] = {}
    deaths = ON_SQLITE

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._broker: Role | None = None

    @property
    def bootstrap(self) -> str:
        """Where the broker said it is."""
        return (self._data_dir / "broker" / BROKER_ADDRESS_FILE).read_text(encoding="ascii").strip()

    @property
    def access(self) -> LogAccess:
        """How the processes of the service reach it."""
        return access_of(read_settings(data_dir=self._data_dir))

    @property
    def broker(self) -> Role:
        """The broker's process, which is another after each start."""
        assert self._broker is not None
        return self._broker

    async def prepare(self) -> None:
        """Start the broker; the store makes its own tables."""
        await self.start_broker()

    async def start_broker(self) -> None:
        """Start it on the port it had."""
        self._broker = await start_preloaded(self._data_dir, "broker")

    async def kill_broker(self) -> None:
        """End it with SIGKILL."""
        assert self._broker is not None
        await self._broker.kill()

    def store_away(self) -> AbstractAsyncContextManager[None]:
        """Hold every lock of the database."""
        return nobody_reads_or_writes(self._data_dir)

    def store_stuck(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the database's writer."""
        return nobody_writes(self._data_dir)

    async def aclose(self) -> None:
        """Stop the broker."""
        if self._broker is not None:
            await self._broker.stop()


@dataclass(slots=True)
class Fleet:
    """The processes of one deployment, with one tenant."""

    data_dir: Path
    profile: Profile
    settings: dict[str, str]
    tenant: str = ""
    live_key: str = ""
    test_key: str = ""
    roles: list[Role] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    looks: dict[str, int] = field(default_factory=dict)
    """How much the checker saw of each invariant when it looked last."""

    def given(self, **more: str) -> dict[str, str]:
        """The `SERVICE_*` variables of a role."""
        return {**self.profile.settings, **self.settings, **more}

    async def front(self, **more: str) -> Role:
        """Start a front; two need different `SERVICE_FRONT_INSTANCE`."""
        return await self._start("front", "--port", "0", given=self.given(**more))

    async def worker(self, *arguments: str, **more: str) -> Role:
        """Start a worker of all streams, or of those the arguments say."""
        return await self._start("worker", *arguments, given=self.given(**more))

    async def supervised_worker(self) -> Role:
        """Start a worker, and another when it ends before it is ready, as its supervisor does."""
        for _ in range(STARTS - 1):
            role = self._track(await start_preloaded(self.data_dir, "worker", given=self.given()))
            if role.said:
                return role
        return await self.worker()

    async def crashing_worker(self, point: str, nth: int, **more: str) -> Role:
        """Start a worker that kills itself when it reaches the point for the nth time; see `crash_points.py`.

        With a backlog it may do so before it says that it is ready.
        """
        given = self.given(**more)
        return self._track(
            await start_preloaded(
                self.data_dir, "crashing", point, str(nth), given=given, run=faulty_worker.run
            )
        )

    async def odd_worker(self, run: Run, *arguments: str) -> Role:
        """Start one of the other workers of `faulty_worker.py`."""
        return self._track(await start_preloaded(self.data_dir, *arguments, given=self.given(), run=run))

    async def command(self, *arguments: str) -> Any:
        """Run one command with --json and return what it prints."""
        status, out, err = await run_preloaded(self.data_dir, *arguments, "--json", given=self.given())
        assert status == 0, err
        return json.loads(out)

    async def make_tenant(self) -> None:
        """Create the tenant, a live key and a test key."""
        begin_deployment(self.data_dir, self.given())
        self.tenant, self.live_key, self.test_key = await make_tenant(self.data_dir, given=self.given())

    async def _start(self, *arguments: str, given: Mapping[str, str]) -> Role:
        role = self._track(await start_preloaded(self.data_dir, *arguments, given=given))
        assert role.said, role.log.read_text()
        return role

    def _track(self, role: Role) -> Role:
        self.roles.append(role)
        return role

    @property
    def record_keys(self) -> RecordKeys:
        """What signs and checks the records of this deployment."""
        return RecordKeys(load_root_key(None, self.data_dir / ROOT_KEY_FILE).derive)

    @property
    def logs(self) -> list[Path]:
        """What every process of this deployment has written on stderr."""
        return sorted(self.data_dir.glob("*.log"))

    def report(self) -> None:
        """Print the last of what every process said, which a test that fails shows."""
        for log in self.logs:
            print_last(log)


@asynccontextmanager
async def running_fleet(
    data_dir: Path, profile: Profile | None = None, **settings: str
) -> AsyncIterator[Fleet]:
    """Run the broker with one tenant; the test starts the other roles. All of them are ended."""
    engines = profile or Embedded(data_dir)
    fleet = Fleet(data_dir, engines, {**SETTINGS, **settings})
    try:
        try:
            await engines.prepare()
            await fleet.make_tenant()
            yield fleet
        finally:
            await end_all(fleet.roles, engines)
    except BaseException:
        fleet.report()
        raise


async def end_all(roles: Sequence[Role], engines: Profile) -> None:
    """End every role and then the engines, whatever fails meanwhile; raise what failed."""
    ended = await asyncio.gather(*(end(role) for role in roles), return_exceptions=True)
    ended += await asyncio.gather(engines.aclose(), return_exceptions=True)
    failures = [one for one in ended if isinstance(one, BaseException)]
    if failures:
        raise BaseExceptionGroup("what did not end as it should", failures)


async def end(role: Role) -> None:
    """Stop a role; one that was stopped by SIGSTOP is let go on first."""
    if role.process.returncode is None:
        role.process.send_signal(signal.SIGCONT)
    await role.stop()
