"""Write and read the few ONNX protobuf messages in use (onnx.proto3, IR version 9).

The package onnx would add 25 MiB and an import of 0.2 s for these messages; only the tests use it. Converting
dlib's embedder takes 0.2 s of processor time at the start, so no converted file is stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

IR_VERSION: Final = 9
OPSET: Final = 17
"""Both old enough for every onnxruntime in range, and what the tests' checker is asked to hold us to."""

ELEMENT_TYPES: Final = {"float32": 1, "uint8": 2, "int64": 7}
"""TensorProto.DataType."""

Attribute = int | Sequence[int]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS_MAX: Final = 63

_INSIDE: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Which fields of which message hold messages a tensor can hide in."""

_EXTERNAL, _DATA_LOCATION = 13, 14

_MODEL_GRAPH, _GRAPH_NODE, _GRAPH_CONSTANT, _GRAPH_ANSWER = 7, 1, 5, 12
_NODE_OUTPUT, _TENSOR_DIMS, _TENSOR_NAME, _TENSOR_RAW = 2, 1, 8, 9


class Graph:
    """A graph under construction: add constants and nodes, then write the model."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: NDArray[Any]) -> str:
        """Add an initializer and return its name."""
        name = f"c{len(self._constants)}"
        dims = b"".join(_integer(1, size) for size in values.shape)
        element = _integer(2, ELEMENT_TYPES[values.dtype.name])
        raw = _text(9, np.ascontiguousarray(values).tobytes())
        self._constants.append(dims + element + _text(8, name) + raw)
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Attribute) -> str:
        """Add a node of one output and return the output's name."""
        output = output or f"n{len(self._nodes)}"
        parts = [_text(1, name) for name in inputs] + [_text(2, output), _text(4, operator)]
        parts += [_text(5, _attribute(name, value)) for name, value in attributes.items()]
        self._nodes.append(b"".join(parts))
        return output

    def to_bytes(self, source: bytes, answer: bytes) -> bytes:
        """Serialise the model; `source` and `answer` come from `tensor`."""
        graph = b"".join(_text(1, node) for node in self._nodes) + _text(2, self._name)
        graph += b"".join(_text(5, constant) for constant in self._constants)
        graph += _text(11, source) + _text(12, answer)
        opset = _text(1, "") + _integer(2, OPSET)
        return _integer(1, IR_VERSION) + _text(2, "veristream") + _text(7, graph) + _text(8, opset)


class Model:
    """A model that is read, to take its constants and to leave out its last nodes.

    Raises:
        ValueError: The bytes are not a whole protobuf message.
    """

    def __init__(self, model: bytes) -> None:
        self._fields = [*_fields(memoryview(model))]
        (graph,) = (value for number, value in self._fields if number == _MODEL_GRAPH)
        self._graph = [*_fields(_message(graph))]

    def constant(self, name: str) -> NDArray[np.float32]:
        """Return an initializer of single precision; raises `KeyError` when there is none of the name."""
        for number, value in self._graph:
            if number == _GRAPH_CONSTANT and _names(value, _TENSOR_NAME) == [name]:
                parts = [*_fields(_message(value))]
                shape = [part for field, part in parts if field == _TENSOR_DIMS and isinstance(part, int)]
                (raw,) = (_message(part) for field, part in parts if field == _TENSOR_RAW)
                return np.frombuffer(raw, "<f4").reshape(shape)
        raise KeyError(name)

    def without(self, outputs: Sequence[str], constants: Sequence[str], answer: bytes) -> bytes:
        """Return the model without the nodes of these outputs and without these constants.

        `answer` declares its output instead, see `tensor`.
        """
        gone = {(_GRAPH_NODE, name) for name in outputs} | {(_GRAPH_CONSTANT, name) for name in constants}
        named = {_GRAPH_NODE: _NODE_OUTPUT, _GRAPH_CONSTANT: _TENSOR_NAME}
        left = [
            (number, value)
            for number, value in self._graph
            if number != _GRAPH_ANSWER
            and not (
                number in named and gone.intersection((number, name) for name in _names(value, named[number]))
            )
        ]
        graph = _joined([*left, (_GRAPH_ANSWER, memoryview(answer))])
        return _joined(
            (number, memoryview(graph) if number == _MODEL_GRAPH else value) for number, value in self._fields
        )


def tensor(name: str, element: str, shape: Sequence[int | str]) -> bytes:
    """Return the declaration of a graph's input or output; a string names an axis of any size."""
    axes = [_integer(1, axis) if isinstance(axis, int) else _text(2, axis) for axis in shape]
    shaped = b"".join(_text(1, axis) for axis in axes)
    kind = _text(1, _integer(1, ELEMENT_TYPES[element]) + _text(2, shaped))
    return _text(1, name) + _text(2, kind)


def keeps_weights_elsewhere(model: bytes) -> bool:
    """Return whether any tensor of an ONNX model is in another file.

    Raises:
        ValueError: The bytes are not a whole protobuf message.
    """
    return _hides_external(memoryview(model), "model")


def _hides_external(message: memoryview, kind: str) -> bool:
    for number, value in _fields(message):
        inner = _INSIDE.get(kind, {}).get(number)
        if inner and isinstance(value, memoryview) and _hides_external(value, inner):
            return True
        if kind == "tensor" and (number == _EXTERNAL or (number == _DATA_LOCATION and value != 0)):
            return True
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield field numbers and values of one protobuf message (Protocol Buffers, "Encoding")."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        wire = key & 7
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
        if wire in (_VARINT, _BYTES):
            size, at = _read_varint(message, at)
        elif not size:
            raise ValueError("unknown wire type")
        if wire == _VARINT:
            yield key >> 3, size
            continue
        if at + size > len(message):
            raise ValueError("the message ends too early")
        yield key >> 3, message[at : at + size]
        at += size


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number in place of a message")  # noqa: TRY004 - of the bytes, not of the caller
    return value


def _names(message: int | memoryview, field: int) -> list[str]:
    """Return the texts of one field of a message."""
    return [
        bytes(_message(value)).decode() for number, value in _fields(_message(message)) if number == field
    ]


def _joined(fields: Iterable[tuple[int, int | memoryview]]) -> bytes:
    """Serialise a message of numbers and byte strings."""
    return b"".join(
        _integer(number, value) if isinstance(value, int) else _text(number, bytes(value))
        for number, value in fields
    )


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS_MAX + 1, 7):
        if at >= len(message):
            raise ValueError("the message ends too early")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
    raise ValueError("a number is too long")


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _integer(3, value) + _integer(20, 2)
    return _text(1, name) + b"".join(_integer(8, item) for item in value) + _integer(20, 7)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _text(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | _BYTES) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
