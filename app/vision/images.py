"""Decode request bytes to pixels: check limits first, return one upright RGB picture without metadata."""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Final, TypeVar

import cv2
import numpy as np
from PIL import Image

from app.vision.containers import jpeg, png, webp
from app.vision.containers.base import Container, ImageFormat
from schemas.problems import ImageNotEvaluable, ImageUndecodable
from streams.vision_ports import Box, Picture, Pixels

MIN_SHORTER_SIDE_PX: Final = 160
"""Below it there is nothing to evaluate (G61)."""
MAX_SIDE_PX: Final = 8_000
"""G61, G97."""
MAX_PIXELS: Final = 25_000_000
"""G61, G97."""
MAX_WORK_PIXELS: Final = 12_500_000
"""Larger pictures are decoded at half size: a 12 MP photograph stays whole, and memory is bounded."""

_STRIP_ROWS: Final = 256
"""Rows converted at a time, so that no second whole picture stands in memory; even, for halving."""
_QUALITY_STORED: Final = 95
_QUALITY_CROP: Final = 92
_ORIENTATIONS: Final = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}
"""EXIF 2.32 section 4.6.4 A: (transposed, upside down, mirrored) for each value of the tag."""
_DAMAGE: Final = (
    OSError,
    SyntaxError,
    ValueError,
    struct.error,
    Image.DecompressionBombError,
    cv2.error,
)
"""What the decoders raise for bytes that are not the picture they claim to be, or where memory ran out."""
_ROOM_BYTES_A_PIXEL: Final = 8
"""What decoding takes at its most: 200 MB for a picture of `MAX_PIXELS`."""
_ROOM_MIN_BYTES: Final = 16 * 2**20
"""The same for the smallest picture, with the decoders' tables."""

Loaded = TypeVar("Loaded")

_Rows = Callable[[int, int], Image.Image]
"""Gives the rows of a decoded picture from one up to another."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Facts of an image's header, without decoding."""

    format: ImageFormat
    width: int
    """Upright, pixels."""
    height: int
    """Upright, pixels."""
    orientation: int
    """EXIF orientation, 1-8; from 5 on the stored picture lies on its side."""


def check_header(data: bytes) -> ImageHeader:
    """Read the structure and check the limits without decoding; cheap enough for the event loop.

    Raises:
        ImageUndecodable: Not one still JPEG, PNG or WebP, truncated, or over the limits of G61.
        ImageNotEvaluable: Its shorter side is below `MIN_SHORTER_SIDE_PX`.
    """
    container = _parse(data)
    sideways = container.orientation >= 5  # noqa: PLR2004 - EXIF: 5-8 swap the sides
    width, height = container.width, container.height
    if sideways:
        width, height = height, width
    return ImageHeader(container.format, width, height, container.orientation)


def strip_metadata(data: bytes) -> bytes:
    """Return the copy that may be stored: the same picture upright, without metadata.

    The pixels of an upright image are untouched and the work is cheap; one that EXIF turns is decoded,
    turned and written as JPEG, which takes as long as decoding and belongs in a thread.

    Raises:
        ImageUndecodable: As `check_header`, or its pixels cannot be decoded.
        ImageNotEvaluable: As `check_header`.
        MemoryError: As `decode`.
    """
    container = _parse(data)
    if container.orientation == 1:
        return container.stripped
    return _write_jpeg(_decode(container).pixels, _QUALITY_STORED)


def strip_upright(data: bytes) -> bytes | None:
    """Return the copy that may be stored if that takes no decoding, None if the image must be turned.

    Cheap enough for the event loop; raises as `check_header`.
    """
    container = _parse(data)
    return container.stripped if container.orientation == 1 else None


def decode(data: bytes) -> Picture:
    """Return the upright RGB picture; alpha is laid over white, more than 8 bits are cut to 8.

    Pictures over `MAX_WORK_PIXELS` come at half size. Colour profiles are not applied.

    Raises:
        ImageUndecodable: As `check_header`, or its pixels cannot be decoded.
        ImageNotEvaluable: As `check_header`.
        MemoryError: There is too little memory to find out.
    """
    return _decode(_parse(data))


def examine(data: bytes) -> None:
    """Find out whether `decode` gives a picture, for a third of what it costs where the picture is a JPEG.

    Its coded data are read to their end, but of each block of 8 x 8 pixels only the mean is computed.

    Raises:
        ImageUndecodable, ImageNotEvaluable, MemoryError: As `decode`.
    """
    container = _parse(data)
    if container.format is ImageFormat.JPEG:
        _undamaged(container, _read_coded)
    else:
        _decode(container)


def with_digest(picture: Picture) -> Picture:
    """Return the picture with its digest: SHA-256 of its size and pixels, 2 ms for a page of 1250 x 880."""
    digest = hashlib.sha256(repr(picture.pixels.shape).encode())
    digest.update(np.ascontiguousarray(picture.pixels).data)
    return Picture(picture.pixels, digest.hexdigest())


def encode_box(picture: Picture, box: Box) -> bytes:
    """Return one box of the picture as a JPEG without metadata, enlarged if it could not be decoded again.

    Raises:
        ImageNotEvaluable: The box lies outside the picture.
    """
    return _write_jpeg(_large_enough(cut(picture, box)), _QUALITY_CROP)


