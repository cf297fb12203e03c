"""Read text with rapidocr's detector and recogniser on onnxruntime; no download ever happens."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import accumulate
from math import atan2, pi
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
from rapidocr.ch_ppocr_det import TextDetector
from rapidocr.ch_ppocr_det.utils import DetPreProcess
from rapidocr.ch_ppocr_rec import TextRecInput
from typing_extensions import override

from app.vision.models import ModelUnusable, open_session, read_pinned
from app.vision.recogniser import COMMON, LINE_HEIGHT_PX, Options, open_recogniser
from streams.vision_ports import Detail, Picture, Pixels, Quad, TextLine, TextReader

DETECTOR: Final = "PP-OCRv6_det_small.onnx"
DETECTOR_SHA256: Final = "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f"
"""The detector in rapidocr 3.10.0 (Apache-2.0)."""
RECOGNISER: Final = "PP-OCRv6_rec_small.onnx"
RECOGNISER_SHA256: Final = "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884"
"""The recogniser in rapidocr 3.10.0 (Apache-2.0)."""

MAX_LINES: Final = 200
"""Most boxes recognised on one picture: bounds the time a hostile page can take."""
MAX_TEXT_LENGTH: Final = 800.0
"""All lines of a page end to end, in line heights: a full page is some 400; 800 take 5 s to recognise."""
MAX_ASPECT: Final = 60.0
"""Longer boxes are rules and borders; a line of 44 characters is about 25 times as long as high."""

SQUEEZED_ASPECT: Final = 10.0
"""Lines from so many heights on are read squeezed when a coarse look is enough."""
SQUEEZED_TO: Final = 0.75
"""Share of its length: a line of OCR-B has 2.7 steps of the recogniser a letter instead of 3.6. Of 50 zones
on damaged pages all were read as well as at full length; at 0.65 one name lost its end."""

_SHORTER_SIDE_PX: Final = {Detail.COARSE: 480, Detail.FINE: 640}
"""Size of the copy searched for text: at 480 both lines of the machine zone are found, at 640 small print."""
_LONGER_SIDE_MAX_PX: Final = 2000
_CODE_SIDE_MAX_PX: Final = 1600
MAX_FINDERS: Final = 40
"""Finder patterns searched for QR codes: a code has three, a slip one or two codes, print a few likenesses.
OpenCV tries all triples of them: 40 take 0.4 s, 256 half a minute, with no bound of its own."""
FINDERS_OF_A_CODE: Final = 3
"""ISO/IEC 18004 section 6.3.3: one in each of three corners."""
_EDGES_MAX: Final = 0.15
"""Share of pixels that differ from their neighbour in black and white: print has 0.05, noise 0.5, and listing
the outlines of noise takes seconds."""


class _Detector(TextDetector):
    """rapidocr's detector, whose input takes a tenth of the time to make."""

    @override
    def get_preprocess(self) -> DetPreProcess:
        return _Normaliser(_LONGER_SIDE_MAX_PX, "max", self.mean, self.std)


class _Normaliser(DetPreProcess):
    """Makes the detector's input by table; rapidocr computes every pixel in float64."""

    @override
    def __call__(self, img: Pixels) -> NDArray[np.float32] | None:
        resized = self.resize(img)
        if resized is None:
            return None
        values = self.normalize(np.arange(256, dtype=np.uint8)[:, None]).astype(np.float32)
        height, width, channels = resized.shape
        made = np.empty((1, channels, height, width), np.float32)
        for channel, plane in enumerate(cv2.split(resized)):
            made[0, channel] = cv2.LUT(plane, np.ascontiguousarray(values[:, channel]))
        return made


