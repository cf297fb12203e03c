"""Parse the RIFF chunks of a WebP file (RFC 9649) and copy those of the picture."""

from collections.abc import Iterator
from typing import Final

from app.vision.containers.base import (
    MAX_PARTS,
    Container,
    ImageFormat,
    exif_orientation,
    is_padding,
    require,
)
from schemas.problems import ImageUndecodable

_ALPHA: Final = 0x10
"""The one flag of the extended header that stays (RFC 9649 section 2.7.1)."""
_FRAMES: Final = frozenset({b"VP8 ", b"VP8L"})


def is_webp(data: bytes) -> bool:
    """Return whether the first bytes are those of a WebP file."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def parse(data: bytes) -> Container:
    """Read the structure of a WebP file.

    Raises:
        ImageUndecodable: It is truncated, damaged, animated, or also another file.
    """
    end = 8 + int.from_bytes(data[4:8], "little")
    require(end <= len(data), "the WebP is cut off")
    require(is_padding(data[end:]), "a WebP followed by another file")
    stripped: list[bytes | memoryview] = [b"WEBP"]
    canvas: tuple[int, int] | None = None
    frame: tuple[int, int] | None = None
    orientation: int | None = None
    for kind, body in _chunks(data, end):
        require(kind not in (b"ANIM", b"ANMF"), "a WebP of several frames")
        if kind == b"VP8X":
            require(canvas is None and frame is None and len(body) == 10, "a damaged WebP header")  # noqa: PLR2004
            canvas = _number(body, 4, 3) + 1, _number(body, 7, 3) + 1
            stripped += _chunk(kind, bytes([body[0] & _ALPHA, 0, 0, 0, *body[4:]]))
        elif kind in _FRAMES:
            require(frame is None, "a WebP of several frames")
            frame = _lossy_size(body) if kind == b"VP8 " else _lossless_size(body)
            stripped += _chunk(kind, body)
        elif kind == b"ALPH":
            stripped += _chunk(kind, body)
        elif kind == b"EXIF" and orientation is None:
            orientation = exif_orientation(bytes(body))
    if frame is None or (canvas or frame) != frame:
        raise ImageUndecodable("a WebP without a picture of its size")
    length = sum(map(len, stripped)).to_bytes(4, "little")
    return Container(ImageFormat.WEBP, *frame, orientation or 1, b"".join((b"RIFF", length, *stripped)))


def _chunks(data: bytes, end: int) -> Iterator[tuple[bytes, memoryview]]:
    """Give each chunk's name and body; bodies are views, a picture is up to 10 MB."""
    position, view = 12, memoryview(data)
    for _ in range(MAX_PARTS):
        if position >= end:
            return
        length = _number(data, position + 4, 4)
        stop = position + 8 + length
        require(stop <= end, "a WebP part is cut off")
        yield data[position : position + 4], view[position + 8 : stop]
        position = stop + (length & 1)
    raise ImageUndecodable("a WebP of too many parts")


def _chunk(kind: bytes, body: bytes | memoryview) -> tuple[bytes | memoryview, ...]:
    return kind + len(body).to_bytes(4, "little"), body, b"\0" * (len(body) & 1)


def _number(data: bytes | memoryview, start: int, length: int) -> int:
    return int.from_bytes(data[start : start + length], "little")


def _lossy_size(body: memoryview) -> tuple[int, int]:
    """Read the frame header of RFC 6386 section 9.1."""
    require(bytes(body[3:6]) == b"\x9d\x01\x2a" and not body[0] & 1, "a damaged WebP frame")
    return _number(body, 6, 2) & 0x3FFF, _number(body, 8, 2) & 0x3FFF


def _lossless_size(body: memoryview) -> tuple[int, int]:
    """Read the image header of RFC 9649 section 3.4."""
    require(bytes(body[:1]) == b"\x2f" and len(body) > 5, "a damaged WebP frame")  # noqa: PLR2004 - the header
    packed = _number(body, 1, 4)
    return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
