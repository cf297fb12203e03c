"""Parse the marker segments of a JPEG file (ITU-T T.81 annex B) and copy those of the picture."""

import re
from dataclasses import dataclass, field
from operator import mul
from typing import Final

from app.vision.containers.base import MAX_PARTS, Container, ImageFormat, exif_orientation, require
from schemas.problems import ImageUndecodable

MAGIC: Final = b"\xff\xd8\xff"

MAX_SCANS: Final = 64
"""Progressive encoders write about ten; each further one costs a pass over the whole picture."""

MAX_COEFFICIENT_BYTES: Final = 160_000_000
"""A picture of several scans is decoded to 16-bit coefficients; 25 MP in full colour are 150 MB."""

MAX_FILL_BYTES: Final = 1_024
"""0xFF before one marker (T.81 B.1.1.2 sets no bound); encoders write none or a few."""

MAX_TRAILER_BYTES: Final = 65_536
"""What editors and cameras append is a few bytes to some kilobytes."""

_OTHER_FILE: Final = re.compile(
    rb"PK[\x01-\x08]|%PDF|%!PS|\x7fELF|^MZ|^#!|Rar!|7z\xbc\xaf|\xfd7zXZ|MSCF|GIF8|\x89PNG|RIFF"
    rb"|<(?:!doctype|\?xml|\?php|html|head|body|script|svg|iframe|img|object|embed)",
    re.IGNORECASE,
)
"""By which other readers know an archive, a document, a program, a page or a picture, wherever it begins."""

