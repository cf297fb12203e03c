"""Three hundred and more hostile images, each made from its name and a seed: what an attacker would send."""

import random
import struct
import zlib
from collections.abc import Iterator
from functools import cache, partial
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from app.demo.specimens import PassportSpecimen, SlipSpecimen, draw_card_slip, draw_passport, to_jpeg
from tests.specimens.hostile import (
    Made,
    double,
    heavy,
    jpeg_of_size,
    picture,
    png,
    png_chunk,
    refused,
    with_jpeg_segment,
    with_png_chunk,
    written,
)

FORMATS: Final = ("JPEG", "PNG", "WEBP")
SEED: Final = 13


@cache
def corpus() -> dict[str, Made]:
    """Return every hostile image, by name; the same ones at every call."""
    kinds = (
        qr_pages(), near_zones(), exif_blocks(), fill_bytes(), profiles(), dimensions(), scans(),
        animations(), polyglots(), cut_off(), flipped(), dense_pictures(),
    )  # fmt: skip
    made = {name: make for kind in kinds for name, make in kind}
    return {**made, **refused(), **heavy()}


def finder(unit: int) -> Image.Image:
    """Return one finder pattern of a QR code."""
    square = np.zeros((7, 7), np.uint8)
    square[1:6, 1:6] = 255
    square[2:5, 2:5] = 0
    return Image.fromarray(np.kron(square, np.ones((unit, unit), np.uint8))).convert("RGB")


