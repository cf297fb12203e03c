"""Copies of a photograph, damaged in many ways, and other photographs of the same person, made from one.

A copy stays flat whatever is done to it. Another photograph is made by a depth warp: the head is given the
form of an ellipsoid with a nose and eyes, turned before a camera at another distance, lit from another side,
seen through another lens, cropped, and given the noise of another sensor.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streams.vision_ports import Face, Pixels
from tests.specimens import degrade

Damage = Callable[[Pixels], Pixels]
Relief = NDArray[np.float32]

_NOSE: Final = 4
"""Place of the nose among the default engine's landmarks."""


@dataclass(frozen=True, slots=True)
class Shot:
    """How another photograph of a person is taken."""

    yaw: float
    """Degrees the head is turned to its side."""
    pitch: float
    """Degrees it nods."""
    roll: float
    distance: float
    """Of the camera, in widths of the face; an arm's length is 3."""
    light: tuple[float, float, float]
    """Where the light comes from."""
    shade: float
    """Share of the light that comes from there, 0-1."""
    lens: float
    """Barrel distortion, or pincushion below 0."""
    crop: float
    shift: float
    gamma: float
    warmth: float
    scale: float
    noise: float
    quality: int
    """Of the JPEG."""


def a_shot(chance: random.Random) -> Shot:
    """Return one by chance, the head turned by at least 5 degrees more to one side."""
    return Shot(
        yaw=chance.choice((-1, 1)) * chance.uniform(5, 18),
        pitch=chance.uniform(-10, 10),
        roll=chance.uniform(-6, 6),
        distance=chance.uniform(2.5, 10),
        light=(chance.uniform(-1, 1), chance.uniform(-1, 0.3), 1.0),
        shade=chance.uniform(0.2, 0.6),
        lens=chance.uniform(-0.03, 0.05),
        crop=chance.uniform(0.75, 1.0),
        shift=chance.uniform(-0.05, 0.05),
        gamma=chance.uniform(0.7, 1.4),
        warmth=chance.uniform(-0.1, 0.1),
        scale=chance.uniform(0.7, 1.6),
        noise=chance.uniform(2, 8),
        quality=chance.choice((70, 85, 92)),
    )


def another_photograph(picture: Pixels, face: Face, shot: Shot, chance: random.Random) -> bytes:
    """Return the JPEG of another photograph of the person on the picture."""
    relief = _relief(picture, face)
    lit = _lit(picture, relief, face.box[2] - face.box[0], shot)
    posed = _barrel(_posed(lit, relief, face, shot), shot.lens)
    cropped = _gamma(_crop(posed, shot.crop, shot.shift, -0.05), shot.gamma)
    tinted = _levels(cropped * np.array([1 + shot.warmth, 1.0, 1 - shot.warmth]))
    return to_jpeg(degrade.noisy(_resized(tinted, shot.scale), chance, shot.noise), shot.quality)


def to_jpeg(pixels: Pixels, quality: int = 92) -> bytes:
    """Return the pixels as a JPEG."""
    written = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(written, "JPEG", quality=quality)
    return written.getvalue()


def _relief(picture: Pixels, face: Face) -> Relief:
    """Return how far each pixel stands out towards the camera, in pixels."""
    left, top, right, bottom = face.box
    wide, middle, height = right - left, (left + right) / 2, (top + bottom) / 2
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]].astype(np.float32)
    head = (
        1 - ((columns - middle) / (0.78 * wide)) ** 2 - ((rows - height + 0.05 * wide) / (1.05 * wide)) ** 2
    )
    relief = 0.75 * wide * np.sqrt(np.clip(head, 0, None))
    points = np.array(face.points)
    (across, down), eyes = points[_NOSE], (points[:2].mean(axis=0), points[2:4].mean(axis=0))
    nose = ((columns - across) / (0.10 * wide)) ** 2 + ((rows - down + 0.06 * wide) / (0.17 * wide)) ** 2
    relief += 0.20 * wide * np.exp(-nose)
    for eye in eyes:
        socket = ((columns - eye[0]) / (0.13 * wide)) ** 2 + ((rows - eye[1]) / (0.08 * wide)) ** 2
        relief -= 0.05 * wide * np.exp(-socket)
    below = np.clip((rows - bottom - 0.25 * wide) / (0.3 * wide), 0, 1)
    shoulders = 0.35 * wide * below * np.exp(-(((columns - middle) / (1.6 * wide)) ** 2))
    return np.asarray(cv2.GaussianBlur(np.maximum(relief, shoulders), (0, 0), 0.03 * wide), np.float32)