_FILL: Final = re.compile(rb"\xff+")
_SCAN_END: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""In entropy-coded data 0xFF is followed by 0x00, a restart marker or more 0xFF; anything else ends it."""

_FRAME_HEADER: Final = re.compile(rb"\xff[\xc0-\xc2]..\x08(..)(..)", re.DOTALL)
"""T.81 B.2.2: marker, length, 8 bits a sample, height, width."""

_NEEDED: Final = frozenset({0xC4, 0xDB, 0xDD})
"""DHT, DQT, DRI."""
_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
"""Baseline, extended and progressive Huffman coding; the other frames are not what cameras write."""
_REFUSED: Final = frozenset(
    {0xC3, *range(0xC5, 0xC8), *range(0xC8, 0xD0), *range(0xD0, 0xD9), 0xDC, 0xDE, 0xDF}
)
_SOS, _EOI, _APP0, _APP1, _APP14 = 0xDA, 0xD9, 0xE0, 0xE1, 0xEE

_JFIF: Final = b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
"""A JFIF header without density or thumbnail: all it says is that the colours are YCbCr."""


@dataclass(slots=True)
class _Walk:
    """State of the parser."""

    stripped: list[bytes] = field(default_factory=lambda: [b"\xff\xd8"])
    width: int = 0
    height: int = 0
    components: int = 0
    coefficient_bytes: int = 0
    progressive: bool = False
    scans: int = 0
    orientation: int | None = None


def parse(data: bytes) -> Container:
    """Read the structure of a JPEG file.

    Raises:
        ImageUndecodable: It is truncated, damaged, of a rare coding, too costly, or also another file.
    """
    walk = _Walk()
    position = 2
    for _ in range(MAX_PARTS):
        marker, position = _next_marker(data, position)
        if marker == _EOI:
            break
        end = position + int.from_bytes(data[position : position + 2], "big")
        if not position + 2 <= end <= len(data):
            raise ImageUndecodable("a JPEG segment is cut off")
        position = _take(walk, marker, data, position, end)
    else:
        raise ImageUndecodable("a JPEG of too many segments")
    require(walk.scans > 0, "a JPEG without a picture")
    require(_may_follow(data[position:]), "a JPEG followed by another file")
    stripped = b"".join([*walk.stripped, b"\xff\xd9"])
    return Container(ImageFormat.JPEG, walk.width, walk.height, walk.orientation or 1, stripped)


def most_pixels(data: bytes) -> int:
    """Return how many pixels a JPEG that `parse` accepts has at most, for a tenth of what parsing costs.

    Other segments may hold what looks like a frame header; of all of them the largest counts.
    """
    most, found = 0, _FRAME_HEADER.search(data)
    while found is not None:
        most = max(most, int.from_bytes(found[1], "big") * int.from_bytes(found[2], "big"))
        found = _FRAME_HEADER.search(data, found.start() + 1)
    return most


def _next_marker(data: bytes, position: int) -> tuple[int, int]:
    """Return the marker at the position (fill bytes allowed) and where its segment begins."""
    if data[position : position + 1] == b"\xff" != data[position + 1 : position + 2] != b"":
        return data[position + 1], position + 2  # without fill bytes, as nearly always
    fill = _FILL.match(data, position, position + MAX_FILL_BYTES)
    if fill is None:
        raise ImageUndecodable("a JPEG marker is missing")
    position = fill.end()
    require(position < len(data), "the JPEG is cut off")
    require(data[position] != 0xFF, "a JPEG of too many fill bytes")  # noqa: PLR2004 - a fill byte
    return data[position], position + 1


def _take(walk: _Walk, marker: int, data: bytes, start: int, end: int) -> int:
    """Process the segment whose length field is at `start`; return the position of the next marker."""
    if marker in _REFUSED or marker <= 1:
        raise ImageUndecodable("a JPEG of an unusual coding")
    whole = data[start - 2 : end]  # the byte before a marker is always 0xFF
    body = whole[4:]
    if marker in _NEEDED:
        walk.stripped.append(whole)
    elif marker == _SOS:
        return _take_scan(walk, whole, data, end)
    elif marker in _FRAMES:
        _take_frame(walk, marker, body)
        walk.stripped.append(whole)
    elif marker == _APP0 and body.startswith(b"JFIF\0"):
        walk.stripped.append(_JFIF)
    elif marker == _APP14 and body.startswith(b"Adobe") and len(body) >= 12:  # noqa: PLR2004 - its fixed size
        walk.stripped.append(b"\xff\xee\x00\x0e" + body[:12])
    elif marker == _APP1 and body.startswith(b"Exif\0") and walk.orientation is None:
        walk.orientation = exif_orientation(body)
    return end


def _take_frame(walk: _Walk, marker: int, body: bytes) -> None:
    require(walk.width == 0, "a JPEG of several frames")
    require(len(body) >= 6 and len(body) == 6 + 3 * body[5], "a damaged JPEG frame")  # noqa: PLR2004 - T.81 B.2.2
    require(body[0] == 8, "a JPEG of more than 8 bits")  # noqa: PLR2004 - bits per sample
    walk.height = int.from_bytes(body[1:3], "big")
    walk.width = int.from_bytes(body[3:5], "big")
    walk.components = body[5]
    walk.progressive = marker == 0xC2  # noqa: PLR2004 - SOF2
    wide, tall = [factor >> 4 for factor in body[7::3]], [factor & 15 for factor in body[7::3]]
    require(walk.width > 0 and walk.height > 0 and bool(wide), "a JPEG without a size")
    require(min(wide + tall) >= 1 and max(wide + tall) <= 4, "damaged JPEG sampling")  # noqa: PLR2004 - T.81
    samples = sum(map(mul, wide, tall)) * walk.width * walk.height / (max(wide) * max(tall))
    walk.coefficient_bytes = int(2 * samples)


def _take_scan(walk: _Walk, header: bytes, data: bytes, start: int) -> int:
    """Keep one scan, from its header to the marker that ends its coded data."""
    require(walk.width > 0 and len(header) > 4, "a JPEG scan without a frame")  # noqa: PLR2004 - T.81 B.2.3
    walk.scans += 1
    require(walk.scans <= MAX_SCANS, "a JPEG of too many scans")
    if walk.progressive or header[4] < walk.components:
        require(walk.coefficient_bytes <= MAX_COEFFICIENT_BYTES, "a JPEG too large for its many scans")
    found = _SCAN_END.search(data, start)
    if found is None:
        raise ImageUndecodable("the JPEG is cut off")
    walk.stripped += [header, data[start : found.start()]]
    return found.start()


def _may_follow(tail: bytes) -> bool:
    """Return whether cameras and their programs write such bytes after the picture; they are removed.

    Zeros; further pictures of a multi-picture file (CIPA DC-007), such as the gain map of an HDR photo;
    the film of a motion photo; the block Samsung's cameras end their files with; any other short trailer
    that does not make the file another one too.
    """
    if not tail:
        return True
    padding = tail.lstrip(b"\0")
    known = padding.startswith(MAGIC) or tail[4:8] == b"ftyp" or tail.endswith(b"SEFT")
    return not padding or known or (len(tail) <= MAX_TRAILER_BYTES and _OTHER_FILE.search(tail) is None)