class RapidTextReader(TextReader):
    """`TextReader` over rapidocr in the process of the models; it blocks, and serves one thread."""

    def __init__(self, models: Path | None = None) -> None:
        """Check and load the models of the installed rapidocr, or of the folder given.

        Raises:
            ModelUnusable: A model is missing or not the pinned one; nothing is fetched instead.
        """
        folder = models or _packaged_models()
        detector = open_session(read_pinned(folder / DETECTOR, DETECTOR_SHA256))
        recogniser = read_pinned(folder / RECOGNISER, RECOGNISER_SHA256)
        cv2.setNumThreads(1)
        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self.model_version = f"ppocrv6-small@{DETECTOR_SHA256[:8]}+{RECOGNISER_SHA256[:8]}"
        self._eyes = _Eyes(detector, recogniser)

    def warm(self) -> None:
        """Read a small page, so that the first request does not pay for it."""
        page = np.full((480, 680, 3), 255, np.uint8)
        cv2.putText(
            page, "P<UTOSPECIMEN<<READY<<<<<<<<<<<<<<<<", (20, 240), cv2.FONT_HERSHEY_PLAIN, 1.6, (0, 0, 0)
        )
        self._eyes.read(page, self._eyes.find(page, Detail.FINE))

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return self._eyes.find(picture.pixels, detail)

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        return self._eyes.read(picture.pixels, quads, detail)

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return self._eyes.read_codes(picture.pixels)


class _Eyes:
    """The detector and the recogniser."""

    def __init__(self, detector: InferenceSession, recogniser: bytes) -> None:
        limits = {"limit_type": "max", "limit_side_len": _LONGER_SIDE_MAX_PX}
        self._detector = _Detector(Options(COMMON, **limits, session=detector))
        self._recogniser = open_recogniser(recogniser)
        self._codes = cv2.QRCodeDetector()

    def find(self, pixels: Pixels, detail: Detail) -> tuple[Quad, ...]:
        """Detect text in a copy of the given size; the quads are in pixels of the picture itself."""
        height, width = pixels.shape[:2]
        scale = min(_SHORTER_SIDE_PX[detail] / min(height, width), _LONGER_SIDE_MAX_PX / max(height, width))
        found = self._detector(cv2.cvtColor(_scaled(pixels, scale), cv2.COLOR_RGB2BGR)).boxes
        if found is None:
            return ()
        quads = [_quad(box / scale) for box in np.asarray(found, np.float64)]
        quads = [quad for quad in quads if 1 / MAX_ASPECT <= _aspect(quad) <= MAX_ASPECT]
        largest = sorted(range(len(quads)), key=lambda index: -_area(quads[index]))[:MAX_LINES]
        lengths = accumulate(max(1.0, _aspect(quads[index])) for index in largest)
        chosen = [index for index, total in zip(largest, lengths, strict=True) if total <= MAX_TEXT_LENGTH]
        return tuple(quads[index] for index in sorted(chosen))

    def read(
        self, pixels: Pixels, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        """Recognise each quad's line."""
        return tuple(self._line(pixels, quad, detail) for quad in quads)

    def _line(self, pixels: Pixels, quad: Quad, detail: Detail) -> TextLine:
        crop = _crop(pixels, quad)
        if crop is None:
            return TextLine("", 0.0, quad)
        if detail is Detail.COARSE:
            crop = _squeezed(crop)
        answer = self._recogniser(TextRecInput(img=[crop]))
        (text,), (score,) = answer.txts or ("",), answer.scores
        return TextLine(text, float(score), quad)

    def read_codes(self, pixels: Pixels) -> tuple[str, ...]:
        """Decode QR codes on a copy of bounded size."""
        scale = min(1.0, _CODE_SIDE_MAX_PX / max(pixels.shape[:2]))
        grey = cv2.cvtColor(_scaled(pixels, scale), cv2.COLOR_RGB2GRAY)
        finders = count_finders(grey)
        if finders > MAX_FINDERS:
            return ()
        _, several, _, _ = self._codes.detectAndDecodeMulti(grey)
        texts = tuple(text for text in several if text)
        if texts or finders < FINDERS_OF_A_CODE:
            return texts
        one, _, _ = self._codes.detectAndDecode(grey)  # reads some clean codes that the other does not
        return (one,) if one else ()


def count_finders(grey: NDArray[Any]) -> int:
    """Count the finder patterns of QR codes (ISO/IEC 18004 section 6.3.3).

    Noise counts as too many.
    """
    _, black = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    if np.count_nonzero(black[:, 1:] != black[:, :-1]) > _EDGES_MAX * black.size:
        return MAX_FINDERS + 1
    outlines, tree = cv2.findContours(black, cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE)
    if not outlines:
        return 0
    parents = tree[0][:, 3]
    outer = np.where(parents >= 0, parents[parents], -1)
    (inside,) = np.nonzero(outer >= 0)
    count = 0
    for index in inside.tolist():
        _, _, inner_width, inner_height = cv2.boundingRect(outlines[index])
        _, _, width, height = cv2.boundingRect(outlines[int(outer[index])])
        count += _is_finder(width, inner_width) and _is_finder(height, inner_height)
    return count


def _is_finder(outer: int, inner: int) -> bool:
    """Return whether a side of seven modules may hold one of three."""
    return 1.7 * inner < outer < 4.5 * inner


def _packaged_models() -> Path:
    """Return the folder of models inside the installed rapidocr package."""
    spec = find_spec("rapidocr")
    if spec is None or spec.origin is None:
        raise ModelUnusable("rapidocr is not installed; install veristream's dependencies")
    return Path(spec.origin).parent / "models"


def _scaled(pixels: Pixels, scale: float) -> Pixels:
    if scale == 1:
        return pixels
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, size, interpolation=way), np.uint8)


