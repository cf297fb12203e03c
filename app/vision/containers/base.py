"""Common parts of the container parsers: format, size, orientation, and the picture without metadata."""

from dataclasses import dataclass
from typing import Final

from schemas.enums import TextEnum
from schemas.problems import ImageUndecodable

MAX_PARTS: Final = 4_096
"""Segments or chunks in one file. Encoders write some 8 KB each, so 10 MB make about 1,300; walking this many
takes 10 ms."""

_ENTRIES_MAX: Final = 512
"""Entries of an EXIF directory looked at; cameras write some 20."""
_ENTRY_BYTES: Final = 12

_ORIENTATION_TAG: Final = 0x0112
"""EXIF 2.32 section 4.6.4 A; the values 1-8 are the eight orientations of a camera."""

_EXIF_PREFIX: Final = b"Exif\0\0"


class ImageFormat(TextEnum):
    """The accepted formats (G61)."""

    JPEG = "JPEG"
    PNG = "PNG"
    WEBP = "WEBP"


@dataclass(frozen=True, slots=True)
class Container:
    """A parsed file: facts of its header, and the bytes of its picture."""

    format: ImageFormat
    width: int
    """As stored, before the orientation is applied."""
    height: int
    orientation: int
    """EXIF orientation, 1-8; 1 when none is given or it makes no sense."""
    stripped: bytes
    """The same picture in the same format without metadata, colour profile, thumbnails and trailing bytes."""


def require(holds: bool, complaint: str) -> None:  # noqa: FBT001 - reads as a sentence at the call
    """Raise `ImageUndecodable` with the complaint unless the condition holds."""
    if not holds:
        raise ImageUndecodable(complaint)


def is_padding(tail: bytes) -> bool:
    """Return whether nothing but zeros follows the end of the picture."""
    return not tail.strip(b"\0")


def exif_orientation(exif: bytes) -> int:
    """Return the orientation of an EXIF block (a TIFF file, perhaps prefixed), 1 without one."""
    tiff = exif.removeprefix(_EXIF_PREFIX)
    order = {b"II*\0": "little", b"MM\0*": "big"}.get(tiff[:4])
    if order is None:
        return 1

    def number(start: int, length: int) -> int:
        return int.from_bytes(tiff[start : start + length], "little" if order == "little" else "big")

    first = number(4, 4)
    available = max(0, len(tiff) - first - 2) // _ENTRY_BYTES
    for index in range(min(number(first, 2), available, _ENTRIES_MAX)):
        entry = first + 2 + _ENTRY_BYTES * index
        if number(entry, 2) == _ORIENTATION_TAG:
            value = number(entry + 8, 2)
            return value if 1 <= value <= 8 else 1  # noqa: PLR2004 - the tag's range
    return 1
