"""Implement `streams.vision_ports` over the pool: every pixel is processed in a vision child."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Final

import numpy as np
import structlog
from typing_extensions import override

from app.vision import jobs
from app.vision.examining import Examiner
from app.vision.faces.pose import pose_of
from app.vision.images import strip_upright
from app.vision.jobs import EngineFacts, FaceFacts
from app.vision.pool import VisionPool
from schemas.enums import ReaderClass
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable, Overloaded
from streams.verification.observations import DocumentFindings
from streams.verification.readers.nin_slip import compare_codes
from streams.vision_ports import (
    Box,
    Condition,
    Detail,
    Embedding,
    Face,
    FaceEngine,
    ImageDecoder,
    LivenessEngine,
    MeasuredFaces,
    Picture,
    Pose,
    Quad,
    Sharpness,
    SharpnessMeter,
    TextLine,
    TextReader,
    Turn,
)

_CONDITIONS: Final[Mapping[str, Callable[[str], Condition]]] = {
    kind.__name__: kind for kind in (ImageUndecodable, ImageNotEvaluable)
}

log = structlog.get_logger(__name__)


class PooledImageDecoder(ImageDecoder):
    """`ImageDecoder` in the vision children; may raise `Overloaded` or `EngineFailed`."""

    def __init__(self, pool: VisionPool) -> None:
        self._pool = pool
        self._examine = Examiner(pool)

    @override
    async def decode(self, image: bytes) -> Picture:
        return await self._pool.run(jobs.DECODE, file=image)

    @override
    async def examine(self, images: Sequence[bytes]) -> tuple[Condition | None, ...]:
        said = await self._examine(images)
        return tuple(_CONDITIONS[name]("found by examining") if name else None for name in said)

    @override
    async def sharpness(self, picture: Picture, box: Box | None = None) -> Sharpness:
        return await self._pool.run(jobs.SHARPNESS, box, picture=picture)

    @override
    async def encode(self, picture: Picture, box: Box) -> bytes:
        return await self._pool.run(jobs.ENCODE, box, picture=picture)

    @override
    async def print_rows(self, picture: Picture) -> int:
        return await self._pool.run(jobs.PRINT_ROWS, picture=picture)

    def strip_upright(self, data: bytes) -> bytes | None:
        """Return the copy that may be stored if that takes no decoding, as `images.strip_upright`."""
        return strip_upright(data)

    async def strip_metadata(self, data: bytes) -> bytes:
        """Return the copy that may be stored, turned upright.

        Raises:
            ImageUndecodable: As `images.strip_metadata`, or turning it exceeds its limits.
            ImageNotEvaluable: As `images.strip_metadata`.
            Overloaded: There is no room, too little memory, or no child can be made.
        """
        try:
            return await self._pool.run(jobs.STRIP, file=data)
        except EngineFailed as error:
            trouble = "too little memory" if str(error) == jobs.OUT_OF_MEMORY else self._pool.trouble()
            if trouble is not None:
                raise Overloaded(trouble) from error
            raise ImageUndecodable("the picture cannot be turned within its limits") from error


class PooledTextReader(TextReader):
    """`TextReader` in the vision children; may raise `Overloaded` or `EngineFailed`."""

    def __init__(self, pool: VisionPool, model_version: str) -> None:
        self.model_version = model_version
        self._pool = pool

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return await self._pool.run(jobs.FIND_LINES, detail, picture=picture)

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        return await self._pool.run(jobs.READ_LINES, tuple(quads), detail, picture=picture)

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return await self._pool.run(jobs.READ_CODES, picture=picture)


class PooledDocumentReader:
    """Reads a whole document in one job; QR codes in a second one, which may fail alone."""

    def __init__(self, pool: VisionPool) -> None:
        self._pool = pool

    async def __call__(self, reader: TextReader, picture: Picture, today: date) -> DocumentFindings:
        """Return what was read.

        A slip whose codes cannot be searched within their limit is one without a code: someone who draws a
        page that holds the search up could have left the code out.

        Raises:
            EngineFailed: The reading broke or exceeded its limits.
            Overloaded: There is no room.
        """
        findings = await self._pool.run(jobs.READ_DOCUMENT, today, picture=picture)
        if findings.reader is not ReaderClass.NG_NIN_SLIP:
            return findings
        try:
            codes = await reader.read_codes(picture)
        except EngineFailed:
            log.warning("document.codes_read_failed")
            return findings
        return replace(findings, code=compare_codes(findings.number, codes))


class PooledFaceMeasurer:
    """A `FaceMeasurer` that asks a child once."""

    def __init__(self, pool: VisionPool) -> None:
        self._pool = pool

    async def __call__(
        self, _engine: FaceEngine, _meter: SharpnessMeter, picture: Picture, turn: Turn | None, /
    ) -> MeasuredFaces:
        """Return the faces, and what was measured of the best one; raises as `FaceMeasurer`."""
        faces, sharpness, vector = await self._pool.run(jobs.MEASURE_FACES, turn, picture=picture)
        return MeasuredFaces(faces, sharpness, None if vector is None else np.array(vector, np.float32))


class PooledFaceEngine(FaceEngine):
    """`FaceEngine` in the vision children; only distances are counted here."""

    def __init__(self, pool: VisionPool, facts: FaceFacts) -> None:
        self.model_version = facts.model_version
        self.pass_at = facts.pass_at
        self.fail_at = facts.fail_at
        self.copy_at = facts.copy_at
        self._metric = facts.metric
        self._eye_corners = facts.eye_corners
        self._pool = pool

    @override
    async def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        return await self._pool.run(jobs.FIND_FACES, turn, picture=picture)

    @override
    async def embed(self, picture: Picture, face: Face) -> Embedding:
        return np.array(await self._pool.run(jobs.EMBED, face, picture=picture), np.float32)

    @override
    def distance(self, one: Embedding, other: Embedding) -> float:
        return self._metric.distance(one, other)

    @override
    def pose(self, face: Face) -> Pose | None:
        return pose_of(face, self._eye_corners)

    @override
    async def parallax(self, one: Picture, one_face: Face, other: Picture, other_face: Face) -> float:
        return await self._pool.run(jobs.PARALLAX, one_face, other_face, picture=one, second=other)


class PooledLivenessEngine(LivenessEngine):
    """`LivenessEngine` in the vision children."""

    def __init__(self, pool: VisionPool, facts: EngineFacts) -> None:
        self.model_version = facts.model_version
        self.pass_at = facts.pass_at
        self.fail_at = facts.fail_at
        self._pool = pool

    @override
    async def score(self, picture: Picture, face: Face) -> float:
        return await self._pool.run(jobs.LIVENESS, face, picture=picture)
