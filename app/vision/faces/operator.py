"""Face models an operator may configure instead of the default engine, pinned by digest."""

from typing import Literal, Self

from pydantic import Field, model_validator

from app.vision.faces.arcface import ArcfaceEmbedder, EmbedderKind
from app.vision.faces.core import FaceCore
from app.vision.faces.parallax import APART
from app.vision.faces.yunet import YunetDetector
from app.vision.models import ModelFile
from schemas.base import Frozen


class DetectorFile(ModelFile):
    """A face detector."""

    kind: Literal["yunet"] = "yunet"
    min_score: float = Field(default=0.7, gt=0, lt=1)
    """What scores less is no face."""


class EmbedderFile(ModelFile):
    """A face embedder and the thresholds measured for it; a threshold means nothing for another file."""

    kind: EmbedderKind
    pass_at: float = Field(gt=0, lt=2)
    """Cosine distances up to this one are the same person; SFace's authors call 0.637 the same."""
    fail_at: float = Field(gt=0, lt=2)
    """Cosine distances above this one are another person."""
    copy_at: float = Field(default=0.45, ge=0, lt=APART)
    """Parallaxes up to this one are copies of one photograph, pixels of a face scaled to 150; the default is
    the default engine's, whose landmarks lie otherwise: measure your own."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.pass_at > self.fail_at:
            raise ValueError("pass_at must not exceed fail_at")
        return self


class OperatorFaces(Frozen):
    """A detector and an embedder that agree on five landmarks: eyes, nose, corners of the mouth."""

    detector: DetectorFile
    embedder: EmbedderFile

    @property
    def model_version(self) -> str:
        """Both kinds, and the first eight digits of the embedder's digest: its vectors are compared."""
        return f"{self.detector.kind}+{self.embedder.kind}@{self.embedder.sha256[:8]}"

    def load(self) -> FaceCore:
        """Read, check and open both models.

        Raises:
            ModelUnusable: A file is missing, altered or not of its contract; the message says how to fix it.
        """
        return FaceCore(
            YunetDetector(self.detector.open(), self.detector.min_score),
            ArcfaceEmbedder(self.embedder.open(), self.embedder.kind),
        )
