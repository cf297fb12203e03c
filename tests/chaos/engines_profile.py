"""A real Kafka and a real Cassandra for a fleet: killed, frozen, and started again on what they kept."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from streams.runtime.kafka_client_config import LogAccess
from tests.chaos.crash_points import ON_CASSANDRA, Point
from tests.chaos.proxy import Proxy
from tests.chaos.sizes import is_thorough
from tests.engines.cassandra_server import CassandraServer
from tests.engines.kafka_server import KafkaServer
from tests.journeys.service import run_preloaded

ONLY_HERE: Final = (Point.RECORD_WRITTEN, Point.BATCH_WRITTEN, Point.BEFORE_SEAL, Point.SEALED)
"""Deaths within a commit, which is several requests here; the others are the same on any engines."""


class Engines:
    """A Kafka of the fleet's own, and a keyspace of the fleet's own in the run's Cassandra.

    Topics have fixed names, so a Kafka serves one fleet; keyspaces have not, and a Cassandra that is warm is
    worth keeping. One that is `lasting` may be killed: the next fleet finds it running again.
    """

    def __init__(self, data_dir: Path, cassandra: CassandraServer) -> None:
        self.deaths = ON_CASSANDRA if is_thorough() else ONLY_HERE
        self.kafka = KafkaServer(data_dir / "kafka")
        self.cassandra = cassandra
        self._data_dir = data_dir
        self._keyspace = f"chaos_{uuid4().hex[:12]}"

    @property
    def settings(self) -> Mapping[str, str]:
        """Where both are."""
        return {
            "SERVICE_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "SERVICE_CASSANDRA_CONTACT_POINTS": self.cassandra.contact_point,
            "SERVICE_CASSANDRA_KEYSPACE": self._keyspace,
        }

    @property
    def bootstrap(self) -> str:
        """Kafka's address, the same in all its lives."""
        return self.kafka.bootstrap

    @property
    def access(self) -> LogAccess:
        """Kafka's address; nobody need sign in."""
        return LogAccess(self.kafka.bootstrap)

    async def prepare(self) -> None:
        """Start Kafka, and make the tables as an operator does."""
        await asyncio.gather(self.kafka.start(), self._make_keyspace())

    async def _make_keyspace(self) -> None:
        if not self.cassandra.is_running():
            await self.cassandra.start()
        status, _, err = await run_preloaded(self._data_dir, "migrate", given=self.settings)
        assert status == 0, err

    async def start_broker(self) -> None:
        """Start Kafka again on its folder and ports."""
        await self.kafka.start()

    async def kill_broker(self) -> None:
        """End Kafka with SIGKILL."""
        await self.kafka.kill()

    @asynccontextmanager
    async def store_away(self) -> AsyncIterator[None]:
        """Kill Cassandra, and start it again at the end on the same folder and ports."""
        assert self.cassandra.lasting, "mark the test with kills_store"
        await self.cassandra.kill()
        try:
            yield
        finally:
            await self.cassandra.start()

    @asynccontextmanager
    async def store_stuck(self) -> AsyncIterator[None]:
        """Freeze Cassandra: it holds every connection and answers nothing; then it goes on where it was."""
        self.cassandra.pause()
        try:
            yield
        finally:
            self.cassandra.resume()

    def before_store(self) -> Proxy:
        """Return a proxy before Cassandra, still to be entered; see `through`."""
        return Proxy.before(self.cassandra.contact_point)

    async def aclose(self) -> None:
        """End Kafka and drop the keyspace."""
        await self.kafka.kill()
        if self.cassandra.is_running():
            await asyncio.to_thread(self._drop_keyspace)

    def _drop_keyspace(self) -> None:
        with self.cassandra.session() as session:
            session.execute(f"DROP KEYSPACE IF EXISTS {self._keyspace}", timeout=240)


def through(proxy: Proxy) -> dict[str, str]:
    """Return the settings of a role that reaches Cassandra by this proxy."""
    return {"SERVICE_CASSANDRA_CONTACT_POINTS": proxy.address}
