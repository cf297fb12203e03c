"""Settings of the embedded broker, and which of them are refused."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.broker.errors import RemoteAddressRefused
from schemas.enums import TextEnum

MIB: Final = 1024 * 1024
"""Bytes in a mebibyte."""

DAY_MS: Final = 24 * 60 * 60 * 1000
"""Milliseconds in a day."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """Every client must sign in with SCRAM."""

    users_file: Path
    """Written by `UserFiles`."""

    readable_topics: frozenset[str]
    """What users other than the service itself may read; they may do nothing else."""

    deadline_s: float = 10.0
    """How long a connection may take to sign in."""

    max_unauthenticated: int = 128
    """Connections that have not signed in; beyond it the oldest of them is closed."""


class Fsync(TextEnum):
    """When written records are flushed to disk."""

    INTERVAL = "interval"
    """Every `flush_interval_s`: a killed process loses nothing, a power cut at most that interval."""

    ALWAYS = "always"
    """Before they are acknowledged or shown to a reader, many producers sharing one fsync."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Directory, address, users and limits of the broker.

    Sizes are bytes, `_s` seconds, `_ms` milliseconds. Topic configurations override what they name.
    """

    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port; `Broker.port` says which."""

    authentication: Authentication | None = None
    """None: every connection may do everything. Only for a broker that nobody else can reach, as in tests."""

    advertised_host: str | None = None
    """The name given to clients; unset, the address they reached the broker at."""

    allow_remote: bool = False
    """The broker speaks no TLS, so a non-loopback host needs this said aloud."""

    fsync: Fsync = Fsync.INTERVAL
    flush_interval_s: float = 0.1
    auto_create_topics: bool = True
    default_partitions: int = 1
    segment_bytes: int = 16 * MIB
    compacted_segment_bytes: int = 4 * MIB
    """Smaller, because only closed segments are compacted and a table's recovery reads what is left."""

    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    """Largest record batch; Kafka's `message.max.bytes`."""

    upkeep_interval_s: float = 30.0
    """Between two sweeps of retention and compaction."""

    max_frame_bytes: int = 64 * MIB
    max_buffered_bytes: int = 256 * MIB
    """All half-read requests in sum; the connection that goes over it is closed."""

    max_connections: int = 1000
    max_fetch_bytes: int = 8 * MIB
    """Upper bound of one Fetch answer (a larger single batch still passes, KIP-74)."""

    max_fetch_wait_s: float | None = None
    """Caps a consumer's long poll; unset, the consumer decides."""

    group_initial_delay_s: float = 0.05
    """How long a new group waits for more members before its first generation."""

    max_group_members: int = 1000


def refuse_remote(settings: BrokerSettings) -> None:
    """Raise `RemoteAddressRefused` for an address other machines can reach, unless it is allowed."""
    if settings.allow_remote or is_loopback(settings.host):
        return
    raise RemoteAddressRefused(settings.host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`; names other than localhost count as remote."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