def _parse(data: bytes) -> Container:
    """Read the structure by the file's first bytes, and check the limits; no second copy of a clean file."""
    if data.startswith(jpeg.MAGIC):
        container = jpeg.parse(data)
    elif data.startswith(png.MAGIC):
        container = png.parse(data)
    elif webp.is_webp(data):
        container = webp.parse(data)
    else:
        raise ImageUndecodable("not a JPEG, PNG or WebP image")
    width, height = container.width, container.height
    if max(width, height) > MAX_SIDE_PX or width * height > MAX_PIXELS:
        raise ImageUndecodable(f"an image of {width} x {height} pixels is too large")
    if min(width, height) < MIN_SHORTER_SIDE_PX:
        raise ImageNotEvaluable(f"an image of {width} x {height} pixels is too small")
    if container.stripped == data:
        return Container(container.format, width, height, container.orientation, data)
    return container


def _decode(container: Container) -> Picture:
    """Decode what the parser copied, so no decoder ever sees a profile, a thumbnail or a comment."""
    pixels = _undamaged(container, _load_webp if container.format is ImageFormat.WEBP else _load)
    return Picture(np.ascontiguousarray(_upright(pixels, container.orientation)))


def _undamaged(container: Container, load: Callable[[Container], Loaded]) -> Loaded:
    """Return what a decoder makes of the picture, or raise what its failure means."""
    try:
        return load(container)
    except _DAMAGE as error:
        damage = error.with_traceback(None)  # its frames hold what the decoder took
    _require_room(container)
    raise ImageUndecodable("the picture cannot be decoded") from damage


def _require_room(container: Container) -> None:
    """Raise `MemoryError` unless a picture has room; the decoders report its lack as damage."""
    np.empty(max(_ROOM_BYTES_A_PIXEL * container.width * container.height, _ROOM_MIN_BYTES), np.uint8)


def _is_halved(container: Container) -> bool:
    return container.width * container.height > MAX_WORK_PIXELS


def _read_coded(container: Container) -> None:
    """Decode an eighth of a JPEG's sides, in colour: a decoder to grey would not look at damaged colours."""
    decoded = cv2.imdecode(np.frombuffer(container.stripped, np.uint8), cv2.IMREAD_REDUCED_COLOR_8)
    if decoded is None:
        raise ValueError("nothing was decoded")
    height, width = decoded.shape[:2]
    _require_size(container, (width, height), shrunk=8)


def _load(container: Container) -> Pixels:
    halve = _is_halved(container)
    with Image.open(BytesIO(container.stripped), formats=[container.format.value]) as image:
        _require_size(container, image.size)
        if halve:
            image.draft("RGB", (container.width // 2, container.height // 2))
        image.load()
        still_whole = halve and image.size == (container.width, container.height)
        return _to_rgb(lambda top, end: image.crop((0, top, image.width, end)), image.size, halve=still_whole)


def _load_webp(container: Container) -> Pixels:
    """Decode with OpenCV: it holds a WebP once or twice, Pillow five times (500 MB at 25 MP)."""
    decoded = cv2.imdecode(np.frombuffer(container.stripped, np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None:
        raise ValueError("nothing was decoded")
    height, width, channels = decoded.shape
    _require_size(container, (width, height))
    order = cv2.COLOR_BGRA2RGBA if channels == 4 else cv2.COLOR_BGR2RGB  # noqa: PLR2004 - with alpha

    def rows(top: int, end: int) -> Image.Image:
        return Image.fromarray(cv2.cvtColor(decoded[top:end], order))

    return _to_rgb(rows, (width, height), halve=_is_halved(container))


def _require_size(container: Container, size: tuple[int, int], shrunk: int = 1) -> None:
    if size != (-(-container.width // shrunk), -(-container.height // shrunk)):
        raise ImageUndecodable("the picture is not of the size its header says")


def _to_rgb(rows: _Rows, size: tuple[int, int], *, halve: bool) -> Pixels:
    """Convert strip by strip; Pillow's own whole conversions hold the picture twice."""
    step, (width, height) = (2 if halve else 1), size
    pixels = np.empty((-(-height // step), -(-width // step), 3), np.uint8)
    for top in range(0, height, _STRIP_ROWS):
        end = min(top + _STRIP_ROWS, height)
        strip = _strip_to_rgb(rows(top, end))
        if halve:
            strip = strip.reduce(2)
        pixels[top // step : -(-end // step)] = np.asarray(strip)
    return pixels


def _strip_to_rgb(strip: Image.Image) -> Image.Image:
    if strip.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip instead of scale
        return Image.fromarray((np.asarray(strip).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if not strip.has_transparency_data:
        return strip if strip.mode == "RGB" else strip.convert("RGB")
    covered = strip.convert("RGBA")
    white = Image.new("RGB", strip.size, "white")
    white.paste(covered, mask=covered.getchannel("A"))
    return white


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undo the camera's orientation: transpose first, then mirror top to bottom, then left to right."""
    transposed, upside_down, mirrored = _ORIENTATIONS[orientation]
    if transposed:
        pixels = pixels.transpose(1, 0, 2)
    return pixels[:: -1 if upside_down else 1, :: -1 if mirrored else 1]


def cut(picture: Picture, box: Box) -> Pixels:
    """Return the pixels in a box, or raise `ImageNotEvaluable` when it lies outside the picture."""
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    right, bottom = min(picture.width, round(box[2])), min(picture.height, round(box[3]))
    if left >= right or top >= bottom:
        raise ImageNotEvaluable("a box outside the picture")
    return picture.pixels[top:bottom, left:right]


def _large_enough(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    scale = MIN_SHORTER_SIDE_PX / min(height, width)
    if scale <= 1:
        return pixels
    size = max(MIN_SHORTER_SIDE_PX, round(width * scale)), max(MIN_SHORTER_SIDE_PX, round(height * scale))
    enlarged: Pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_CUBIC).astype(np.uint8)
    return enlarged


def _write_jpeg(pixels: Pixels, quality: int) -> bytes:
    written = BytesIO()
    Image.fromarray(pixels).save(written, "JPEG", quality=quality)
    return written.getvalue()
