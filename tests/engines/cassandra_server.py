"""Apache Cassandra as one process: small, quick to start, on loopback, every answer on disk first."""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cassandra import OperationTimedOut
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from typing_extensions import override

from tests.engines.cassandra_java import opened_modules
from tests.engines.certificates import STORE_PASSWORD, Authority, Identity
from tests.engines.jvm import EngineNotStarted, JvmServer, java_command
from tests.engines.maven import CASSANDRA_JARS

HEAP: Final = ("-Xms256m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+ExitOnOutOfMemoryError")

FIRST_ROLE: Final = "cassandra"
"""Name and password of the role a new Cassandra makes for itself."""

GREET_S: Final = 60.0
"""How long the first login may take: Cassandra makes its first role after it opened its port."""

CONNECT_S: Final = 20.0
"""How long a connection may take."""

CONNECTS: Final = 5
"""How often a session tries to connect."""

OPTIONS: Final = {
    "jdk.attach.allowAttachSelf": "true",
    "io.netty.tryReflectionSetAccessible": "true",
    "cassandra-foreground": "yes",
    "cassandra.superuser_setup_delay_ms": "0",
    "cassandra.skip_wait_for_gossip_to_settle": "0",
    "cassandra.ring_delay_ms": "0",
}

LOGBACK: Final = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""

ALONE: Final = {
    "cluster_name": "veristream tests",
    "num_tokens": 1,
    "initial_token": "0",
    "auto_bootstrap": False,
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "storage_compatibility_mode": "NONE",
    "listen_address": "127.0.0.1",
    "rpc_address": "127.0.0.1",
    "start_native_transport": True,
    "hinted_handoff_enabled": False,
    "dynamic_snitch": False,
}

SMALL: Final = {
    "native_transport_max_threads": 32,
    "commitlog_segment_size": "8MiB",  # one mutation may have half of it
    "commitlog_total_space": "128MiB",
    "batch_size_warn_threshold": "40KiB",  # as deploy/cassandra.yaml has it
    "memtable_heap_space": "64MiB",
    "memtable_offheap_space": "64MiB",
    "memtable_allocation_type": "offheap_objects",
    "memtable_flush_writers": 1,
    "file_cache_size": "32MiB",
    "networking_cache_size": "16MiB",
    "key_cache_size": "8MiB",
    "counter_cache_size": "0MiB",
    "concurrent_reads": 16,
    "concurrent_writes": 16,
    "concurrent_counter_writes": 2,
    "concurrent_materialized_view_writes": 2,
    "concurrent_compactors": 1,
    "concurrent_validations": 1,
}

PROMISES: Final = {
    "commitlog_sync": "batch",  # "periodic" was seen to lose answered writes when the process is killed
    "paxos_variant": "v2",
    "auto_snapshot": False,  # a table emptied between two tests leaves nothing behind
    "read_request_timeout": "5000ms",
    "write_request_timeout": "5000ms",
    "cas_contention_timeout": "2000ms",
    "request_timeout": "10000ms",
}


