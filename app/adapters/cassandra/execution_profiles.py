"""Execution profiles of the driver: consistency, timeouts and retries."""

from typing import Any, Final

from cassandra import ConsistencyLevel

from app.adapters.cassandra.driver import (
    DEFAULT_PROFILE,
    DCAwareRoundRobinPolicy,
    ExecutionProfile,
    FallthroughRetryPolicy,
    RetryPolicy,
    TokenAwarePolicy,
    dict_factory,
    tuple_factory,
)

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
