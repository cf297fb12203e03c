from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from app.vision.faces.dlib_engine import (
    DETECTOR_PIN,
    EMBEDDER_PIN,
    LANDMARKS_PIN,
    load_core,
    load_embedder,
    weights_folder,
)
from app.vision.faces.dlib_format import (
    AddShortcut,
    Convolution,
    FullyConnected,
    Layer,
    Pool,
    Reader,
    Relu,
    Scale,
    read_layers,
    read_numbers,
    to_reals,
)
from app.vision.faces.dlib_graphs import detector_graph, embedder_graph
from app.vision.faces.landmarks import ShapePredictor
from app.vision.models import Floats, ModelUnusable, Network

RNG = np.random.default_rng(5)


def integer(value: int) -> bytes:
    """Write an integer as dlib does."""
    size = max((abs(value).bit_length() + 7) // 8, 1)
    return bytes([size | (0x80 if value < 0 else 0)]) + abs(value).to_bytes(size, "little")


def integers(*values: int) -> bytes:
    """Write several integers."""
    return b"".join(map(integer, values))


def tag(name: bytes) -> bytes:
    """Write a string as dlib does."""
    return integer(len(name)) + name


def tensor(values: Floats) -> bytes:
    """Write a tensor of one long axis."""
    return integers(2, values.size, 1, 1, 1) + values.astype("<f4").tobytes()


def alias(*sizes: int) -> bytes:
    """Write a view into a tensor."""
    return integers(1, *sizes)


def numbers(*shape: int) -> Floats:
    """Seeded numbers between -1 and 1."""
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def convolution(weights: Floats, bias: Floats, stride: int = 1, padding: int = 0) -> bytes:
    """Write a convolution and some of the solver's state that follows it."""
    filters, channels, rows, columns = weights.shape
    head = tag(b"con_4") + tensor(np.concatenate([weights.ravel(), bias]))
    sizes = integers(filters, rows, columns, stride, stride, padding, padding)
    return head + sizes + alias(filters, channels, rows, columns) + alias(1, filters, 1, 1) + b"110\x01\x02"


def affine(gamma: Floats, beta: Floats) -> bytes:
    """Write an affine layer."""
    views = alias(1, gamma.size, 1, 1) * 2
    return tag(b"affine_") + tensor(np.concatenate([gamma, beta])) + views + integer(0)


def normalisation(gamma: Floats, beta: Floats, means: Floats, variances: Floats) -> bytes:
    """Write a batch normalisation whose batch statistics differ from the running ones."""
    views = alias(1, gamma.size, 1, 1) * 2
    batch = tensor(numbers(gamma.size)) * 2
    rates = integers(100, 100) + integers(1, 0) * 4 + integers(1, -10)
    head = tag(b"bn_con2") + tensor(np.concatenate([gamma, beta]))
    return head + views + batch + tensor(means) + tensor(variances) + rates


def fully_connected(weights: Floats) -> bytes:
    """Write a fully connected layer without a bias."""
    inputs, outputs = weights.shape
    return tag(b"fc_2") + integers(outputs, inputs) + tensor(weights.ravel()) + integer(1)


WEIGHTS, BIAS = numbers(4, 3, 3, 3), numbers(4)
GAMMA, BETA = numbers(4), numbers(4)
MATRIX = numbers(16, 128)
TINY = convolution(WEIGHTS, BIAS, stride=74) + affine(GAMMA, BETA) + fully_connected(MATRIX)


def test_layers_are_read_in_order() -> None:
    kinds = [type(layer) for layer in read_layers(b"\x01\x02junk" + TINY + b"more junk")]

    assert kinds == [Convolution, Scale, FullyConnected]


def test_a_convolution_keeps_its_numbers() -> None:
    layer = read_layers(TINY)[0]

    assert isinstance(layer, Convolution)
    assert (layer.weights == WEIGHTS).all()
    assert (layer.bias == BIAS).all()
    assert (layer.stride, layer.padding) == (74, 0)


def test_a_normalisation_is_folded_from_its_running_statistics() -> None:
    means, variances = numbers(4), np.abs(numbers(4)) + np.float32(0.5)
    (layer,) = read_layers(normalisation(GAMMA, BETA, means, variances))

    assert isinstance(layer, Scale)
    factor = GAMMA / np.sqrt(variances + 2.0**-10)
    assert layer.gamma == pytest.approx(factor, abs=1e-6)
    assert layer.beta == pytest.approx(BETA - means * factor, abs=1e-6)


def test_a_tiny_network_computes_what_its_layers_say() -> None:
    chip = RNG.integers(0, 256, (1, 150, 150, 3), np.uint8)
    network = Network(embedder_graph(read_layers(TINY)), "tiny")

    pixels = (chip[0].astype(np.float64) - (122.782, 117.001, 104.298)) / 256
    corners = np.stack([[pixels[r : r + 3, c : c + 3] for c in (0, 74)] for r in (0, 74)])
    convolved = np.einsum("rchwk,fkhw->frc", corners, WEIGHTS) + BIAS[:, None, None]
    scaled = convolved * GAMMA[:, None, None] + BETA[:, None, None]
    assert network.run(chip)[0][0] == pytest.approx(scaled.ravel() @ MATRIX, abs=1e-4)


def test_a_residual_block_adds_its_input_with_zeros_at_the_far_ends() -> None:
    """One block over a max-pool: the branch doubles nothing but adds channels, the shortcut is pooled."""
    first, second = np.zeros((1, 3, 1, 1), np.float32), np.ones((2, 1, 1, 1), np.float32)
    first[0, 0] = 1.0
    layers: list[Layer] = [
        *(Convolution(first, np.zeros(1, np.float32), 75, 0), Relu(), Pool("max", 1, 1)),
        *(Convolution(second, np.ones(2, np.float32), 2, 0), Pool("avg", 2, 2), AddShortcut(), Relu()),
        FullyConnected(np.eye(2, 128, dtype=np.float32)),
    ]
    chip = np.full((1, 150, 150, 3), 255, np.uint8)
    answer = Network(embedder_graph(layers), "block").run(chip)[0][0]

    red = (255 - 122.782) / 256
    assert answer[:3] == pytest.approx([red + 1 + red, red + 1, 0], abs=1e-5)


@pytest.mark.parametrize("cut", [3, 40, 60, len(TINY) - 4])
def test_weights_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(ModelUnusable):
        embedder_graph(read_layers(TINY[:cut]))


def test_bytes_without_a_layer_are_refused() -> None:
    with pytest.raises(ModelUnusable, match="no layers"):
        read_layers(b"nothing of the kind")


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(fully_connected(MATRIX)[:-2] + integer(0), id="a bias in the last layer"),
        pytest.param(tag(b"max_pool_2") + integers(3, 2, 2, 2, 0, 0), id="an oblong pool"),
        pytest.param(
            convolution(WEIGHTS, BIAS)[:-5].replace(alias(4, 3, 3, 3), alias(4, 2, 3, 3)), id="no bias"
        ),
        pytest.param(tag(b"con_4") + integers(3, 1, 1, 1, 1), id="a tensor of another version"),
    ],
)
def test_a_layer_of_another_form_is_refused(layers: bytes) -> None:
    with pytest.raises(ModelUnusable):
        read_layers(layers)


