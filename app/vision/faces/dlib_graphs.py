"""Convert dlib's layers to ONNX graphs: face embedder (ResNet v1) and face detector (mmod)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from app.vision.faces.dlib_format import AddShortcut, Convolution, FullyConnected, Layer, Pool, Relu, Scale
from app.vision.models import CHANNELS, ModelUnusable
from app.vision.onnx_wire import Graph, tensor

MEAN_RGB: Final = (122.782, 117.001, 104.298)
"""What both networks subtract from a pixel before they divide by `PIXEL_RANGE` (dlib/dnn/input.h)."""

PIXEL_RANGE: Final = 256.0

CHIP_SIDE: Final = 150
"""Side of the aligned face the embedder looks at, pixels."""

EMBEDDING_SIZE: Final = 128

_CHANNEL_MULTIPLE: Final = 16
"""Channels are filled up with zeros to a multiple of this: onnxruntime's blocked convolutions need it."""


def embedder_graph(layers: Sequence[Layer]) -> bytes:
    """Return the ONNX model from aligned faces (n, 150, 150, 3 of uint8) to vectors (n, 128).

    Raises:
        ModelUnusable: The layers are not those of the network.
    """
    plan = _Plan("dlib-resnet-v1", "chips", CHIP_SIDE)
    for layer in _foldings(layers):
        plan.add(layer)
    source = tensor("chips", "uint8", ["n", CHIP_SIDE, CHIP_SIDE, CHANNELS])
    return plan.to_bytes(source, ["n", EMBEDDING_SIZE])


def detector_graph(layers: Sequence[Layer]) -> bytes:
    """Return the ONNX model from a picture (1, h, w, 3 of uint8) to scores (1, 1, rows, columns).

    Raises:
        ModelUnusable: The layers are not those of the network.
    """
    plan = _Plan("dlib-mmod", "picture", None)
    *inner, last = _widened(list(_foldings(layers)))
    for layer in inner:
        plan.add(layer)
    plan.add_scores(last)
    return plan.to_bytes(tensor("picture", "uint8", [1, "h", "w", CHANNELS]), [1, 1, "rows", "columns"])


class _Plan:
    """An ONNX graph under construction, with the start of a shortcut's block."""

    def __init__(self, name: str, source: str, side: int | None) -> None:
        self._graph = Graph(name)
        floats = self._graph.node("Cast", source, to=1)
        self._now = self._graph.node("Transpose", floats, perm=[0, 3, 1, 2])
        self._shape = (CHANNELS, side or 0)
        self._block = (self._now, self._shape)
        self._shortcut: tuple[str, tuple[int, int]] | None = None

    def add(self, layer: Layer) -> None:
        """Add one layer."""
        match layer:
            case Convolution():
                self._convolve(layer)
            case Relu():
                self._now = self._graph.node("Relu", self._now)
                if self._shortcut is not None:
                    self._block, self._shortcut = (self._now, self._shape), None
            case Pool(window=0):
                self._now = self._graph.node("GlobalAveragePool", self._now)
            case Pool(kind="max"):
                self._now, self._shape = self._pool("MaxPool", layer, (self._now, self._shape))
                self._block = (self._now, self._shape)
            case Pool():
                self._shortcut = self._pool("AveragePool", layer, self._block)
            case AddShortcut():
                self._sum(self._shortcut or self._block)
            case FullyConnected():
                flat = self._graph.node("Flatten", self._now)
                self._now = self._graph.node("MatMul", flat, self._graph.constant(layer.weights))
            case Scale():
                raise ModelUnusable("a scale without its convolution; use the pinned weights")

    def add_scores(self, layer: Layer) -> None:
        """Add a convolution of one filter, which onnxruntime would pad to `_CHANNEL_MULTIPLE`, in two.

        First each column of the filter as a filter of its own, then the sum of what they answer, each shifted
        by its column: a ninth of the work for nine columns.

        Raises:
            ModelUnusable: The layer is not of one filter.
        """
        if not isinstance(layer, Convolution) or len(layer.weights) != 1 or layer.stride != 1:
            raise ModelUnusable("the last layer is of unknown form; use the pinned weights")
        columns = layer.weights.shape[3]
        upright = layer.weights[0].transpose(2, 0, 1)[..., None]
        shifts = np.eye(columns, dtype=np.float32)[None, :, None]
        no_bias, down, across = np.zeros(columns, np.float32), [layer.padding, 0], [0, layer.padding]
        self._slide(Convolution(upright, no_bias, 1, layer.padding), down)
        self._slide(Convolution(shifts, layer.bias, 1, layer.padding), across)

    def to_bytes(self, source: bytes, shape: Sequence[int | str]) -> bytes:
        """Return the model."""
        self._graph.node("Identity", self._now, output="answer")
        return self._graph.to_bytes(source, tensor("answer", "float32", shape))

    def _convolve(self, layer: Convolution) -> None:
        filters, _, rows, _ = layer.weights.shape
        self._slide(layer, [layer.padding] * 2)
        self._shape = (filters, _slid(self._shape[1] + 2 * layer.padding, rows, layer.stride))

    def _slide(self, layer: Convolution, padding: Sequence[int]) -> None:
        """Add the node of a convolution, padded by rows and columns of zeros."""
        _, _, rows, columns = layer.weights.shape
        self._now = self._graph.node(
            "Conv",
            self._now,
            self._graph.constant(layer.weights),
            self._graph.constant(layer.bias),
            kernel_shape=[rows, columns],
            strides=[layer.stride] * 2,
            pads=[*padding, *padding],
        )

    def _pool(
        self, operator: str, layer: Pool, of: tuple[str, tuple[int, int]]
    ) -> tuple[str, tuple[int, int]]:
        name, (channels, side) = of
        window, strides = [layer.window] * 2, [layer.stride] * 2
        pooled = self._graph.node(operator, name, kernel_shape=window, strides=strides)
        return pooled, (channels, _slid(side, layer.window, layer.stride))

    def _sum(self, shortcut: tuple[str, tuple[int, int]]) -> None:
        """Add the shortcut; dlib fills the smaller operand with zeros at the far ends."""
        common = (max(self._shape[0], shortcut[1][0]), max(self._shape[1], shortcut[1][1]))
        grown = [self._grow(name, shape, common) for name, shape in ((self._now, self._shape), shortcut)]
        self._now, self._shape = self._graph.node("Add", *grown), common
        self._shortcut = shortcut

    def _grow(self, name: str, shape: tuple[int, int], to: tuple[int, int]) -> str:
        if shape == to:
            return name
        channels, side = to[0] - shape[0], to[1] - shape[1]
        return self._graph.node(
            "Pad", name, self._graph.constant(np.array([0, 0, 0, 0, 0, channels, side, side], np.int64))
        )


