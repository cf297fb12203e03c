"""Inspect a Cassandra cluster: nodes, replication, schema and clocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keyspace import schema_version
from app.adapters.cassandra.session import Statement

SAFE_COPIES: Final = 3
"""One copy may be lost or away, and a quorum of the others still answers."""

_LOCAL: Final = Statement("SELECT release_version, toUnixTimestamp(now()) FROM system.local")
_COPIES: Final = Statement("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?")


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of the cluster and the keyspace."""

    release: str
    nodes_up: int
    nodes: int
    """In our data centre."""
    schema: int
    copies: int
    """Replicas in our data centre; 0 when the keyspace has none there."""
    clock_ahead_s: float
    """How far the node's clock is ahead of ours."""


async def look_at(address: Address, keyspace: str) -> Seen:
    """Inspect the cluster and the keyspace.

    Raises:
        StoreUnavailable, StoreRefused: See `open_session`.
        SchemaRefused: A newer version migrated the keyspace.
    """
    async with open_session(address, keyspace) as session:
        ((release, its_millis),) = await session.execute(_LOCAL)
        ours = datetime.now(UTC).timestamp()
        ((replication,),) = await session.execute(_COPIES, (keyspace,))
        hosts = [host for host in session.cluster.metadata.all_hosts() if host.datacenter == address.local_dc]
        return Seen(
            release=release,
            nodes_up=sum(bool(host.is_up) for host in hosts),
            nodes=len(hosts),
            schema=await schema_version(session),
            copies=_copies(replication, address.local_dc),
            clock_ahead_s=its_millis / 1_000 - ours,
        )


def _copies(replication: Mapping[str, str], local_dc: str) -> int:
    if replication["class"].endswith("SimpleStrategy"):
        return int(replication["replication_factor"])
    return int(replication.get(local_dc, 0))
