"""Open and close the session: addresses, credentials and TLS; errors say how to fix them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from cassandra import AuthenticationFailed, InvalidRequest, UnresolvableContactPoints
from cassandra.cluster import NoHostAvailable
from typing_extensions import override

from app.adapters.cassandra.binding import KnownColumns
from app.adapters.cassandra.driver import (
    AWAY,
    Cluster,
    ExponentialReconnectionPolicy,
    PlainTextAuthProvider,
    build_profiles,
)
from app.adapters.cassandra.loop_connection import LoopConnection, on_loop
from app.adapters.cassandra.requests import IN_FLIGHT, Requests
from app.adapters.cassandra.session import Session
from app.adapters.shared.opening import StoreRefused
from schemas.problems import StoreUnavailable, VeristreamError

PROTOCOL: Final = 5
"""Checksummed frames; Cassandra 4.0 and newer speak it."""

CONNECT_S: Final = 5.0
HEARTBEAT_S: Final = 5.0
"""How soon a connection that died without a word is noticed, in seconds."""

RECONNECT_S: Final = (0.2, 5.0)
"""Between two tries to reach a node that went away, at first and at most, in seconds."""


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Contact points, credentials and TLS of the cluster."""

    contact_points: Sequence[tuple[str, int]]
    local_dc: str
    port: int = 9042
    """Where the nodes that these report are reached."""
    username: str | None = None
    password: str | None = None
    tls: ssl.SSLContext | None = None

    @override
    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.contact_points)


@asynccontextmanager
async def open_session(
    address: Address, keyspace: str | None, *, in_flight: int = IN_FLIGHT
) -> AsyncIterator[Session]:
    """Connect, and disconnect at the end; in between the driver reconnects by itself.

    Raises:
        StoreUnavailable: No node answers.
        StoreRefused: Credentials, TLS, data centre or keyspace are wrong.
    """
    loop = asyncio.get_running_loop()
    connecting = asyncio.ensure_future(asyncio.to_thread(_connect, address, keyspace, on_loop(loop)))
    try:
        cluster, driver = await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_abandon)
        raise
    try:
        yield Session(cluster, driver, Requests(driver, loop, asyncio.Semaphore(in_flight)))
    finally:
        await asyncio.to_thread(cluster.shutdown)


def _abandon(connecting: "asyncio.Future[tuple[Any, Any]]") -> None:
    """Close what was connected for somebody who was cancelled."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.get_loop().run_in_executor(None, connecting.result()[0].shutdown)


def _connect(address: Address, keyspace: str | None, connections: type[LoopConnection]) -> tuple[Any, Any]:
    try:
        cluster = _cluster(address, connections)
    except UnresolvableContactPoints as error:
        raise StoreUnavailable(f"no address is known for {address}: {_NAMES}") from error
    try:
        driver = cluster.connect()
        driver.client_protocol_handler = KnownColumns
        refusal = _wrong_dc(cluster, address)
        if refusal is not None:
            raise refusal
        if keyspace is not None:
            driver.set_keyspace(keyspace)
    except AWAY as error:
        cluster.shutdown()
        raise _wrong_dc(cluster, address) or _explain(error, address, keyspace) from error
    except StoreRefused:
        cluster.shutdown()
        raise
    return cluster, driver


_NAMES: Final = "correct SERVICE_CASSANDRA_CONTACT_POINTS (host or host:port, separated by commas)"


def _cluster(address: Address, connections: type[LoopConnection]) -> Any:
    login = None
    if address.username is not None:
        login = PlainTextAuthProvider(address.username, address.password or "")
    return Cluster(
        contact_points=list(address.contact_points),
        port=address.port,
        protocol_version=PROTOCOL,
        auth_provider=login,
        ssl_context=address.tls,
        execution_profiles=build_profiles(address.local_dc),
        connection_class=connections,
        reconnection_policy=ExponentialReconnectionPolicy(*RECONNECT_S),
        connect_timeout=CONNECT_S,
        control_connection_timeout=CONNECT_S,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
    )


def _wrong_dc(cluster: Any, address: Address) -> StoreRefused | None:
    """Return what is wrong when a node answered and none is in our data centre: then the driver uses none."""
    known = sorted({host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter})
    if not known or address.local_dc in known:
        return None
    return StoreRefused(f"SERVICE_CASSANDRA_LOCAL_DC is {address.local_dc}; there are: {', '.join(known)}")


def _causes(error: Any) -> list[BaseException]:
    return list(error.errors.values())


def _explain(error: BaseException, address: Address, keyspace: str | None) -> VeristreamError:
    """Return what is wrong and how to fix it; no credentials in it."""
    causes = _causes(error) if isinstance(error, NoHostAvailable) else [error]
    if any(isinstance(cause, AuthenticationFailed) for cause in causes):
        fix = "correct SERVICE_CASSANDRA_USERNAME and SERVICE_CASSANDRA_PASSWORD"
        return StoreRefused(f"Cassandra at {address} does not accept the credentials; {fix}")
    if any(isinstance(cause, InvalidRequest) for cause in causes):
        return StoreRefused(f"Cassandra has no keyspace {keyspace}; make it with: veristream migrate")
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if tls is not None:
        fix = "correct SERVICE_CASSANDRA_TLS and its _CA_FILE, _CERT_FILE and _KEY_FILE"
        return StoreRefused(f"Cassandra at {address} and we do not agree on TLS ({tls.reason}); {fix}")
    kinds = ", ".join(sorted({type(cause).__name__ for cause in causes})) or type(error).__name__
    fix = "start it, or correct SERVICE_CASSANDRA_CONTACT_POINTS and SERVICE_CASSANDRA_TLS"
    return StoreUnavailable(f"no Cassandra answers at {address} ({kinds}); {fix}")
