"""Passive liveness on one still picture: an operator's MiniFASNet pair; the weakest kind of liveness check.

There is no default model. No attack presentation rate is known for these weights (ISO/IEC 30107-3), so no
level of attack detection may be claimed for them.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, Self

import cv2
import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from app.vision.faces.geometry import turned
from app.vision.models import CHANNELS, Floats, ModelFile, Network
from schemas.base import Frozen
from streams.vision_ports import Box, Face, LivenessEngine, Picture, Pixels

CROP_SIDE: Final = 80
"""What both nets look at, pixels."""

NARROW: Final = 2.7
WIDE: Final = 4.0
"""How many face boxes across the crops are; each net was trained with its own."""

_LIVE: Final = 1
"""The class that means a living person."""

_CLASSES: Final = 3

_SHARE_MIN: Final = 0.25
"""A face under this share of the picture's shorter side is too small for the nets."""

_UNCERTAIN: Final = 0.5
"""The most a face too small can score: uncertain, never living."""


@dataclass(frozen=True, slots=True)
class BoxShape:
    """Conversion of a detector's box to the one the nets were trained with: same centre, other sides."""

    across: float
    down: float


YUNET_BOX: Final = BoxShape(1.0, 1.0)
MMOD_BOX: Final = BoxShape(0.92, 1.28)
"""Medians over 22 photographs, YuNet's sides over mmod's; with the raw box scores fall by half."""


class LivenessFiles(Frozen):
    """The two nets, by the crop each was trained with, and the thresholds of their mean score."""

    kind: Literal["minifasnet"] = "minifasnet"
    narrow: ModelFile
    """MiniFASNetV2, crops of 2.7 face boxes."""
    wide: ModelFile
    """MiniFASNetV1SE, crops of 4 face boxes."""
    pass_at: float = Field(default=0.80, gt=0, le=1)
    """Scores from this one up are a living person."""
    fail_at: float = Field(default=0.40, ge=0, lt=1)
    """Scores below this one are none."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.fail_at > self.pass_at:
            raise ValueError("fail_at must not exceed pass_at")
        return self

    @property
    def model_version(self) -> str:
        """The kind and the first eight digits of the digest over both digests."""
        both = hashlib.sha256(f"{self.narrow.sha256}{self.wide.sha256}".encode()).hexdigest()
        return f"{self.kind}@{both[:8]}"


class LivenessCore:
    """The pair of nets; blocks, and may be called from any number of threads at once."""

    def __init__(self, narrow: Network, wide: Network, shape: BoxShape) -> None:
        """Check both nets against the contract.

        Raises:
            ModelUnusable: One is no MiniFASNet.
        """
        self._nets = ((narrow, NARROW), (wide, WIDE))
        self._shape = shape
        blank = np.zeros((1, CHANNELS, CROP_SIDE, CROP_SIDE), np.float32)
        for net, _ in self._nets:
            net.require({None: (None, CHANNELS, CROP_SIDE, CROP_SIDE)}, {None: (None, _CLASSES)})
            net.probe(blank, {None: (1, _CLASSES)})

    def score(self, picture: Picture, face: Face) -> float:
        """Return the mean of both nets' likelihood of a living person, 0-1.

        A face under a quarter of the shorter side scores 0.5 at most.

        Raises:
            EngineFailed: A net broke or answered something that is not a number.
        """
        pixels = turned(picture.pixels, face.turn)
        box = _shaped(face.box, self._shape)
        likelihoods = [_live(net.run(_fed(pixels, box, scale))[0][0]) for net, scale in self._nets]
        score = float(np.mean(likelihoods))
        sides = face.box[2] - face.box[0], face.box[3] - face.box[1]
        small = min(sides) < _SHARE_MIN * min(picture.width, picture.height)
        return min(score, _UNCERTAIN) if small else score


class CoreLivenessEngine(LivenessEngine):
    """A liveness core as `LivenessEngine`; it blocks."""

    def __init__(self, core: LivenessCore, files: LivenessFiles) -> None:
        self.model_version = files.model_version
        self.pass_at = files.pass_at
        self.fail_at = files.fail_at
        self._core = core

    @override
    async def score(self, picture: Picture, face: Face) -> float:
        return self._core.score(picture, face)

    def warm(self) -> None:
        """Run both nets once, so that the first request does not pay for it.

        Raises:
            EngineFailed: A net broke.
        """
        grey = Picture(np.full((200, 200, CHANNELS), 128, np.uint8))
        self._core.score(grey, Face((50.0, 50.0, 150.0, 150.0), 1.0, ()))


def build_liveness_engine(files: LivenessFiles | None, shape: BoxShape) -> CoreLivenessEngine | None:
    """Load the liveness engine; None when no files are configured, for there is no default. Blocks.

    `shape` belongs to the detector whose faces will be asked about: `MMOD_BOX` for the default engine,
    `YUNET_BOX` for an operator's.

    Raises:
        ModelUnusable: A file is missing, altered or not of its contract; the message says how to fix it.
    """
    if files is None:
        return None
    return CoreLivenessEngine(LivenessCore(files.narrow.open(), files.wide.open(), shape), files)


def _shaped(box: Box, shape: BoxShape) -> Box:
    left, top, right, bottom = box
    x, y = (left + right) / 2, (top + bottom) / 2
    across, down = (right - left) * shape.across / 2, (bottom - top) * shape.down / 2
    return x - across, y - down, x + across, y + down


def _fed(pixels: Pixels, box: Box, scale: float) -> Floats:
    """Return the crop around the box as BGR from 0 to 255."""
    left, top, right, bottom = _enlarged(box, scale, pixels.shape[1], pixels.shape[0])
    crop = cv2.resize(pixels[top:bottom, left:right], (CROP_SIDE, CROP_SIDE), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(crop[..., ::-1].transpose(2, 0, 1)[None], np.float32)


def _enlarged(box: Box, scale: float, width: int, height: int) -> tuple[int, int, int, int]:
    """Return the box times `scale`, made smaller where the picture is, and shifted into the picture."""
    left, top, right, bottom = box
    scale = min(scale, (width - 1) / (right - left), (height - 1) / (bottom - top))
    across, down = (right - left) * scale, (bottom - top) * scale
    x = min(max((left + right - across) / 2, 0.0), width - 1 - across)
    y = min(max((top + bottom - down) / 2, 0.0), height - 1 - down)
    return int(x), int(y), int(x + across) + 1, int(y + down) + 1


def _live(logits: Floats) -> float:
    """Return the softmax's share of the living class."""
    powers = np.exp(logits.astype(np.float64) - float(logits.max()))
    return float(powers[_LIVE] / powers.sum())
