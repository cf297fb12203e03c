"""What cameras, scanners and uploads do to a page, seeded."""

import random
from collections.abc import Callable
from io import BytesIO

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from streams.vision_ports import Pixels

DESK = (90, 90, 90)
"""What lies around the page."""


def rotated(page: Pixels, degrees: float) -> Pixels:
    """Turn the page on its desk; nothing is cut off."""
    height, width = page.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    across, down = abs(turn[0, 0]), abs(turn[0, 1])
    wide, high = int(height * down + width * across), int(height * across + width * down)
    turn[0, 2] += (wide - width) / 2
    turn[1, 2] += (high - height) / 2
    return as_pixels(cv2.warpAffine(page, turn, (wide, high), borderValue=DESK))


def askew(page: Pixels, chance: random.Random, share: float) -> Pixels:
    """Look at the page from an angle: each corner moves inwards by up to a share of the sides."""
    height, width = page.shape[:2]
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    inwards = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)], np.float32)
    moves = np.array([[chance.uniform(0, share), chance.uniform(0, share)] for _ in range(4)], np.float32)
    seen = corners + inwards * moves * np.array((width, height), np.float32)
    view = cv2.getPerspectiveTransform(corners, seen)
    return as_pixels(cv2.warpPerspective(page, view, (width, height), borderValue=DESK))


def noisy(page: Pixels, chance: random.Random, sigma: float) -> Pixels:
    """Add the noise of a small sensor."""
    grains = np.random.default_rng(chance.randrange(2**32)).normal(0, sigma, page.shape)
    return as_pixels(np.clip(page + grains, 0, 255))


def glaring(page: Pixels, chance: random.Random) -> Pixels:
    """Let a lamp shine on the page."""
    height, width = page.shape[:2]
    down, across = np.mgrid[:height, :width]
    at_x, at_y = chance.uniform(0.2, 0.8) * width, chance.uniform(0.2, 0.9) * height
    far = ((across - at_x) / (0.22 * width)) ** 2 + ((down - at_y) / (0.2 * height)) ** 2
    return as_pixels(np.clip(page + 150 * np.exp(-far)[..., None], 0, 255))


def blurred(page: Pixels, sigma: float) -> Pixels:
    """Put the page out of focus."""
    return as_pixels(cv2.GaussianBlur(page, (0, 0), sigma))


