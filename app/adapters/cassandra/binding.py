"""Bind values to prepared statements, alone and in batches, and describe each column only once."""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.query import UNSET_VALUE
from typing_extensions import override

from app.adapters.cassandra.driver import (
    LOGGED,
    BatchStatement,
    BoundStatement,
    ExecuteMessage,
    ProtocolHandler,
)

_SKIP_METADATA: Final = 0x02
"""CQL binary protocol 5, section 4.1.4, among the flags."""
_HEADER_BYTES, _LENGTH_BYTES, _CONSISTENCY_BYTES, _FLAGS_BYTES = 9, 2, 2, 4

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

    @property
    def statements(self) -> list[Any]:
        """The statements as they are sent."""
        added: list[Any] = self._statements_and_parameters
        return added

    def append(self, prepared: Prepared, parameters: Sequence[object]) -> None:
        """Add a statement with its values."""
        self._statements_and_parameters.append((True, prepared.query_id, prepared.values(parameters)))


def _serialiser(column_type: Any, protocol: int) -> Callable[[Any], bytes]:
    own = _SERIALISERS.get(column_type.typename)
    return own or (lambda value: column_type.serialize(value, protocol))


class KnownColumns(ProtocolHandler):  # type: ignore[misc]  # ships no types
    """Messages as the driver writes them, but rows are asked for without the description of their columns.

    The driver has it since the statement was prepared, yet lets it come with every answer: to read a row of
    eleven columns then takes a quarter more processor time. Each request names what the driver has by a
    digest, and where the columns have changed since, the server describes them again.
    """

    @classmethod
    @override
    def encode_message(cls, msg: Any, *arguments: Any, **options: Any) -> bytes:
        """Return the message as bytes."""
        encoded: bytes = super().encode_message(msg, *arguments, **options)
        if not isinstance(msg, ExecuteMessage) or not msg.skip_meta:
            return encoded
        ids = 2 * _LENGTH_BYTES + len(msg.query_id) + len(msg.result_metadata_id)
        last = _HEADER_BYTES + ids + _CONSISTENCY_BYTES + _FLAGS_BYTES - 1
        return encoded[:last] + bytes((encoded[last] | _SKIP_METADATA,)) + encoded[last + 1 :]