def _slid(size: int, window: int, stride: int) -> int:
    return (size - window) // stride + 1


def _foldings(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Fold each scale into the convolution before it, and the pixel's scaling into the first one."""
    pending: Convolution | None = None
    first = True
    for layer in layers:
        if isinstance(layer, Scale) and pending is not None:
            yield _scaled(pending, layer)
            pending = None
            continue
        if pending is not None:
            yield pending
            pending = None
        if isinstance(layer, Convolution):
            pending = _fed_with_pixels(layer) if first else layer
            first = False
        else:
            yield layer
    if pending is not None:
        yield pending


def _scaled(layer: Convolution, scale: Scale) -> Convolution:
    gamma = scale.gamma.astype(np.float64)
    weights = layer.weights * gamma[:, None, None, None]
    bias = layer.bias * gamma + scale.beta
    return replace(layer, weights=weights.astype(np.float32), bias=bias.astype(np.float32))


def _fed_with_pixels(layer: Convolution) -> Convolution:
    """Return the convolution that takes 0-255; exact because the first one pads nothing."""
    if layer.padding or layer.weights.shape[1] != CHANNELS:
        raise ModelUnusable("the first convolution is of unknown form; use the pinned weights")
    weights = layer.weights.astype(np.float64) / PIXEL_RANGE
    offset = (weights * np.array(MEAN_RGB)[None, :, None, None]).sum(axis=(1, 2, 3))
    bias = layer.bias - offset
    return replace(layer, weights=weights.astype(np.float32), bias=bias.astype(np.float32))


def _widened(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Pad every inner channel count to a multiple of `_CHANNEL_MULTIPLE`; the added channels stay zero."""
    convolutions = [layer for layer in layers if isinstance(layer, Convolution)]
    for layer in layers:
        if not isinstance(layer, Convolution):
            yield layer
            continue
        filters, channels = layer.weights.shape[:2]
        more = 0 if layer is convolutions[-1] else -filters % _CHANNEL_MULTIPLE
        wider = 0 if layer is convolutions[0] else -channels % _CHANNEL_MULTIPLE
        weights = np.pad(layer.weights, ((0, more), (0, wider), (0, 0), (0, 0)))
        yield replace(layer, weights=weights, bias=np.pad(layer.bias, (0, more)))
