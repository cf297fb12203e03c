"""The parts of the driver in use; it ships no types, so they are `Any` in this one module."""

from typing import Any, Final

from cassandra import auth, cluster, policies, query
from cassandra.io import libevreactor

Cluster: Final[Any] = cluster.Cluster
ExecutionProfile: Final[Any] = cluster.ExecutionProfile
DEFAULT_PROFILE: Final[Any] = cluster.EXEC_PROFILE_DEFAULT  # type: ignore[has-type]  # ships no types
ResultSet: Final[Any] = cluster.ResultSet
LibevConnection: Final[Any] = libevreactor.LibevConnection
PlainTextAuthProvider: Final[Any] = auth.PlainTextAuthProvider
DCAwareRoundRobinPolicy: Final[Any] = policies.DCAwareRoundRobinPolicy
TokenAwarePolicy: Final[Any] = policies.TokenAwarePolicy
RetryPolicy: Final[Any] = policies.RetryPolicy
FallthroughRetryPolicy: Final[Any] = policies.FallthroughRetryPolicy
ExponentialReconnectionPolicy: Final[Any] = policies.ExponentialReconnectionPolicy
BatchStatement: Final[Any] = query.BatchStatement
LOGGED: Final[Any] = query.BatchType.LOGGED
dict_factory: Final[Any] = query.dict_factory
tuple_factory: Final[Any] = query.tuple_factory
