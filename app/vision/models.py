"""Read model files once, check their pinned SHA-256, and open them from the same bytes."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as state
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
from pydantic import StringConstraints

from app.vision.onnx_wire import keeps_weights_elsewhere
from schemas.base import Frozen
from schemas.problems import EngineFailed, VeristreamError

MODEL_BYTES_MAX: Final = 200 * 2**20
"""No model of the kinds read here comes near it; a wrong path often does."""

CHANNELS: Final = 3
"""Red, green, blue."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$", to_lower=True)]
"""A SHA-256 digest as 64 hexadecimal digits."""

Floats = NDArray[np.float32]
"""A tensor of single precision."""

Shape = Sequence[int | None]
"""Sizes of a tensor's axes; None is an axis of any size."""

_REFUSALS: Final = (
    state.EngineError,
    state.EPFail,
    state.Fail,
    state.InvalidArgument,
    state.InvalidGraph,
    state.InvalidProtobuf,
    state.NoModel,
    state.NoSuchFile,
    state.NotFound,
    state.NotImplemented,
    state.RuntimeException,
)


class ModelUnusable(VeristreamError):
    """A model is missing, altered or not of its contract; the message says how to fix it."""


class ModelFile(Frozen):
    """A model file of the operator's, pinned by its digest."""

    path: Path
    sha256: Sha256

    def open(self) -> "Network":
        """Read the file once, check those bytes and open them.

        Raises:
            ModelUnusable: It is missing, another file than the pinned one, or no single-file ONNX model.
        """
        return Network(read_pinned(self.path, self.sha256), self.path.name)


def read_pinned(path: Path, sha256: str) -> bytes:
    """Return the bytes of a model file after checking its digest.

    Raises:
        ModelUnusable: It cannot be read, is larger than `MODEL_BYTES_MAX`, or is another file.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MODEL_BYTES_MAX + 1)
    except OSError as error:
        raise ModelUnusable(
            f"{path}: {error.strerror}; put the model file there or correct its path"
        ) from error
    if len(raw) > MODEL_BYTES_MAX:
        raise ModelUnusable(f"{path}: larger than {MODEL_BYTES_MAX >> 20} MB; point to the model itself")
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise ModelUnusable(
            f"{path}: SHA-256 is {found}, but {sha256} is pinned; restore that file, "
            "or pin the new digest and thresholds measured for it"
        )
    return raw


class Network:
    """One ONNX graph on one CPU thread; any number of threads may run it at once."""

    def __init__(self, graph: bytes, name: str) -> None:
        """Open the graph; `name` is what errors call it.

        Raises:
            ModelUnusable: It is not a complete ONNX model, or it points to data in other files.
        """
        self.name = name
        try:
            external = keeps_weights_elsewhere(graph)
        except ValueError as error:
            raise ModelUnusable(f"{name}: not a whole ONNX file; fetch it again") from error
        if external:
            raise ModelUnusable(f"{name}: keeps weights in other files; export it as a single file")
        try:
            self._session = open_session(graph)
        except _REFUSALS as error:
            raise ModelUnusable(f"{name}: onnxruntime refuses it; export it again: {error}") from error

    def require(self, inputs: Mapping[str | None, Shape], outputs: Mapping[str | None, Shape]) -> None:
        """Check the declared names, types and shapes; the name None matches any.

        Raises:
            ModelUnusable: The declaration is not of the contract.
        """
        self._require("input", self._session.get_inputs(), inputs)
        self._require("output", self._session.get_outputs(), outputs)

    def input_shape(self) -> tuple[int | None, ...]:
        """Return the declared shape of the first input; an axis of any size is None."""
        shape = self._session.get_inputs()[0].shape
        return tuple(axis if isinstance(axis, int) else None for axis in shape)

    def run(self, tensor: NDArray[Any], outputs: Sequence[str] | None = None) -> list[Floats]:
        """Return the outputs for the one input, by name or in declared order.

        Raises:
            EngineFailed: The graph broke, or answered something that is not a number.
        """
        name = self._session.get_inputs()[0].name
        try:
            answers = [np.asarray(answer) for answer in self._session.run(outputs, {name: tensor})]
        except _REFUSALS as error:
            raise EngineFailed(f"{self.name}: {error}") from error
        if not all(np.isfinite(answer).all() for answer in answers):
            raise EngineFailed(f"{self.name}: the answer is not a number")
        return answers

    def probe(self, tensor: NDArray[Any], expected: Mapping[str | None, Shape]) -> None:
        """Run the model once and check its outputs.

        Raises:
            ModelUnusable: It breaks, answers something that is not a number, or another shape.
        """
        names = [name for name in expected if name] or None
        try:
            answers = self.run(tensor, names)
        except EngineFailed as error:
            raise ModelUnusable(f"{error}, on a probe picture; use a sound export") from error
        for answer, (name, shape) in zip(answers, expected.items(), strict=True):
            if not _fits(answer.shape, shape):
                raise ModelUnusable(f"{self.name}: output {name or ''} is {answer.shape}, not {tuple(shape)}")

    def _require(self, role: str, declared: Sequence[Any], wanted: Mapping[str | None, Shape]) -> None:
        found = {part.name: part for part in declared}
        if len(found) != len(wanted):
            raise ModelUnusable(f"{self.name}: {len(found)} {role}s, not {len(wanted)}; use the right kind")
        for name, shape in wanted.items():
            part = next(iter(found.values())) if name is None else found.get(name)
            if part is None:
                raise ModelUnusable(f"{self.name}: no {role} {name}; use a model of the configured kind")
            if part.type != "tensor(float)":
                raise ModelUnusable(f"{self.name}: {role} {part.name} is {part.type}; export it as float32")
            if not _fits(part.shape, shape):
                raise ModelUnusable(f"{self.name}: {role} {part.name} is {part.shape}, not {list(shape)}")


def _fits(declared: Sequence[int | str | None], wanted: Shape) -> bool:
    """Return whether a shape may be the wanted one; a symbolic axis may be anything."""
    return len(declared) == len(wanted) and all(
        axis is None or not isinstance(size, int) or size == axis
        for size, axis in zip(declared, wanted, strict=True)
    )


def open_session(graph: bytes) -> InferenceSession:
    """Open an ONNX graph to run as `session_options` says.

    The session holds weights of its own and needs the graph no more. Onnxruntime keeps it all the same, to
    open the session again with other providers: 54 MB of the default models.
    """
    session = InferenceSession(graph, session_options(), providers=["CPUExecutionProvider"])
    session._model_bytes = None  # noqa: SLF001 - nothing else lets go of it
    return session


def session_options() -> state.SessionOptions:
    """Return how every model runs: in one thread, as many runs as cores being the best throughput.

    Threads of a session would not survive the fork of a child, and they do not pay under load: on two cores
    that other work shared a verification took 891 ms of processor time and 2.4 s in one thread, 1,746 ms and
    2.7 s in two, which spin while they wait for each other. Beside nothing else two read a page in 644 ms
    instead of 650, and look at two faces in 160 instead of 230, for a sixth more processor time in all.
    """
    options = state.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = state.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = False  # sizes vary, and the arena only grows
    options.log_severity_level = 4
    return options