def shrunk(page: Pixels, width: int) -> Pixels:
    """Photograph the page from farther away."""
    scale = width / page.shape[1]
    return as_pixels(cv2.resize(page, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def moved(page: Pixels, chance: random.Random, pixels: int) -> Pixels:
    """Move the camera while its shutter is open, in any direction, by so many pixels."""
    kernel = np.zeros((pixels, pixels), np.float32)
    kernel[pixels // 2] = 1
    turn = cv2.getRotationMatrix2D(((pixels - 1) / 2, (pixels - 1) / 2), chance.uniform(0, 180), 1)
    path = cv2.warpAffine(kernel, turn, (pixels, pixels))
    return as_pixels(cv2.filter2D(page, -1, path / path.sum()))


def dim(page: Pixels, chance: random.Random, share: float) -> Pixels:
    """Photograph the page with so little light that the sensor's noise shows."""
    return noisy(as_pixels(page * share), chance, 6)


def tilted_on_its_side(page: Pixels, chance: random.Random, degrees: float) -> Pixels:
    """Turn the page onto one side, and tilt it."""
    return rotated(as_pixels(np.rot90(page, chance.choice((1, 3)))), chance.choice((-1, 1)) * degrees)


def half_shaded(page: Pixels, chance: random.Random) -> Pixels:
    """Let a soft edge of shade run across the page."""
    height, width = page.shape[:2]
    down, across = np.mgrid[:height, :width]
    slope, at = chance.uniform(-0.6, 0.6), chance.uniform(0.35, 0.65)
    lit = 1 / (1 + np.exp(-(across / width - at + slope * (down / height - 0.5)) * chance.choice((-40, 40))))
    return noisy(as_pixels(page * (0.45 + 0.55 * lit[..., None])), chance, 3)


def under_a_hand(page: Pixels, chance: random.Random) -> Pixels:
    """Let a hand with a telephone throw its shadow on the page."""
    height, width = page.shape[:2]
    shade = np.zeros((height, width), np.float32)
    wrist = (round(chance.uniform(0.3, 0.7) * width), height)
    palm = (round(chance.uniform(0.3, 0.7) * width), round(chance.uniform(0.45, 0.75) * height))
    cv2.line(shade, wrist, palm, 1.0, round(0.16 * width))
    for finger in range(4):
        tip = (palm[0] + round((finger - 1.5) * 0.07 * width), palm[1] - round(0.3 * height))
        cv2.line(
            shade, (palm[0] + round((finger - 1.5) * 0.05 * width), palm[1]), tip, 1.0, round(0.04 * width)
        )
    soft = cv2.GaussianBlur(shade, (0, 0), 0.012 * width)[..., None]
    return noisy(as_pixels(page * (1 - 0.5 * soft)), chance, 3)


def among_papers(page: Pixels, chance: random.Random) -> Pixels:
    """Photograph the page on a table, a form beside it and the booklet's other page above it."""
    height, width = page.shape[:2]
    table = Image.new("RGB", (round(1.5 * width), round(2.1 * height)), (120, 92, 66))
    pen = ImageDraw.Draw(table)
    left, top = round(chance.uniform(0.05, 0.12) * width), round(1.02 * height)
    pen.rectangle((left, 30, left + width, top - 3), fill=(226, 230, 234))
    for row in range(6):
        pen.text((left + 80, 90 + 60 * row), _OBSERVATIONS[row % 3], fill=(70, 76, 90), font=_plain_font(26))
    pen.rectangle((left + width + 40, 200, table.width, table.height), fill=(246, 246, 242))
    for row in range(24):
        place = (left + width + 70, 260 + 52 * row)
        pen.text(place, _LETTER[row % len(_LETTER)], fill=(40, 40, 46), font=_plain_font(28))
    table.paste(Image.fromarray(page), (left, top))
    return shrunk(rotated(as_pixels(table), chance.uniform(-3, 3)), 1_900)


def _plain_font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def as_pixels(page: object) -> Pixels:
    """Return what a library gave as pixels."""
    return np.ascontiguousarray(page, np.uint8)


Change = Callable[[Pixels, random.Random], Pixels]

CHANGES: dict[str, Change] = {
    "clean": lambda page, _: page,
    "a little rotated": lambda page, chance: rotated(page, chance.uniform(-4, 4)),
    "rotated by up to 20 degrees": lambda page, chance: rotated(
        page, chance.choice((-1, 1)) * chance.uniform(10, 20)
    ),
    "on its left side": lambda page, _: as_pixels(np.rot90(page, 1)),
    "on its head": lambda page, _: as_pixels(np.rot90(page, 2)),
    "on its right side": lambda page, _: as_pixels(np.rot90(page, 3)),
    "blurred": lambda page, _: blurred(page, 1.5),
    "much blurred": lambda page, _: blurred(page, 2.5),
    "noisy": lambda page, chance: noisy(page, chance, 20),
    "askew": lambda page, chance: askew(page, chance, 0.08),
    "much compressed": lambda page, _: page,
    "glaring": glaring,
    "700 px wide": lambda page, _: shrunk(page, 700),
    "500 px wide": lambda page, _: shrunk(page, 500),
    "by a telephone": lambda page, chance: noisy(blurred(askew(page, chance, 0.06), 1), chance, 8),
}
"""Every way a page is made worse, by name."""

CAMERA: dict[str, Change] = {
    "clean": lambda page, _: page,
    "moved by 3 px": lambda page, chance: moved(page, chance, 3),
    "moved by 5 px": lambda page, chance: moved(page, chance, 5),
    "moved by 7 px": lambda page, chance: moved(page, chance, 7),
    "tilted": lambda page, chance: rotated(page, chance.choice((-1, 1)) * chance.uniform(4.5, 12)),
    "on its side": lambda page, chance: as_pixels(np.rot90(page, chance.choice((1, 3)))),
    "tilted on its side": lambda page, chance: tilted_on_its_side(page, chance, chance.uniform(4.5, 10)),
    "askew": lambda page, chance: askew(page, chance, 0.08),
    "noisy": lambda page, chance: noisy(page, chance, 15),
    "dim": lambda page, chance: dim(page, chance, 0.3),
    "much compressed": lambda page, _: page,
    "by a telephone": lambda page, chance: noisy(blurred(askew(page, chance, 0.06), 1), chance, 8),
}
"""What the bench of documents does to a page, by name."""

_OBSERVATIONS = (
    "The bearer is requested to sign below.",
    "OBSERVATIONS / REMARQUES",
    "THERE ARE NO OFFICIAL OBSERVATIONS",
)
_LETTER = (
    "Application",
    "Surname: SMITH",
    "Given names: JOHN",
    "Date of birth: 12 MAR 1971",
    "Passport No.: 123456789",
    "Sex: M",
    "your order No. 4711 of",
)

OUTDOORS: dict[str, Change] = CAMERA | {
    "on its head": lambda page, _: as_pixels(np.rot90(page, 2)),
    "blurred": lambda page, _: blurred(page, 1.5),
    "glaring": glaring,
    "half in shade": half_shaded,
    "under a hand": under_a_hand,
    "among papers": among_papers,
}
"""What happens to pages that people photograph themselves, by name."""

QUALITY = {"much compressed": 30, "by a telephone": 60}
"""JPEG quality where it is not 88."""


def photographed(page: Image.Image, how: str, chance: random.Random) -> bytes:
    """Return the JPEG of a page made worse in one of the `CHANGES`, or as a `CAMERA` makes it."""
    changed = (CHANGES.get(how) or OUTDOORS[how])(as_pixels(page.convert("RGB")), chance)
    written = BytesIO()
    Image.fromarray(changed).save(written, "JPEG", quality=QUALITY.get(how, 88))
    return written.getvalue()
