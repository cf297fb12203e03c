"""The two public-domain portraits that installed packages carry, and ways to spoil them."""

import io
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from app.vision.faces.geometry import turned
from streams.vision_ports import Picture, Pixels, Turn


def _packaged(package: str, path: str) -> Picture:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    with Image.open(Path(spec.origin).parent / path) as image:
        return Picture(np.asarray(image.convert("RGB")))


def astronaut() -> Picture:
    """Eileen Collins, 512 x 512 (NASA)."""
    return _packaged("skimage", "data/astronaut.png")


def grace_hopper() -> Picture:
    """Grace Hopper, 512 x 600 (US Navy)."""
    return _packaged("matplotlib", "mpl-data/sample_data/grace_hopper.jpg")


def turn(picture: Picture, degrees: Turn) -> Picture:
    """Turn clockwise by quarter turns."""
    return Picture(turned(picture.pixels, degrees))


def tilt(picture: Picture, degrees: float) -> Picture:
    """Turn counter-clockwise about the middle; what comes in from outside repeats the edge."""
    centre = (picture.width / 2, picture.height / 2)
    matrix = cv2.getRotationMatrix2D(centre, degrees, 1.0)
    size = (picture.width, picture.height)
    return Picture(_pixels(cv2.warpAffine(picture.pixels, matrix, size, borderMode=cv2.BORDER_REPLICATE)))


def blur(picture: Picture, sigma: float) -> Picture:
    """Blur by a Gaussian."""
    return Picture(_pixels(cv2.GaussianBlur(picture.pixels, (0, 0), sigma)))


def scale(picture: Picture, factor: float) -> Picture:
    """Resize by a factor."""
    return Picture(
        _pixels(cv2.resize(picture.pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA))
    )


def compress(picture: Picture, quality: int) -> Picture:
    """Pass through JPEG."""
    file = io.BytesIO()
    Image.fromarray(picture.pixels).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        return Picture(np.asarray(image.convert("RGB")))


def on_page(picture: Picture, side: int, at: tuple[int, int], page: tuple[int, int]) -> Picture:
    """Put the picture, its longer side shrunk to `side`, at (x, y) of a grey page of width and height."""
    small = scale(picture, side / max(picture.width, picture.height)).pixels
    pixels = np.full((page[1], page[0], 3), 200, np.uint8)
    pixels[at[1] : at[1] + small.shape[0], at[0] : at[0] + small.shape[1]] = small
    return Picture(pixels)


def beside(left: Picture, right: Picture) -> Picture:
    """Put two pictures side by side, the lower one filled up with grey."""
    height = max(left.height, right.height)
    filled = [
        cv2.copyMakeBorder(p.pixels, 0, height - p.height, 0, 0, cv2.BORDER_CONSTANT, value=(128, 128, 128))
        for p in (left, right)
    ]
    return Picture(_pixels(np.hstack(filled)))


def _pixels(array: object) -> Pixels:
    return np.ascontiguousarray(array, np.uint8)
