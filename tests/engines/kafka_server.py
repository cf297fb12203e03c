"""Apache Kafka as one process, broker and controller: small, quick to start, on the loopback address."""

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from typing_extensions import override

from tests.engines.certificates import Identity
from tests.engines.jvm import EngineNotStarted, JvmServer, java_command
from tests.engines.maven import KAFKA_JARS, made_once

HEAP: Final = ("-Xms160m", "-Xmx160m", "-XX:MaxDirectMemorySize=64m", "-XX:+ExitOnOutOfMemoryError")

CLUSTER_ID: Final = "dmVyaXN0cmVhbS10ZXN0cw"
"""Sixteen bytes in base64url; every test cluster may have the same, for none meets another."""

LOG4J: Final = """
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""

ALONE: Final = {
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
"""What a cluster of one needs to be content."""

SMALL: Final = {
    "num.network.threads": 2,
    "num.io.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "num.replica.fetchers": 1,
    "background.threads": 2,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "log.segment.bytes": 64 << 20,
    "log.index.size.max.bytes": 1 << 20,
    "metadata.log.segment.bytes": 8 << 20,
}
"""Threads and buffers for two shared cores."""

BRISK: Final = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    # One killed and started again waits as long for its former self; one that is silent for longer than this
    # loses its partitions, as it does on a busy machine while it creates topics.
    "broker.session.timeout.ms": 6_000,
    "broker.heartbeat.interval.ms": 500,
}
"""Waits cut to what a test can bear."""


@dataclass(frozen=True, slots=True)
class Lock:
    """What the second listener of a Kafka asks of its clients."""

    user: str | None = None
    """Log in by PLAIN or SCRAM-SHA-512 as this user; none: nobody logs in."""
    password: str = ""
    identity: Identity | None = None
    """Speak TLS with this certificate; none: plain text."""
    clients_trusted: Path | None = None
    """Ask clients for a certificate signed by the authority in this PEM file; none: ask for nothing."""

    @property
    def protocol(self) -> str:
        """Kafka's name for it: `SASL_SSL`, `SASL_PLAINTEXT`, `SSL` or `PLAINTEXT`."""
        return ("SASL_" if self.user else "") + ("SSL" if self.identity else "PLAINTEXT")


class KafkaServer(JvmServer):
    """A Kafka at `bootstrap`; with a lock, also at `locked_bootstrap`, where the lock must be opened."""

    jars = KAFKA_JARS
    quorum: ClassVar[Sequence[str]] = ()
    """How its folder is formatted; by default the settings name the controllers."""

    def __init__(self, folder: Path, *, lock: Lock | None = None) -> None:
        super().__init__(folder, ports=3)
        self.lock = lock

    @property
    @override
    def ports_of_clients(self) -> list[int]:
        return self.ports[:1] if self.lock is None else [self.ports[0], self.ports[2]]

    @property
    def bootstrap(self) -> str:
        """`host:port` of the listener that asks nothing."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def locked_bootstrap(self) -> str:
        """`host:port` of the listener behind the lock."""
        return f"127.0.0.1:{self.ports[2]}"

    @staticmethod
    @override
    def plain(folder: Path) -> "KafkaServer":
        return KafkaServer(folder)

    @override
    async def command(self, jars: Path) -> list[str]:
        (self.folder / "log4j2.properties").write_text(LOG4J)
        (self.folder / "server.properties").write_text(self._properties())
        if not self._log_dir.exists():
            await asyncio.to_thread(self._prepare, jars)
        return self._java(jars, *HEAP, "kafka.Kafka", str(self.folder / "server.properties"))

    @property
    def _log_dir(self) -> Path:
        return self.folder / "kept"

    def _java(self, jars: Path, *arguments: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return java_command(jars, log, *arguments)

    def _prepare(self, jars: Path) -> None:
        """Format the folder it keeps; those without users are copies of one, which names no port."""
        if self._scram():
            self._format(jars)
            return

        def format_first(folder: Path) -> None:
            self._format(jars)
            shutil.move(self._log_dir, folder)  # a cache may lie on another disk

        shutil.copytree(
            made_once(jars.with_name(f"{jars.name}-formatted-{CLUSTER_ID}"), format_first), self._log_dir
        )

    def _format(self, jars: Path) -> None:
        given = [*self.quorum, "-t", CLUSTER_ID, "-c", str(self.folder / "server.properties")]
        for scram in self._scram():
            given += ["--add-scram", scram]
        command = self._java(jars, "-Xmx96m", "kafka.tools.StorageTool", "format", *given)
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise EngineNotStarted(f"Kafka's folder could not be formatted:\n{done.stdout}{done.stderr}")

    def _scram(self) -> list[str]:
        """The users it is formatted with, as its tool wants them."""
        if self.lock is None or not self.lock.user:
            return []
        return [f"SCRAM-SHA-512=[name={self.lock.user},password={self.lock.password}]"]

    def _properties(self) -> str:
        kafka, controller, locked = self.ports
        listeners = [f"OPEN://127.0.0.1:{kafka}", f"CONTROLLER://127.0.0.1:{controller}"]
        protocols = ["OPEN:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        if self.lock is not None:
            listeners.append(f"LOCKED://127.0.0.1:{locked}")
            protocols.append(f"LOCKED:{self.lock.protocol}")
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(protocols),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "OPEN",
            "log.dirs": self._log_dir,
            **ALONE, **SMALL, **BRISK, **_locked(self.lock),
        }  # fmt: skip
        return "".join(f"{name}={setting}\n" for name, setting in settings.items())


def _locked(lock: Lock | None) -> dict[str, object]:
    """The settings of the second listener."""
    settings: dict[str, object] = {}
    at = "listener.name.locked"
    if lock is not None and lock.user:
        plain, scram = ("org.apache.kafka.common.security." + name for name in ("plain.Plain", "scram.Scram"))
        known = f'user_{lock.user}="{lock.password}"'
        settings |= {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{at}.plain.sasl.jaas.config": f"{plain}LoginModule required {known};",
            f"{at}.scram-sha-512.sasl.jaas.config": f"{scram}LoginModule required;",
        }
    if lock is not None and lock.identity is not None:
        settings |= {f"{at}.ssl.keystore.type": "PEM", f"{at}.ssl.keystore.location": lock.identity.combined}
    if lock is not None and lock.clients_trusted is not None:
        settings |= {
            f"{at}.ssl.client.auth": "required",
            f"{at}.ssl.truststore.type": "PEM",
            f"{at}.ssl.truststore.location": lock.clients_trusted,
        }
    return settings
