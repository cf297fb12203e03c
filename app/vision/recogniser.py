"""Recognise the text of a line with rapidocr's model, its last layer computed in pieces.

That layer gives each of 18,710 characters its probability at every step along the line: for a line of the
machine-readable zone 14 MB in each of three tensors, to find one maximum a step. In pieces they stay in the
processor's cache, and a verification takes 25 ms less. The answers are the same to the bit.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
from rapidocr import EngineType, LangRec
from rapidocr.ch_ppocr_rec import TextRecognizer
from rapidocr.ch_ppocr_rec.utils import CTCLabelDecode
from typing_extensions import override

from app.vision.models import CHANNELS, Floats, open_session
from app.vision.onnx_wire import Graph, Model, tensor

LINE_HEIGHT_PX: Final = 48
"""What the recogniser reads; taller crops are shrunk to it without aliasing."""
_BATCH: Final = 1
"""Lines recognised at once. All of a batch are padded to its widest: a page of long lines took 900 MiB of
memory six at a time, and 120 MiB and a quarter less processor time one by one."""
_FEATURES: Final = "p2o.pd_op.transpose.8.0"
"""What the last layer is computed from: lines, steps, `_FEATURE_SIZE`."""
_FEATURE_SIZE: Final = 120
_LAST_NODES: Final = ("p2o.pd_op.matmul.12.0", "Add.209", "p2o.pd_op.add.79.0", "fetch_name_0")
"""Outputs of the nodes of the last layer: product, sum, the same again, and probabilities."""
_WEIGHTS, _BIAS = "linear_8.w_0", "linear_8.b_0"
"""Its constants; all names are those of the one pinned file."""
_STEPS: Final = 32
"""Steps computed at once: 2.4 MB. Twelve fit the second cache of a core and take a fifth less alone, but in a
verification they save nothing: every piece reads the layer's 9 MB of weights again."""


class Options(dict[str, Any]):
    """Options as rapidocr reads them, by key and by attribute; anything not given is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


COMMON: Final = {"engine_type": EngineType.ONNXRUNTIME, "lang_type": LangRec.CH}
"""Options of both of rapidocr's parts."""


def open_recogniser(model: bytes) -> TextRecognizer:
    """Return rapidocr's recogniser over the bytes of its pinned model, in single precision.

    Quantised by onnxruntime, it does not read the same. With 8-bit weights alone (`quantize_dynamic`) a
    line takes as long, and of 246 lines of rendered pages, sharp, blurred, noisy and small, 107 have another
    text. With 8-bit activations as well, calibrated on 24 of the lines (`quantize_static`, per channel), it
    takes 16 ms instead of 30, and of 122 lines 9 have another text, among them one of the 8 of a
    machine-readable zone.
    """
    parts = Model(model)
    weights, bias = (parts.constant(name) for name in (_WEIGHTS, _BIAS))
    session = open_session(parts.without(_LAST_NODES, (_WEIGHTS, _BIAS), _features("lines")))
    shape = [CHANNELS, LINE_HEIGHT_PX, 4 * LINE_HEIGHT_PX]
    recogniser = TextRecognizer(Options(COMMON, session=session, rec_batch_num=_BATCH, rec_img_shape=shape))
    characters = recogniser.session.get_character_list()
    recogniser.postprocess_op = _LastLayer(characters, open_session(_last_layer(weights, bias)))
    return recogniser


def _features(*lines: str) -> bytes:
    return tensor(_FEATURES, "float32", [*lines, "steps", _FEATURE_SIZE])


def _last_layer(weights: Floats, bias: Floats) -> bytes:
    """Return the model from features of some steps to probabilities of each character."""
    graph = Graph("last-layer")
    product = graph.node("MatMul", _FEATURES, graph.constant(weights))
    graph.node("Softmax", graph.node("Add", product, graph.constant(bias)), output="answer", axis=1)
    return graph.to_bytes(_features(), tensor("answer", "float32", ["steps", len(bias)]))


class _LastLayer(CTCLabelDecode):
    """Turns features into texts and their scores."""

    def __init__(self, characters: Sequence[str], session: InferenceSession) -> None:
        super().__init__(character=list(characters))
        self._session = session

    @override
    def __call__(
        self,
        preds: Floats,
        return_word_box: bool = False,
        **kwargs: Any,
    ) -> tuple[list[tuple[str, float]], list[Any]]:
        texts = [self._read(line) for line in preds]
        return texts, []

    def _read(self, line: Floats) -> tuple[str, float]:
        """Return the text of one line and its score, as `CTCLabelDecode` does of all probabilities."""
        pieces = [self._likeliest(line[start : start + _STEPS]) for start in range(0, len(line), _STEPS)]
        places = np.concatenate([piece[0] for piece in pieces])
        scores = np.concatenate([piece[1] for piece in pieces])
        ((text, score),), _ = self.decode(places[None], scores[None], remove_duplicate=True)
        return text, score

    def _likeliest(self, steps: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Return the likeliest character of each step, and its probability."""
        chances = np.asarray(self._session.run(None, {_FEATURES: steps})[0])
        places = chances.argmax(axis=1)
        return places, chances[np.arange(len(places)), places]
