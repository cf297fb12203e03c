"""The parts of the driver in use, which ships no types and is `Any` here alone.

With them, what its errors say of a request, and its execution profiles.
"""

from functools import lru_cache
from typing import Any, Final

import cassandra
from cassandra import (
    ConsistencyLevel,
    DriverException,
    RequestValidationException,
    auth,
    cluster,
    connection,
    policies,
    protocol,
    query,
    segment,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import ErrorMessage

segment.compute_crc24 = lru_cache(maxsize=4096)(segment.compute_crc24)
"""The checksum of a header, which says a length and little else: bit by bit in Python it takes 2.4 us."""

Cluster: Final[Any] = cluster.Cluster
ExecutionProfile: Final[Any] = cluster.ExecutionProfile
DEFAULT_PROFILE: Final[Any] = cluster.EXEC_PROFILE_DEFAULT  # type: ignore[has-type]  # ships no types
ResultSet: Final[Any] = cluster.ResultSet
Connection: Final[Any] = connection.Connection
PlainTextAuthProvider: Final[Any] = auth.PlainTextAuthProvider
DCAwareRoundRobinPolicy: Final[Any] = policies.DCAwareRoundRobinPolicy
TokenAwarePolicy: Final[Any] = policies.TokenAwarePolicy
RetryPolicy: Final[Any] = policies.RetryPolicy
FallthroughRetryPolicy: Final[Any] = policies.FallthroughRetryPolicy
ExponentialReconnectionPolicy: Final[Any] = policies.ExponentialReconnectionPolicy
BatchStatement: Final[Any] = query.BatchStatement
BoundStatement: Final[Any] = query.BoundStatement
ProtocolHandler: Final[Any] = protocol.ProtocolHandler
ExecuteMessage: Final[Any] = protocol.ExecuteMessage
BatchMessage: Final[Any] = protocol.BatchMessage
OperationTimedOut: Final[Any] = cassandra.OperationTimedOut
FETCH_SIZE_UNSET: Final[Any] = query.FETCH_SIZE_UNSET
LOGGED: Final[Any] = query.BatchType.LOGGED
dict_factory: Final[Any] = query.dict_factory
tuple_factory: Final[Any] = query.tuple_factory
AWAY: Final = (DriverException, NoHostAvailable, ConnectionException, ConnectionBusy, ErrorMessage)
"""What the driver raises when a request was not answered as asked."""

REFUSED: Final = (RequestValidationException, protocol.RequestValidationException)
"""Among them: the statement itself was refused."""

NEVER_SENT: Final = (*REFUSED, NoHostAvailable)
"""Among them: sending it again at once would change nothing, and nothing of it was done."""

NOT_TAKEN: Final = (ConnectionBusy, ConnectionException, NoConnectionsAvailable)
"""Raised where a connection takes nothing just now."""

PLAIN: Final = "plain"
"""Reads and writes at LOCAL_QUORUM; what was written is visible to the next read."""

LIGHTWEIGHT: Final = "lightweight"
"""Compare and set: Paxos at LOCAL_SERIAL, the write itself at LOCAL_QUORUM; the driver never repeats it."""

SERIAL: Final = "serial"
"""Reads at LOCAL_SERIAL, which first finish whatever Paxos left half done."""

REQUEST_S: Final = 4.0
"""How long an answer is waited for, in seconds; above Cassandra's own limits of about 2, so that its word,
which says what was not reached, comes first."""


def build_profiles(local_dc: str) -> dict[object, Any]:
    """Return the profiles for a data centre; nothing is sent speculatively."""
    plain = _profile(local_dc, ConsistencyLevel.LOCAL_QUORUM, tuple_factory, RetryPolicy())
    return {
        DEFAULT_PROFILE: plain,
        PLAIN: plain,
        LIGHTWEIGHT: _profile(
            local_dc, ConsistencyLevel.LOCAL_QUORUM, dict_factory, FallthroughRetryPolicy()
        ),
        SERIAL: _profile(local_dc, ConsistencyLevel.LOCAL_SERIAL, dict_factory, RetryPolicy()),
    }


def _profile(local_dc: str, consistency: int, rows: Any, retry: Any) -> Any:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=local_dc)),
        consistency_level=consistency,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=REQUEST_S,
        retry_policy=retry,
        row_factory=rows,
    )