def _lit(picture: Pixels, relief: Relief, wide: float, shot: Shot) -> Pixels:
    down, across = np.gradient(cv2.GaussianBlur(relief, (0, 0), 0.02 * wide))
    normals = np.stack([-across, -down, np.ones_like(relief)], axis=-1)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    light = np.array(shot.light) / np.linalg.norm(shot.light)
    falling = np.clip(normals @ light, 0, None)[..., None]
    return _levels(picture * (1 - shot.shade + 1.5 * shot.shade * falling))


def _posed(picture: Pixels, relief: Relief, face: Face, shot: Shot) -> Pixels:
    """Turn the head before a camera; what comes in from outside repeats the edge."""
    left, top, right, bottom = face.box
    wide, middle, height = right - left, (left + right) / 2, (top + bottom) / 2
    turn = _rotation(shot)
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]].astype(np.float32)

    def seen(across: Any, down: Any) -> tuple[Any, Any]:
        deep = cv2.remap(relief, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        deep = deep - 0.45 * wide
        turned = np.stack([across - middle, down - height, deep], axis=-1) @ turn.T
        far = shot.distance * wide
        nearer = far / (far - turned[..., 2]) * (12 * wide - deep) / (12 * wide)
        return turned[..., 0] * nearer + middle, turned[..., 1] * nearer + height

    across, down = columns.copy(), rows.copy()
    for _ in range(25):  # the source of each pixel, by a fixed point
        at_x, at_y = seen(across, down)
        across = np.clip(across + 0.7 * (columns - at_x), 0, picture.shape[1] - 1).astype(np.float32)
        down = np.clip(down + 0.7 * (rows - at_y), 0, picture.shape[0] - 1).astype(np.float32)
    return _levels(cv2.remap(picture, across, down, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE))


def _rotation(shot: Shot) -> NDArray[np.float64]:
    yaw, pitch, roll = np.radians([shot.yaw, shot.pitch, shot.roll])
    about_y = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
    about_z = np.array([[np.cos(roll), -np.sin(roll), 0], [np.sin(roll), np.cos(roll), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_x @ about_y)


def _levels(values: Any) -> Pixels:
    return degrade.as_pixels(np.clip(values, 0, 255))


def _resized(picture: Pixels, factor: float) -> Pixels:
    way = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return degrade.as_pixels(cv2.resize(picture, None, fx=factor, fy=factor, interpolation=way))


def _crop(picture: Pixels, share: float, right: float = 0.0, down: float = 0.0) -> Pixels:
    height, width = picture.shape[:2]
    high, wide = int(height * share), int(width * share)
    top = min(max(int((height - high) / 2 + down * height), 0), height - high)
    left = min(max(int((width - wide) / 2 + right * width), 0), width - wide)
    return picture[top : top + high, left : left + wide].copy()


def _gamma(picture: Pixels, power: float) -> Pixels:
    return _levels(255 * (picture / 255.0) ** power)


def _contrast(picture: Pixels, factor: float) -> Pixels:
    return _levels(128 + (picture.astype(np.float64) - 128) * factor)


def _tilted(picture: Pixels, degrees: float) -> Pixels:
    height, width = picture.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    return degrade.as_pixels(cv2.warpAffine(picture, turn, (width, height), borderMode=cv2.BORDER_REPLICATE))


def _halftone(picture: Pixels, cell: int = 3) -> Pixels:
    rows, columns = np.indices(picture.shape[:2])
    dots = np.sin(rows * np.pi / cell) * np.sin(columns * np.pi / cell)
    return _levels(picture + 38 * dots[..., None])


def _printed(picture: Pixels, seed: int) -> Pixels:
    """Print on paper and photograph the print."""
    paper = _levels(np.array([18, 14, 10]) + 0.82 * _halftone(_resized(picture, 2.0)))
    seen = _resized(degrade.blurred(paper, 1.6), 0.5)
    return degrade.noisy(_askew(seen, 0.03, seed), random.Random(seed), 4)


def _on_a_screen(picture: Pixels, seed: int) -> Pixels:
    """Photograph a screen, its lines showing."""
    shown = _resized(picture, 2.0)
    shown[::3] = _levels(shown[::3] * 0.75)
    seen = _resized(_levels(shown * np.array([0.95, 1.0, 1.08])), 0.55)
    return degrade.noisy(_askew(seen, 0.04, seed), random.Random(seed), 5)


def _askew(picture: Pixels, share: float, seed: int) -> Pixels:
    return degrade.askew(picture, random.Random(seed), share)


def _grey(picture: Pixels) -> Pixels:
    return degrade.as_pixels(np.repeat(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2))


def _sharpened(picture: Pixels, amount: float) -> Pixels:
    return _levels(picture * (1 + amount) - amount * cv2.GaussianBlur(picture, (0, 0), 2).astype(np.float64))


def _vignette(picture: Pixels, amount: float) -> Pixels:
    height, width = picture.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    far = ((columns - width / 2) / (width / 2)) ** 2 + ((rows - height / 2) / (height / 2)) ** 2
    return _levels(picture * (1 - amount * np.clip(far, 0, 1))[..., None])


def _barrel(picture: Pixels, strength: float) -> Pixels:
    height, width = picture.shape[:2]
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    across, down = (columns - width / 2) / (width / 2), (rows - height / 2) / (width / 2)
    factor = (1 + strength * (across**2 + down**2)) * width / 2
    at_x, at_y = across * factor + width / 2, down * factor + height / 2
    seen = cv2.remap(
        picture,
        at_x.astype(np.float32),
        at_y.astype(np.float32),
        cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return degrade.as_pixels(seen)


def _moved(picture: Pixels, pixels: int) -> Pixels:
    kernel = np.zeros((pixels, pixels), np.float32)
    kernel[pixels // 2] = 1 / pixels
    return degrade.as_pixels(cv2.filter2D(picture, -1, kernel))


def _through(picture: Pixels, form: str, quality: int) -> Pixels:
    written = BytesIO()
    Image.fromarray(picture).save(written, form, quality=quality)
    with Image.open(written) as image:
        return degrade.as_pixels(np.asarray(image.convert("RGB")))


def _framed(picture: Pixels) -> Pixels:
    height, width = picture.shape[:2]
    sides = (height // 8, height // 8, width // 8, width // 8)
    return degrade.as_pixels(cv2.copyMakeBorder(picture, *sides, cv2.BORDER_CONSTANT, value=(240, 240, 240)))


def _lit_from_the_side(picture: Pixels) -> Pixels:
    return _levels(picture * np.linspace(0.6, 1.4, picture.shape[1])[None, :, None])


def _stretched(picture: Pixels, factor: float) -> Pixels:
    return degrade.as_pixels(cv2.resize(picture, (int(picture.shape[1] * factor), picture.shape[0])))


def _equalised(picture: Pixels) -> Pixels:
    luma, *colours = cv2.split(cv2.cvtColor(picture, cv2.COLOR_RGB2LAB))
    stretched = cv2.createCLAHE(3).apply(luma)
    return degrade.as_pixels(cv2.cvtColor(cv2.merge([stretched, *colours]), cv2.COLOR_LAB2RGB))


def _seeded(seed: int) -> random.Random:
    return random.Random(seed)


DAMAGES: Final[Mapping[str, Damage]] = MappingProxyType(
    {
        "none": lambda p: p,
        **{f"JPEG {q}": lambda p, q=q: _through(p, "JPEG", q) for q in (90, 50, 30, 15)},  # type: ignore[misc]
        **{f"WebP {q}": lambda p, q=q: _through(p, "WEBP", q) for q in (60, 25)},  # type: ignore[misc]
        **{f"scaled by {f}": lambda p, f=f: _resized(p, f) for f in (1.5, 2.0, 0.7, 0.5, 0.35)},  # type: ignore[misc]
        "cropped to 90 %": lambda p: _crop(p, 0.9),
        "cropped to 75 %": lambda p: _crop(p, 0.75, 0, -0.1),
        "cropped to 60 %": lambda p: _crop(p, 0.6, 0, -0.12),
        "cropped aside": lambda p: _crop(p, 0.8, 0.08, -0.1),
        "brighter by 30": lambda p: _levels(p.astype(np.int16) + 30),
        "brighter by 60": lambda p: _levels(p.astype(np.int16) + 60),
        "darker by 40": lambda p: _levels(p.astype(np.int16) - 40),
        "gamma 0.6": lambda p: _gamma(p, 0.6),
        "gamma 1.6": lambda p: _gamma(p, 1.6),
        "less contrast": lambda p: _contrast(p, 0.6),
        "more contrast": lambda p: _contrast(p, 1.5),
        "grey": _grey,
        "warm": lambda p: _levels(p * np.array([1.15, 1.0, 0.8])),
        "cool": lambda p: _levels(p * np.array([0.82, 1.0, 1.15])),
        "16 levels": lambda p: _levels(p // 16 * 16 + 8),
        "blurred 1": lambda p: degrade.blurred(p, 1),
        "blurred 2": lambda p: degrade.blurred(p, 2),
        "moved": lambda p: _moved(p, 5),
        "noise 8": lambda p: degrade.noisy(p, _seeded(1), 8),
        "noise 20": lambda p: degrade.noisy(p, _seeded(2), 20),
        **{f"tilted by {d}": lambda p, d=d: _tilted(p, d) for d in (3, -8, 15)},  # type: ignore[misc]
        "on its side": lambda p: degrade.as_pixels(np.rot90(p)),
        "mirrored": lambda p: degrade.as_pixels(p[:, ::-1]),
        "mirrored and blurred": lambda p: degrade.blurred(degrade.as_pixels(p[:, ::-1]), 1),
        "askew by 4 %": lambda p: _askew(p, 0.04, 3),
        "askew by 8 %": lambda p: _askew(p, 0.08, 4),
        "wider": lambda p: _stretched(p, 1.06),
        "narrower": lambda p: _stretched(p, 0.94),
        "barrel": lambda p: _barrel(p, 0.05),
        "pincushion": lambda p: _barrel(p, -0.04),
        "sharpened": lambda p: _sharpened(p, 1.0),
        "vignette": lambda p: _vignette(p, 0.6),
        "glare": lambda p: degrade.glaring(p, _seeded(5)),
        "lit from the side": _lit_from_the_side,
        "printed": lambda p: _printed(p, 6),
        "printed small": lambda p: _printed(_resized(p, 0.7), 7),
        "on a screen": lambda p: _on_a_screen(p, 8),
        "halftone": _halftone,
        "framed": _framed,
        "by a telephone": lambda p: _through(
            degrade.noisy(degrade.blurred(_askew(p, 0.05, 9), 1), _seeded(9), 8), "JPEG", 60
        ),
        "passed on twice": lambda p: _through(
            _resized(_through(_resized(_gamma(p, 0.85), 0.6), "JPEG", 60), 1.5), "JPEG", 70
        ),
        "denoised": lambda p: degrade.as_pixels(cv2.bilateralFilter(p, 7, 40, 5)),
        "median": lambda p: degrade.as_pixels(cv2.medianBlur(p, 5)),
        "equalised": _equalised,
    }
)
"""What may be done to a copy, by name."""
