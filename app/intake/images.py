"""Decode images of a request: strict base64 to storable bytes; each error names its place in the body."""

import asyncio
import binascii
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from app.intake.body import SubmitBody
from schemas.problems import ImageNotEvaluable, ImageUndecodable, ProblemCode, Refused

MAX_IMAGE_BYTES: Final = 10_000_000
"""Decoded (G61, G97)."""

_MAX_PREFIX: Final = 100
"""Characters of a `data:` URL before its comma; longer ones are something else."""

_CHUNK: Final = 256 * 1024
"""Characters decoded at a time, a multiple of four: decoding holds the interpreter, so it takes turns."""

DOCUMENT: Final = "/document/image_base64"
SELFIE: Final = "/selfie_image_base64"


INLINE_BYTES: Final = 32 * 1024
"""Images up to here are looked at in the event loop: their structure is read in 0.2 ms at most."""


class ImageGate(Protocol):
    """Checks untrusted images (`app.vision.pooled.PooledImageDecoder` implements it)."""

    def strip_upright(self, data: bytes) -> bytes | None:
        """Do as `strip_metadata`, or return None when that would mean to decode and turn the image."""
        ...

    async def strip_metadata(self, data: bytes) -> bytes:
        """Check structure and limits, and return the copy that may be stored.

        Raises:
            ImageUndecodable: Not one still JPEG, PNG or WebP within the limits.
            ImageNotEvaluable: Too small.
            Overloaded: Too many images are being turned.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReceivedImage:
    """An image as it was sent."""

    pointer: str
    content: bytes
    digest: str
    """SHA-256, hexadecimal."""


@dataclass(frozen=True, slots=True)
class StorableImage:
    """An image as it may be stored: upright, without metadata."""

    content: bytes
    media_type: str


def encoded_length(body: SubmitBody) -> int:
    """Return how many characters of base64 there are to work on."""
    return len(body.document.image_base64) + len(body.selfie_image_base64)


def unpack(body: SubmitBody) -> tuple[ReceivedImage, ReceivedImage]:
    """Decode document and selfie.

    Raises:
        Refused: IMAGE_UNDECODABLE for what is not strict base64, PAYLOAD_TOO_LARGE before decoding.
    """
    return _decode(DOCUMENT, body.document.image_base64), _decode(SELFIE, body.selfie_image_base64)


def unpack_one(pointer: str, text: str) -> ReceivedImage:
    """Decode one image of a body, as `unpack` does two."""
    return _decode(pointer, text)


async def make_storable(gate: ImageGate, image: ReceivedImage) -> StorableImage:
    """Return what may be stored of an image, turned if it must be; a large one is read in a thread.

    Raises:
        Refused: IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE at its place.
        Overloaded: Too many images are being turned.
    """
    with _refused_at(image.pointer):
        if len(image.content) <= INLINE_BYTES:
            stored = gate.strip_upright(image.content)
        else:
            stored = await asyncio.to_thread(gate.strip_upright, image.content)
        if stored is None:
            stored = await gate.strip_metadata(image.content)
    return StorableImage(stored, _media_type(stored))


@contextmanager
def _refused_at(pointer: str) -> Iterator[None]:
    try:
        yield
    except ImageUndecodable:
        message = "Not one still JPEG, PNG or WebP within the limits."
        raise Refused.at(pointer, ProblemCode.IMAGE_UNDECODABLE, message) from None
    except ImageNotEvaluable:
        message = "The image is below the minimum size."
        raise Refused.at(pointer, ProblemCode.IMAGE_NOT_EVALUABLE, message) from None


def _media_type(content: bytes) -> str:
    if content.startswith(b"\xff\xd8"):
        return "image/jpeg"
    return "image/png" if content.startswith(b"\x89PNG") else "image/webp"


def _decode(pointer: str, text: str) -> ReceivedImage:
    start = _payload_start(pointer, text)
    if (len(text) - start) * 3 // 4 - text[-2:].count("=") > MAX_IMAGE_BYTES:
        message = f"The image has more than {MAX_IMAGE_BYTES} bytes."
        raise Refused.at(pointer, ProblemCode.PAYLOAD_TOO_LARGE, message)
    try:
        if len(text) - start <= _CHUNK:
            content = binascii.a2b_base64(text[start:], strict_mode=True)
        else:
            content = b"".join(_decoded(text, start))
    except ValueError:  # binascii.Error, and text that is not ASCII
        raise _not_base64(pointer) from None
    if not _is_canonical(text, start, content):
        raise _not_base64(pointer)
    return ReceivedImage(pointer, content, hashlib.sha256(content).hexdigest())


def _decoded(text: str, start: int) -> Iterator[bytes]:
    """Decode in turns; only the last may carry padding."""
    last = max(start, len(text) - _CHUNK)
    for begin in range(start, len(text), _CHUNK):
        chunk = text[begin : begin + _CHUNK]
        if begin < last and chunk.endswith("="):
            raise binascii.Error
        yield binascii.a2b_base64(chunk, strict_mode=True)


def _is_canonical(text: str, start: int, content: bytes) -> bool:
    """Return whether it is canonical base64 (whole groups of four, spare bits zero)."""
    last = content[-(len(content) % 3 or 3) :]
    return (len(text) - start) % 4 == 0 and text.endswith(binascii.b2a_base64(last, newline=False).decode())


def _payload_start(pointer: str, text: str) -> int:
    if not text.startswith("data:"):
        return 0
    prefix = text[:_MAX_PREFIX].partition(",")[0]
    if not prefix.endswith(";base64"):
        raise _not_base64(pointer)
    return len(prefix) + 1


def _not_base64(pointer: str) -> Refused:
    return Refused.at(pointer, ProblemCode.IMAGE_UNDECODABLE, "The image is not strict base64.")
