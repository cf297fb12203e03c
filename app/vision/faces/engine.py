"""A face core as `FaceEngine`, for a vision child or a test; blocks while it works."""

from typing_extensions import override

from app.vision.faces import dlib_engine
from app.vision.faces.core import FaceCore
from app.vision.faces.operator import OperatorFaces
from app.vision.faces.parallax import parallax
from app.vision.faces.pose import pose_of
from app.vision.jobs import FaceFacts, Metric
from streams.verification.policy import FACE_FAIL_AT, FACE_PASS_AT
from streams.vision_ports import Embedding, Face, FaceEngine, Picture, Pixels, Pose, Turn


class CoreFaceEngine(FaceEngine):
    """A face core as `FaceEngine`; its coroutines never suspend, so no event loop is needed."""

    def __init__(self, core: FaceCore, facts: FaceFacts) -> None:
        self.facts = facts
        self.model_version = facts.model_version
        self.pass_at = facts.pass_at
        self.fail_at = facts.fail_at
        self.copy_at = facts.copy_at
        self._core = core

    @override
    async def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        return self._core.find(picture, turn)

    @override
    async def embed(self, picture: Picture, face: Face) -> Embedding:
        return self._core.embed(picture, face)

    @override
    def distance(self, one: Embedding, other: Embedding) -> float:
        return self.facts.metric.distance(one, other)

    @override
    def pose(self, face: Face) -> Pose | None:
        return pose_of(face, self.facts.eye_corners)

    def chip(self, picture: Picture, face: Face) -> Pixels:
        """Return the aligned square of a face `find` returned for this picture."""
        return self._core.chip(picture, face)

    @override
    async def parallax(self, one: Picture, one_face: Face, other: Picture, other_face: Face) -> float:
        return parallax(self._core.chip(one, one_face), self._core.chip(other, other_face))

    def warm(self) -> None:
        """Run every network once, so that the first request does not pay for it.

        Raises:
            EngineFailed: A model broke.
        """
        self._core.warm()


def build_face_engine(
    files: OperatorFaces | None = None, *, pass_at: float = FACE_PASS_AT, fail_at: float = FACE_FAIL_AT
) -> CoreFaceEngine:
    """Load the face engine: the operator's models, or the default one; blocks for about a second.

    The thresholds are those of the default one; the operator's models bring their own.

    Raises:
        ModelUnusable: A model is missing, altered or not of its contract; the message says how to fix it.
    """
    if files is None:
        facts = FaceFacts(
            model_version=dlib_engine.MODEL_VERSION,
            pass_at=pass_at,
            fail_at=fail_at,
            copy_at=dlib_engine.COPY_AT,
            metric=Metric.EUCLIDEAN,
        )
        return CoreFaceEngine(dlib_engine.load_core(), facts)
    facts = FaceFacts(
        model_version=files.model_version,
        pass_at=files.embedder.pass_at,
        fail_at=files.embedder.fail_at,
        copy_at=files.embedder.copy_at,
        metric=Metric.COSINE,
        eye_corners=False,
    )
    return CoreFaceEngine(files.load(), facts)