class CassandraServer(JvmServer):
    """A Cassandra at `host` and `port`.

    One that is `managed` is reached by `nodetool`, and writes its commit log as it is.
    One that is not `lasting` may lose its tables when killed; it makes and empties them ten times faster.
    With a `login` (role, password) nobody is served who does not log in; the role may do everything. With an
    `identity` only TLS is spoken, and with `clients` only to clients whose certificate that authority signed.
    """

    jars = CASSANDRA_JARS
    host: Final = "127.0.0.1"

    def __init__(
        self,
        folder: Path,
        *,
        login: tuple[str, str] | None = None,
        identity: Identity | None = None,
        clients: Authority | None = None,
        lasting: bool = True,
        managed: bool = False,
    ) -> None:
        super().__init__(folder, ports=3)
        self.login = login
        self.identity = identity
        self.clients = clients
        self.lasting = lasting
        self.managed = managed

    @property
    def port(self) -> int:
        """Where it speaks CQL."""
        return self.ports[0]

    @property
    def contact_point(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def management_port(self) -> int:
        """Where `nodetool` reaches it."""
        return self.ports[2]

    @staticmethod
    @override
    def plain(folder: Path) -> "CassandraServer":
        return CassandraServer(folder)

    @override
    async def command(self, jars: Path) -> list[str]:
        conf, stored = self.folder / "conf", self.folder / "kept"
        conf.mkdir(exist_ok=True)
        (conf / "cassandra.yaml").write_text(json.dumps(self._settings(stored), indent=1))  # JSON is YAML
        (conf / "logback.xml").write_text(LOGBACK)
        options = {
            **OPTIONS,
            "cassandra.unsafesystem": str(not self.lasting).lower(),
            "cassandra.storagedir": stored,
            "cassandra.logdir": self.folder,
            "cassandra.config": (conf / "cassandra.yaml").as_uri(),
            "logback.configurationFile": conf / "logback.xml",
            **({"cassandra.jmx.local.port": self.management_port} if self.managed else {}),
        }
        defined = [f"-D{name}={value}" for name, value in options.items()]
        return java_command(
            jars, *HEAP, *opened_modules(), *defined, "org.apache.cassandra.service.CassandraDaemon"
        )  # fmt: skip

    @override
    async def greet(self) -> None:
        if self.login is not None:
            await asyncio.to_thread(self._make_role, *self.login)

    def cluster(self, login: tuple[str, str] | None = None) -> Any:
        """A driver's cluster for this server, with the server's own login unless another is given."""
        driver: Any = Cluster  # untyped
        provider: Any = PlainTextAuthProvider  # untyped
        role = login or self.login
        auth = provider(*role) if role else None
        context = self._context()
        return driver(
            [self.host], port=self.port, auth_provider=auth, ssl_context=context, connect_timeout=CONNECT_S
        )

    @contextmanager
    def session(self, keyspace: str | None = None, login: tuple[str, str] | None = None) -> Iterator[Any]:
        """A driver's session with the server's own login unless another is given.

        Connecting is tried again: once in many runs a first message of the driver's was never answered.
        """
        for attempts_left in reversed(range(CONNECTS)):
            with self.cluster(login) as cluster:
                try:
                    session = cluster.connect(keyspace)
                except NoHostAvailable as error:
                    reasons: dict[str, Any] = error.errors  # type: ignore[has-type]  # untyped
                    if attempts_left and any(isinstance(one, OperationTimedOut) for one in reasons.values()):
                        continue
                    raise
                yield session
                return

    def outsider(self) -> Any:
        """A driver's cluster that shows neither a certificate nor a password."""
        driver: Any = Cluster  # untyped
        return driver([self.host], port=self.port)

    def _context(self) -> ssl.SSLContext | None:
        if self.identity is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it speaks to its own child
        context.load_cert_chain(self.identity.certificate, self.identity.key)
        return context

    def _make_role(self, role: str, password: str) -> None:
        """Make the role of the login with the role Cassandra begins with, unless it is there."""
        deadline = time.monotonic() + GREET_S
        while True:
            for login in ((role, password), (FIRST_ROLE, FIRST_ROLE)):
                try:
                    with self.session(login=login) as session:
                        _ensure_role(session, role, password)
                except NoHostAvailable as refused:
                    if time.monotonic() > deadline:
                        raise EngineNotStarted(f"Cassandra lets nobody in: {refused}") from refused
                else:
                    return

    def _settings(self, stored: Path) -> dict[str, object]:
        seeds = [{"seeds": f"127.0.0.1:{self.ports[1]}"}]
        folders = ("commitlog", "hints", "saved_caches", "cdc_raw")
        settings: dict[str, object] = {
            **ALONE, **SMALL, **PROMISES,
            "seed_provider": [
                {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}
            ],
            "storage_port": self.ports[1],
            "native_transport_port": self.port,
            "data_file_directories": [str(stored / "data")],
            **{f"{name}_directory": str(stored / name) for name in folders},
        }  # fmt: skip
        if (
            not self.managed
        ):  # as deploy/cassandra.yaml has it; else what the log holds is looked for in its files
            settings["commitlog_compression"] = [{"class_name": "LZ4Compressor"}]
        if self.login is not None:
            settings |= {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
            settings |= {"role_manager": "CassandraRoleManager"}
        if self.identity is not None:
            settings["client_encryption_options"] = self._encryption(self.identity)
        return settings

    def _encryption(self, identity: Identity) -> dict[str, object]:
        options: dict[str, object] = {
            "enabled": True, "optional": False, "store_type": "PKCS12",
            "keystore": str(identity.keystore), "keystore_password": STORE_PASSWORD,
        }  # fmt: skip
        if self.clients is not None:
            options |= {"require_client_auth": True, "truststore": str(self.clients.truststore)}
            options |= {"truststore_password": STORE_PASSWORD}
        return options


def _ensure_role(session: Any, role: str, password: str) -> None:
    quoted = password.replace("'", "''")
    session.execute(
        f'CREATE ROLE IF NOT EXISTS "{role}" '
        f"WITH PASSWORD = '{quoted}' AND SUPERUSER = true AND LOGIN = true"
    )
