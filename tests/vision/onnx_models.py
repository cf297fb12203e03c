"""Small ONNX graphs that keep the operator contracts and behave predictably, and ways to break them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from app.vision.models import ModelFile


def model(
    inputs: Sequence[Any], outputs: Sequence[Any], nodes: Sequence[Any], **constants: NDArray[Any]
) -> Any:
    """Assemble a model and check it."""
    weights = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, weights)
    made = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(made, full_check=True)
    return made


def declared(name: str, *shape: int | str, element: int = TensorProto.FLOAT) -> Any:
    """Declare an input or output."""
    return helper.make_tensor_value_info(name, element, list(shape))


def embedder(*, side: int = 112, batch: int | str = 1, weight: float = 1.0) -> Any:
    """64 numbers from an 8 x 8 mosaic of the picture without its mean, by a seeded matrix."""
    matrix = np.random.default_rng(11).normal(0, weight, (192, 64)).astype(np.float32)
    nodes = [
        helper.make_node(
            "AveragePool", ["input"], ["tiles"], kernel_shape=[side // 8] * 2, strides=[side // 8] * 2
        ),
        helper.make_node("Flatten", ["tiles"], ["flat"]),
        helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[1]),
        helper.make_node("Sub", ["flat", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "matrix"], ["vector"]),
    ]
    return model(
        [declared("input", batch, 3, side, side)], [declared("vector", batch, 64)], nodes, matrix=matrix
    )


def liveness(*, classes: int = 3, weight: float = 1.0) -> Any:
    """The darker the crop, the livelier."""
    slopes = np.zeros((1, classes), np.float32)
    offsets = np.zeros(classes, np.float32)
    slopes[0, 1], offsets[1] = -weight / 16, 8
    nodes = [
        helper.make_node("GlobalAveragePool", ["input"], ["channels"]),
        helper.make_node("Flatten", ["channels"], ["flat"]),
        helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[1]),
        helper.make_node("MatMul", ["mean", "slopes"], ["sloped"]),
        helper.make_node("Add", ["sloped", "offsets"], ["logits"]),
    ]
    shapes = [declared("input", 1, 3, 80, 80)], [declared("logits", 1, classes)]
    return model(*shapes, nodes, slopes=slopes, offsets=offsets)


def detector(*, side: int = 128, leave_out: str = "") -> Any:
    """YuNet's outputs: whatever is red is a face twice the largest stride wide, with eyes above a mouth."""
    nodes: list[Any] = []
    outputs: list[Any] = []
    constants: dict[str, NDArray[Any]] = {
        "red": np.array([-1, -1, 1], np.float32).reshape(1, 3, 1, 1) / 255,
        "column": np.array([1, -1, 1], np.int64),
        "low": np.array(0, np.float32),
        "high": np.array(1, np.float32),
    }
    for stride in (8, 16, 32):
        cells = (side // stride) ** 2
        shown = [f"{part}_{stride}" for part in ("cls", "obj", "bbox", "kps")]
        nodes += _stride(stride)
        box, points = [0, 0, np.log(2), np.log(2)], [-0.3, -0.3, 0.3, -0.3, 0, 0, -0.2, 0.4, 0.2, 0.4]
        constants[f"box_{stride}"] = np.tile(np.array(box, np.float32), (1, cells, 1))
        constants[f"points_{stride}"] = np.tile(np.array(points, np.float32), (1, cells, 1))
        constants[f"on_{stride}"] = np.array(stride == 32, np.float32)
        outputs += [declared(name, 1, cells, size) for name, size in zip(shown, (1, 1, 4, 10), strict=True)]
    write_model = [output for output in outputs if output.name != leave_out]
    return model([declared("input", 1, 3, side, side)], write_model, nodes, **constants)


def _stride(stride: int) -> list[Any]:
    return [
        helper.make_node(
            "AveragePool", ["input"], [f"p{stride}"], kernel_shape=[stride] * 2, strides=[stride] * 2
        ),
        helper.make_node("Conv", [f"p{stride}", "red"], [f"r{stride}"]),
        helper.make_node("Clip", [f"r{stride}", "low", "high"], [f"c{stride}"]),
        helper.make_node("Reshape", [f"c{stride}", "column"], [f"cls_{stride}"]),
        helper.make_node("Mul", [f"cls_{stride}", f"on_{stride}"], [f"obj_{stride}"]),
        helper.make_node("Identity", [f"box_{stride}"], [f"bbox_{stride}"]),
        helper.make_node("Identity", [f"points_{stride}"], [f"kps_{stride}"]),
    ]


def in_half_precision(made: Any) -> Any:
    """The same graph behind an output of float16."""
    output = made.graph.output[0]
    made.graph.node.append(helper.make_node("Cast", [output.name], ["half"], to=TensorProto.FLOAT16))
    shape = [axis.dim_value for axis in output.type.tensor_type.shape.dim]
    made.graph.output[0].CopyFrom(declared("half", *shape, element=TensorProto.FLOAT16))
    return made


def with_weights_elsewhere(made: Any) -> Any:
    """The same graph, its first weight said to lie in another file."""
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    return made


def write_model(folder: Path, name: str, made: Any) -> ModelFile:
    """Write a model, or bytes, and pin what was written."""
    raw = made if isinstance(made, bytes) else made.SerializeToString()
    (folder / name).write_bytes(raw)
    return ModelFile(path=folder / name, sha256=hashlib.sha256(raw).hexdigest())
