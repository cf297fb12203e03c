"""Files that are not what they claim, or cost more than they should; each is small and made on the spot."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from PIL import Image

Made = Callable[[], bytes]


def picture(width: int = 320, height: int = 240, mode: str = "RGB") -> Image.Image:
    """Return a picture with some detail."""
    down, across = np.mgrid[:height, :width]
    waves = np.stack([across % 256, down % 256, (across * 3 + down * 5) % 256], axis=2).astype(np.uint8)
    return Image.fromarray(waves).convert(mode)


def written(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return the file of a picture."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Return one PNG chunk with its CRC."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, depth: int = 8, colour: int = 2, rows: bytes | None = None) -> bytes:
    """Return a PNG of black rows whose header says what it is given; small however large it claims to be."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    if rows is None:
        packer, row = zlib.compressobj(9), b"\0" * (1 + (width * channels * depth + 7) // 8)
        rows = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in parts)


def with_png_chunk(file: bytes, kind: bytes, body: bytes) -> bytes:
    """Put a chunk right behind the header."""
    return file[:33] + png_chunk(kind, body) + file[33:]


def with_jpeg_segment(file: bytes, marker: int, body: bytes) -> bytes:
    """Put a segment right behind the start of the image."""
    return file[:2] + bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body + file[2:]


def with_webp_chunk(file: bytes, kind: bytes, body: bytes) -> bytes:
    """Put a chunk right behind the picture of a simple WebP file."""
    end = 20 + int.from_bytes(file[16:20], "little")
    end += end & 1
    chunk = kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)
    return b"RIFF" + struct.pack("<I", len(file) - 8 + len(chunk)) + file[8:end] + chunk + file[end:]