@pytest.mark.parametrize("value", [0, 1, -1, 255, 256, -70_000, 2**40])
def test_an_integer_is_read(value: int) -> None:
    assert Reader(integer(value)).integer() == value


def test_a_stream_of_numbers_is_read_at_once() -> None:
    values = [int(v) for v in RNG.integers(-(2**31), 2**31, 50_000)]

    assert read_numbers(integers(*values)).tolist() == values


def test_a_stream_of_numbers_cut_short_is_refused() -> None:
    with pytest.raises(ModelUnusable, match="too early"):
        read_numbers(integers(5, 70_000)[:-1])


def test_a_float_is_its_mantissa_times_a_power_of_two() -> None:
    assert to_reals(np.array([[3, -1], [-5, 2]])).tolist() == [1.5, -20.0]


def stump_predictor(threshold: int) -> bytes:
    """Two landmarks and one tree of one comparison: the pixel at either landmark."""
    shape = integers(-4, -1) + integers(0, 0) * 2 + integers(1, 0) * 2
    leaves = [integers(-4, -1) + integers(move, -3) * 4 for move in (1, 0)]
    tree = integers(1, 0, 1, threshold, 0, 2) + b"".join(leaves)
    anchors, deltas = integers(1, 2, 0, 1), integers(1, 2) + integers(0, 0) * 4
    return integer(1) + shape + integers(1, 1) + tree + anchors + deltas


