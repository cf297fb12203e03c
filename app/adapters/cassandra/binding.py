"""Bind values to prepared statements, alone and in batches, with the look at each column taken once."""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.query import UNSET_VALUE

from app.adapters.cassandra.driver import LOGGED, BatchStatement, BoundStatement

_SERIALISERS: Final[Mapping[str, Callable[[Any], bytes]]] = MappingProxyType(
    {
        "varchar": str.encode,
        "text": str.encode,
        "blob": bytes,
        "bigint": struct.Struct(">q").pack,
        "int": struct.Struct(">i").pack,
        "tinyint": struct.Struct(">b").pack,
        "boolean": struct.Struct(">?").pack,
    }
)
"""By the type of a column; any other type is serialised by the driver."""


class Prepared:
    """A statement as the driver prepared it."""

    def __init__(self, prepared: Any) -> None:
        self._prepared = prepared
        self.query_id: bytes = prepared.query_id
        protocol = prepared.protocol_version
        self._serialisers = [_serialiser(column.type, protocol) for column in prepared.column_metadata]

    def values(self, parameters: Sequence[object]) -> list[Any]:
        """Return the values as they are sent; there must be one for each `?`."""
        return [
            value if value is None or value is UNSET_VALUE else serialise(value)
            for serialise, value in zip(self._serialisers, parameters, strict=True)
        ]

    def bind(self, parameters: Sequence[object]) -> Any:
        """Return the statement with its values."""
        bound = BoundStatement(self._prepared)
        bound.raw_values, bound.values = parameters, self.values(parameters)
        return bound


class LoggedBatch(BatchStatement):  # type: ignore[misc]  # ships no types
    """Statements of which in the end all are carried out, or none."""

    def __init__(self, first: Any) -> None:
        """Begin with a bound statement, by whose partition the coordinator is chosen."""
        super().__init__(LOGGED, consistency_level=ConsistencyLevel.LOCAL_QUORUM)
        self.add(first)

    def append(self, prepared: Prepared, parameters: Sequence[object]) -> None:
        """Add a statement with its values."""
        self._statements_and_parameters.append((True, prepared.query_id, prepared.values(parameters)))


def _serialiser(column_type: Any, protocol: int) -> Callable[[Any], bytes]:
    own = _SERIALISERS.get(column_type.typename)
    return own or (lambda value: column_type.serialize(value, protocol))