def _quad(box: NDArray[np.float64]) -> Quad:
    """Return the corners as if the picture were upright, the first side running more across than down.

    The detector begins at the upper of the two leftmost corners, which on a steep line is either end of it.
    """
    across, down = box[1] - box[0]
    first = -round(atan2(down, across) / (pi / 2)) % 4
    one, two, three, four = ((float(x), float(y)) for x, y in np.roll(box, -first, axis=0))
    return one, two, three, four


def _sides(quad: Quad) -> tuple[float, float]:
    """Return the line's length and height, the longer of each two opposite sides."""
    corners = np.array(quad)
    along, down = corners[[1, 2]] - corners[[0, 3]], corners[[3, 2]] - corners[[0, 1]]
    return float(np.hypot(*along.T).max()), float(np.hypot(*down.T).max())


def _aspect(quad: Quad) -> float:
    length, height = _sides(quad)
    return length / max(height, 1.0)


def _area(quad: Quad) -> float:
    length, height = _sides(quad)
    return length * height


def _crop(pixels: Pixels, quad: Quad) -> Pixels | None:
    """Cut one line out of the full-size picture and lay it level; None when nothing is left of it."""
    length, height = (round(side) for side in _sides(quad))
    if length < 2 or height < 2 or length > MAX_ASPECT * height:  # noqa: PLR2004 - pixels to interpolate between
        return None
    level = np.array([(0, 0), (length, 0), (length, height), (0, height)], np.float32)
    warp = cv2.getPerspectiveTransform(np.array(quad, np.float32), level)
    crop = cv2.warpPerspective(
        pixels, warp, (length, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    if height > LINE_HEIGHT_PX:
        size = max(2, round(length * LINE_HEIGHT_PX / height)), LINE_HEIGHT_PX
        crop = cv2.resize(crop, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(crop, cv2.COLOR_RGB2BGR), np.uint8)


def _squeezed(crop: Pixels) -> Pixels:
    """Return a long line with its letters narrower; a short one, which takes little time, as it is."""
    height, length = crop.shape[:2]
    if length < SQUEEZED_ASPECT * height:
        return crop
    size = round(SQUEEZED_TO * length), height
    return np.asarray(cv2.resize(crop, size, interpolation=cv2.INTER_AREA), np.uint8)
