"""Parse the chunks of a PNG file (PNG specification, third edition) and copy those of the picture."""

from typing import Final

from app.vision.containers.base import (
    MAX_PARTS,
    Container,
    ImageFormat,
    exif_orientation,
    is_padding,
    require,
)

MAGIC: Final = b"\x89PNG\r\n\x1a\n"

_NEEDED: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
"""Critical chunks and transparency. No decoder here applies gamma or profiles, so they change no pixel."""
_ANIMATED: Final = frozenset({b"acTL", b"fcTL", b"fdAT"})
_LOWER: Final = 0x20
"""The bit of a chunk's first letter that says it may be ignored (section 5.4)."""


def parse(data: bytes) -> Container:
    """Read the structure of a PNG file.

    Raises:
        ImageUndecodable: It is truncated, damaged, animated, or also another file.
    """
    require(data[8:16] == b"\0\0\0\rIHDR", "a PNG without a header")
    stripped = [MAGIC]
    orientation: int | None = None
    position, kind = len(MAGIC), b""
    for _ in range(MAX_PARTS):
        kind = data[position + 4 : position + 8]
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        require(len(kind) == 4 and end <= len(data), "the PNG is cut off")  # noqa: PLR2004 - a chunk's name
        require(kind not in _ANIMATED, "a PNG of several frames")
        if kind in _NEEDED:
            stripped.append(data[position:end])
        elif kind == b"eXIf" and orientation is None:
            orientation = exif_orientation(data[position + 8 : end - 4])
        else:
            require(bool(kind[0] & _LOWER), "a PNG with an unknown part")
        position = end
        if kind == b"IEND":
            break
    require(kind == b"IEND", "a PNG of too many parts")
    require(is_padding(data[position:]), "a PNG followed by another file")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    require(width > 0 and height > 0, "a PNG without a size")
    return Container(ImageFormat.PNG, width, height, orientation or 1, b"".join(stripped))