@pytest.mark.parametrize(("threshold", "moved"), [(50, 1 / 8), (150, 0)])
def test_a_tree_moves_the_landmarks_by_the_leaf_it_ends_in(threshold: int, moved: float) -> None:
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:4, :4] = 100
    points, _ = ShapePredictor.from_bytes(stump_predictor(threshold)).find(pixels, (0.0, 0.0, 8.0, 8.0))

    assert points[0] == pytest.approx([8 * moved * 3] * 2 if moved else [0, 0], abs=1e-4)


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-3], lambda raw: raw + b"\x01\x01", lambda raw: raw[2:]])
def test_a_shape_predictor_of_another_form_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ModelUnusable):
        ShapePredictor.from_bytes(spoil(stump_predictor(50)))


def test_a_missing_package_is_reported_with_its_fix() -> None:
    with pytest.raises(ModelUnusable, match="pip install face_recognition_models"):
        weights_folder("face_recognition_models_not_here")


def test_a_missing_file_is_reported_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match=r"No such file.*pip install --force-reinstall"):
        load_core(tmp_path)


def spoilt(folder: Path, name: str, raw: bytes) -> Path:
    """A folder with the pinned weights, but one file of other bytes."""
    for other, _ in (DETECTOR_PIN, EMBEDDER_PIN, LANDMARKS_PIN):
        if other != name:
            (folder / other).symlink_to(weights_folder() / other)
    (folder / name).write_bytes(raw)
    return folder


@pytest.mark.parametrize("pin", [DETECTOR_PIN, EMBEDDER_PIN, LANDMARKS_PIN])
def test_a_file_with_one_bit_turned_is_refused(tmp_path: Path, pin: tuple[str, str]) -> None:
    raw = bytearray((weights_folder() / pin[0]).read_bytes())
    raw[len(raw) // 2] ^= 1

    with pytest.raises(ModelUnusable, match=rf"{pin[0]}.*{pin[1]} is pinned.*pip install"):
        load_core(spoilt(tmp_path, pin[0], bytes(raw)))


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    raw = (weights_folder() / EMBEDDER_PIN[0]).read_bytes()[:-1]

    with pytest.raises(ModelUnusable, match="is pinned"):
        load_embedder(spoilt(tmp_path, EMBEDDER_PIN[0], raw))


@pytest.mark.parametrize(
    ("pin", "build"),
    [(EMBEDDER_PIN, embedder_graph), (DETECTOR_PIN, detector_graph)],
    ids=["embedder", "detector"],
)
def test_the_graphs_pass_the_onnx_checker(
    pin: tuple[str, str], build: Callable[[tuple[Layer, ...]], bytes]
) -> None:
    graph = build(read_layers((weights_folder() / pin[0]).read_bytes()))
    model = onnx.load_model_from_string(graph)
    onnx.checker.check_model(model, full_check=True)

    assert (model.ir_version, model.opset_import[0].version) == (9, 17)