def qr_page(count: int, unit: int, *, slip: bool = True) -> bytes:
    """Return a NIN slip, or a blank page, with `count` finder patterns around its print."""
    page = Image.new("RGB", (1600, 1600), "white")
    if slip:
        page.paste(draw_card_slip(SlipSpecimen()).resize((1600, 1000)), (0, 600))
    columns = max(1, round((count * 2.6) ** 0.5))
    step = max(7 * unit + 2, (1600 - 7 * unit) // columns)
    pattern, chance = finder(unit), random.Random(count)
    for index in range(count):
        at = index % columns * step, index // columns * step
        page.paste(pattern, (at[0] + chance.randrange(2), at[1] % 590 + chance.randrange(2)))
    return to_jpeg(page, 95)


def qr_pages() -> Iterator[tuple[str, Made]]:
    """Yield pages full of finder patterns: OpenCV's search takes minutes from some 500 on."""
    for count in (9, 25, 40, 41, 64, 121, 256, 400, 625, 841):
        for unit in (2, 3, 4):
            yield f"{count} finder patterns of {unit} px on a slip", partial(qr_page, count, unit)
    for count in (121, 841):
        yield f"{count} finder patterns on a blank page", partial(qr_page, count, 3, slip=False)


def text_page(lines: list[str], size: tuple[int, int] = (1700, 2400), height: int = 26) -> bytes:
    """Return a page of lines in one type."""
    page = Image.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(height)
    step = max(height + 4, (size[1] - 20) // max(1, len(lines)))
    for row, line in enumerate(lines):
        pen.text((10, 10 + row * step), line, fill="black", font=font)
    return to_jpeg(page)


def near_zones() -> Iterator[tuple[str, Made]]:
    """Yield pages of lines that are almost those of a machine-readable zone."""
    for count in (2, 6, 20, 80):
        for seed in range(3):
            chance = random.Random(f"{count} {seed}")
            near = ["".join(chance.choice("0O1I2Z5S8B6G<") for _ in range(44)) for _ in range(count)]
            yield f"{count} near lines of a zone, {seed}", partial(text_page, near)
    first, second = PassportSpecimen().lines()
    yield "forty zones", lambda: text_page([first, second] * 40)
    yield "a page of digits", lambda: text_page(["1234 567 8901 " * 5] * 60)


def exif(entries: int, *, first: int = 8, order: str = "II", claimed: int | None = None) -> bytes:
    """Return an EXIF block of empty entries whose directory may claim more than there are."""
    packing = "<" if order == "II" else ">"
    head = order.encode() + struct.pack(packing + "HI", 42, first)
    return head + struct.pack(packing + "H", claimed or entries) + b"\0" * (12 * entries)


def exif_blocks() -> Iterator[tuple[str, Made]]:
    """Yield files with EXIF blocks that are many, long, or point nowhere."""
    blocks = {
        "empty": exif(0, claimed=65_535),
        "claiming 65535 entries": exif(2, claimed=65_535),
        "of 600 entries": exif(600),
        "pointing behind its end": exif(1, first=4_000_000_000),
        "pointing at itself": exif(1, first=0),
        "of the other byte order": exif(20, order="MM", claimed=60_000),
    }
    for kind, block in blocks.items():
        for count in (1, 300, 2_000):
            yield f"{count} EXIF blocks {kind} in a PNG", partial(_repeated_png, block, count)
            yield f"{count} EXIF blocks {kind} in a JPEG", partial(_repeated_jpeg, block, count)
            yield f"{count} EXIF blocks {kind} in a WebP", partial(_repeated_webp, block, count)


def _repeated_png(block: bytes, count: int) -> bytes:
    plain = png(300, 200)
    return plain[:33] + png_chunk(b"eXIf", block) * count + plain[33:]


def _repeated_jpeg(block: bytes, count: int) -> bytes:
    plain = written(picture(), "JPEG")
    body = b"Exif\0\0" + block
    return plain[:2] + (b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body) * count + plain[2:]


def _repeated_webp(block: bytes, count: int) -> bytes:
    plain = written(picture(), "WEBP")
    chunk = b"EXIF" + struct.pack("<I", len(block)) + block + b"\0" * (len(block) & 1)
    return b"RIFF" + struct.pack("<I", len(plain) - 8 + len(chunk) * count) + plain[8:] + chunk * count


def fill_bytes() -> Iterator[tuple[str, Made]]:
    """Yield JPEG files with runs of fill bytes, in front of a marker and inside the coded data."""
    plain = written(picture(), "JPEG")
    scan = plain.index(b"\xff\xda") + 30
    for length in (3, 1_000, 32_000, 438_000, 5_000_000, 9_900_000):
        yield f"{length} fill bytes before a marker", partial(_spliced, plain, 2, b"\xff" * length)
        yield f"{length} fill bytes in the scan", partial(_spliced, plain, scan, b"\xff" * length)
        yield f"{length} bytes FF 00 in the scan", partial(_spliced, plain, scan, b"\xff\0" * (length // 2))
        yield f"{length} zeros behind the picture", partial(_spliced, plain, len(plain), b"\0" * length)


def _spliced(file: bytes, at: int, more: bytes) -> bytes:
    return file[:at] + more + file[at:]


def profiles() -> Iterator[tuple[str, Made]]:
    """Yield files with colour profiles and texts that are long, many, or inflate."""
    for size in (100_000, 10_000_000, 60_000_000):
        deep = zlib.compress(b"\0" * size, 9)
        yield f"an iCCP of {size}", partial(with_png_chunk, png(300, 200), b"iCCP", b"p\0\0" + deep)
        yield f"a zTXt of {size}", partial(with_png_chunk, png(300, 200), b"zTXt", b"c\0\0" + deep)
        yield f"an iTXt of {size}", partial(with_png_chunk, png(300, 200), b"iTXt", b"c\0\1\0\0\0" + deep)
        yield f"pixel data that inflates to {size}", partial(png, 200, 200, rows=deep)
    for count in (2, 100, 255):
        yield f"{count} parts of a profile in a JPEG", partial(_profile_parts, count)
    for count in (1_000, 20_000, 200_000):
        yield f"{count} empty text chunks", partial(_chunks, count)
        yield f"{count} empty comments", partial(_comments, count)


def _profile_parts(count: int) -> bytes:
    file = written(picture(), "JPEG")
    for number in range(count, 0, -1):
        body = b"ICC_PROFILE\0" + bytes((number, count)) + b"\0" * 30_000
        file = with_jpeg_segment(file, 0xE2, body)
    return file


def _chunks(count: int) -> bytes:
    plain = png(300, 200)
    return plain[:33] + png_chunk(b"tEXt", b"a\0") * count + plain[33:]


def _comments(count: int) -> bytes:
    plain = written(picture(), "JPEG")
    return plain[:2] + b"\xff\xfe\0\2" * count + plain[2:]


def dimensions() -> Iterator[tuple[str, Made]]:
    """Yield files that claim sizes their data does not have, and real ones at and over the limits."""
    sizes = (
        (0, 0),
        (1, 1),
        (159, 300),
        (1, 65_535),
        (65_535, 1),
        (8_001, 200),
        (8_000, 3_126),
        (65_535, 65_535),
    )
    for width, height in sizes:
        yield f"a JPEG claiming {width} x {height}", partial(jpeg_of_size, width, height)
        yield (
            f"a PNG claiming {width} x {height}",
            partial(png, width, height, rows=zlib.compress(b"\0" * 999)),
        )
    for width, height in ((2**31 - 1, 2**31 - 1), (2**31, 1), (100_000, 100_000), (5_000, 5_001)):
        yield (
            f"a PNG claiming {width} x {height}",
            partial(png, width, height, rows=zlib.compress(b"\0" * 999)),
        )
    for width, height in ((160, 8_000), (8_000, 160), (5_000, 5_000), (3_125, 8_000)):
        yield f"a real PNG of {width} x {height}", partial(png, width, height)
        for kind in ("JPEG", "WEBP"):
            yield f"a real {kind} of {width} x {height}", partial(_plain, kind, width, height)


def _plain(kind: str, width: int, height: int) -> bytes:
    return written(Image.new("RGB", (width, height), (200, 180, 160)), kind, quality=70)


def scans() -> Iterator[tuple[str, Made]]:
    """Yield progressive JPEG files that repeat a scan."""
    for count in (10, 60, 70, 3_000):
        for side in (300, 3_000):
            yield f"a JPEG of {side} px that repeats a scan {count} times", partial(_scans, count, side)


def _scans(count: int, side: int) -> bytes:
    file = written(picture(side, side), "JPEG", progressive=True)
    first = file.index(b"\xff\xda")
    second = file.index(b"\xff\xda", first + 2)
    return file[:second] + file[first:second] * count + file[second:]


def animations() -> Iterator[tuple[str, Made]]:
    """Yield files of several frames."""
    for kind in ("PNG", "WEBP", "GIF"):
        for count in (2, 40):
            yield f"a {kind} of {count} frames", partial(_frames, kind, count)


def _frames(kind: str, count: int) -> bytes:
    frames = [picture(200, 200).rotate(7 * number) for number in range(count)]
    return written(frames[0], kind, save_all=True, append_images=frames[1:], duration=20)


def polyglots() -> Iterator[tuple[str, Made]]:
    """Yield files that are an image and something else."""
    yield from double()
    others = {
        "an archive": b"PK\x03\x04" + b"x" * 60,
        "a page": b"<html><script>alert(1)</script></html>",
        "a program": b"\x7fELF\2\1\1" + b"\0" * 200,
        "a script": b"#!/bin/sh\necho owned\n",
        "a document": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
        "a GIF": b"GIF89a\1\0\1\0\0\0\0;",
    }
    for kind in FORMATS:
        for name, other in others.items():
            plain = written(picture(), kind)
            yield f"a {kind} before {name}", partial(bytes, plain + other)
            yield f"a {kind} behind {name}", partial(bytes, other + plain)


def cut_off() -> Iterator[tuple[str, Made]]:
    """Yield files cut at a random place."""
    chance = random.Random(SEED)
    for kind in FORMATS:
        plain = written(picture(640, 480), kind)
        for number in range(12):
            yield f"a {kind} cut off, {number}", partial(bytes, plain[: chance.randrange(1, len(plain))])


def flipped() -> Iterator[tuple[str, Made]]:
    """Yield files with bytes changed at random places: what a decoder's own bugs are found with."""
    for kind in FORMATS:
        plain = written(picture(640, 480), kind)
        for number in range(16):
            yield f"a {kind} with bytes changed, {number}", partial(_flipped, plain, f"{kind} {number}")


def _flipped(plain: bytes, seed: str) -> bytes:
    chance, changed = random.Random(seed), bytearray(plain)
    for _ in range(chance.randrange(1, 40)):
        changed[chance.randrange(2, len(changed))] = chance.randrange(256)
    return bytes(changed)


def dense_pictures() -> Iterator[tuple[str, Made]]:
    """Yield sound pictures that engines find much on: text, noise, stripes, squares, portraits."""
    words = ["".join(random.Random(n).choice("abcdefgh ") for _ in range(150)) for n in range(110)]
    yield "a page of 110 long lines", lambda: text_page(words, height=14)
    yield "a page of 60 long lines", lambda: text_page(words[:60], height=22)
    yield "a page of words in a grid", lambda: text_page([" ".join(["ABC"] * 60)] * 90, height=14)
    for seed in range(3):
        yield f"noise, {seed}", partial(_noise, seed)
    for step in (3, 8, 24):
        yield f"stripes of {step} px", partial(_stripes, step)
        yield f"squares of {step} px", partial(_squares, step)
    for size in (40, 90):
        yield f"portraits of {size} px in a grid", partial(_portraits, size)


def _noise(seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (1_400, 2_000, 3), dtype=np.uint8)
    return written(Image.fromarray(noise), "JPEG")


def _stripes(step: int) -> bytes:
    row = np.where(np.arange(3_000) // step % 2, 255, 0).astype(np.uint8)
    return written(Image.fromarray(np.tile(row, (2_000, 1))).convert("RGB"), "JPEG")


def _squares(step: int) -> bytes:
    down, across = np.mgrid[:1_600, :1_600] // step
    return written(
        Image.fromarray(np.where((down + across) % 2, 255, 0).astype(np.uint8)).convert("RGB"), "PNG"
    )


def _portraits(size: int) -> bytes:
    from app.demo.run import packaged_portrait  # noqa: PLC0415 - the whole service stands behind it

    portrait, page = packaged_portrait().resize((size, size)), Image.new("RGB", (2_000, 1_400), "grey")
    for top in range(0, 1_400, size):
        for left in range(0, 2_000, size):
            page.paste(portrait, (left, top))
    return to_jpeg(page)


def passport_page() -> bytes:
    """Return an honest passport, for what hostile images are compared with."""
    return to_jpeg(draw_passport(PassportSpecimen()))