def jpeg_of_size(width: int, height: int) -> bytes:
    """Return a JPEG whose frame header claims another size than its data has."""
    file = bytearray(written(picture(), "JPEG"))
    at = file.index(b"\xff\xc0")
    file[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(file)


def many_scans() -> bytes:
    """Return a progressive JPEG that repeats one of its scans a thousand times."""
    file = written(picture(), "JPEG", progressive=True)
    first = file.index(b"\xff\xda")
    second = file.index(b"\xff\xda", first + 2)
    return file[:second] + file[first:second] * 1000 + file[second:]


def bombs() -> Iterator[tuple[str, Made]]:
    """Yield files that claim or hold too many pixels."""
    yield "a PNG of 400 MP", lambda: png(20_000, 20_000, rows=zlib.compress(b"\0" * 1000))
    yield "a real PNG of 26 MP", lambda: png(6_500, 4_000)
    yield "a PNG 9000 px wide", lambda: png(9_000, 200)
    yield "a PNG of no height", lambda: png(500, 0, rows=b"")
    yield "a JPEG of 65535 x 65535", lambda: jpeg_of_size(65_535, 65_535)
    yield "a JPEG of no width", lambda: jpeg_of_size(0, 240)
    yield "a JPEG of a thousand scans", many_scans
    yield "a WebP of 16383 px", lambda: written(Image.new("L", (16_383, 200)), "WEBP", quality=1, method=0)


def broken() -> Iterator[tuple[str, Made]]:
    """Yield files that are cut off, damaged, empty or of another kind."""
    kinds = ("JPEG", "PNG", "WEBP")
    for kind in kinds:
        whole = written(picture(), kind)
        yield f"half a {kind}", partial(bytes, whole[: len(whole) // 2])
        yield f"a {kind} without its last bytes", partial(bytes, whole[:-9])
        yield f"the first bytes of a {kind}", partial(bytes, whole[:14])
    yield "nothing", lambda: b""
    yield "a text", lambda: b"GIF is pronounced as it is written" * 20
    yield "a GIF", lambda: written(picture(mode="P"), "GIF")
    yield "a BMP", lambda: written(picture(), "BMP")
    yield "a TIFF", lambda: written(picture(), "TIFF")
    yield "a PNG with damaged pixels", lambda: written(picture(), "PNG").replace(b"IDAT", b"IDAT!", 1)
    yield "a PNG whose data is not deflated", lambda: png(300, 200, rows=b"not zlib")
    yield "a PNG with an unknown critical chunk", lambda: with_png_chunk(png(300, 200), b"EVIL", b"x")


def double() -> Iterator[tuple[str, Made]]:
    """Yield files that are an image and something else, or several images."""
    archive = b"PK\x03\x04" + b"x" * 60 + b"PK\x05\x06" + b"\0" * 18
    yield "a JPEG and a ZIP", lambda: written(picture(), "JPEG") + archive
    yield "a JPEG and a page", lambda: written(picture(), "JPEG") + b"<html><script>alert(1)</script>"
    yield "a PNG and a ZIP", lambda: written(picture(), "PNG") + archive
    yield "a WebP and a ZIP", lambda: written(picture(), "WEBP") + archive
    yield "a PDF around a JPEG", lambda: b"%PDF-1.7\n" + written(picture(), "JPEG")
    frames = [picture(), picture().rotate(90)]
    yield (
        "an animated PNG",
        lambda: written(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=9),
    )
    yield (
        "an animated WebP",
        lambda: written(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=9),
    )


def refused() -> dict[str, Made]:
    """Return every file that must be refused as undecodable, by name."""
    return dict([*bombs(), *broken(), *double()])


@lru_cache(maxsize=1)
def _large(sampling: Image.Resampling) -> Image.Image:
    """Return noise of 25 MP; only the one asked for last is kept, for it weighs 75 MB."""
    noise = np.random.default_rng(1).integers(0, 255, (60, 93, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((6_200, 4_000), sampling)


def _soft(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    """Return the file of 25 MP that change softly."""
    return written(_large(Image.Resampling.BICUBIC).convert(mode), kind, **options)


def _flat(*, clear: bool, **options: Any) -> bytes:
    """Return the WebP of 25 MP in squares of one colour, `clear` with an alpha channel."""
    flat = _large(Image.Resampling.NEAREST)
    if clear:
        flat = flat.copy()
        flat.putalpha(flat.getchannel("R"))
    return written(flat, "WEBP", method=0, **options)


def _of_30_mb() -> bytes:
    """Return 30 MB of zeros, deflated."""
    return zlib.compress(b"\0" * 30_000_000, 9)


def _with_deep_text() -> bytes:
    """Return a PNG with a chunk of text that inflates to 30 MB."""
    file = png(300, 200)
    return file[:33] + png_chunk(b"zTXt", b"Comment\0\0" + _of_30_mb()) + file[33:]


def heavy() -> dict[str, Made]:
    """Return files that are allowed but costly, or stuffed, by name; each decodes."""
    profile = b"ICC_PROFILE\0\1\1" + b"\0" * 60_000
    return {
        "a JPEG of 25 MP": partial(_soft, "JPEG"),
        "a progressive JPEG of 25 MP in full colour": partial(_soft, "JPEG", progressive=True, subsampling=0),
        "a CMYK JPEG of 25 MP": partial(_soft, "JPEG", "CMYK"),
        "a WebP of 25 MP": partial(_soft, "WEBP", quality=60, method=0),
        "a lossless WebP of 25 MP": partial(_flat, clear=False, lossless=True, quality=0),
        "a WebP of 25 MP with alpha": partial(_flat, clear=True, quality=60),
        "a lossless WebP of 25 MP with alpha": partial(_flat, clear=True, lossless=True, quality=0),
        "a PNG of 25 MP with alpha": lambda: png(6_200, 4_000, colour=6),
        "a PNG of 25 MP with 16 bits": lambda: png(6_200, 4_000, depth=16, colour=0),
        "a JPEG with a deep profile": lambda: with_jpeg_segment(written(picture(), "JPEG"), 0xE2, profile),
        "a PNG with a text of 30 MB": _with_deep_text,
        "a PNG with an inflating profile": lambda: with_png_chunk(
            png(300, 200), b"iCCP", b"p\0\0" + _of_30_mb()
        ),
    }
