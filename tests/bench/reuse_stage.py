"""The verification handler over memory stores and real engines in this process; each picture is seen once."""

import random
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from typing_extensions import override

from app.vision import images
from app.vision.faces.engine import CoreFaceEngine, build_face_engine
from app.vision.measures import measure_sharpness, print_rows
from app.vision.ocr import RapidTextReader
from schemas.ids import EvidenceId, SessionId, SubjectId, VerificationId, derive_id
from schemas.problems import Refused
from schemas.tenant_settings import USUAL_CHECKS
from schemas.verifications import StoredVerification
from streams.verification.document_reader import read_findings
from streams.verification.engines import Engines
from streams.verification.handler import EvaluateVerification
from streams.verification.observations import DocumentFindings
from streams.vision_ports import (
    Box,
    Condition,
    Embedding,
    Face,
    FaceEngine,
    ImageDecoder,
    Picture,
    Pose,
    Sharpness,
    TextReader,
    Turn,
)
from tests.handlers.verification_stage import Stage

ATTEMPTS = 3


class RealDecoder(ImageDecoder):
    """Decodes in this process."""

    @override
    async def decode(self, image: bytes) -> Picture:
        return images.with_digest(images.decode(image))

    @override
    async def examine(self, images: Any) -> tuple[Condition | None, ...]:
        return tuple(None for _ in images)

    @override
    async def sharpness(self, picture: Picture, box: Box | None = None) -> Sharpness:
        return measure_sharpness(picture, box)

    @override
    async def encode(self, picture: Picture, box: Box) -> bytes:
        return images.encode_box(picture, box)

    @override
    async def print_rows(self, picture: Picture) -> int:
        return print_rows(picture)


@dataclass
class RealFaces(FaceEngine):
    """The default engine; what it found on a picture is found once."""

    core: CoreFaceEngine
    found: dict[tuple[str, Turn | None], tuple[Face, ...]] = field(default_factory=dict)
    vectors: dict[tuple[str, Face], Embedding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take over the engine's thresholds."""
        self.model_version, self.pass_at = self.core.model_version, self.core.pass_at
        self.fail_at, self.copy_at = self.core.fail_at, self.core.copy_at

    @override
    async def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        place = picture.digest, turn
        if place not in self.found:
            self.found[place] = await self.core.find(picture, turn)
        return self.found[place]

    @override
    async def embed(self, picture: Picture, face: Face) -> Embedding:
        place = picture.digest, face
        if place not in self.vectors:
            self.vectors[place] = await self.core.embed(picture, face)
        return self.vectors[place]

    @override
    def distance(self, one: Embedding, other: Embedding) -> float:
        return self.core.distance(one, other)

    @override
    def pose(self, face: Face) -> Pose | None:
        return self.core.pose(face)

    @override
    async def parallax(self, one: Picture, one_face: Face, other: Picture, other_face: Face) -> float:
        return await self.core.parallax(one, one_face, other, other_face)


@dataclass
class RealReader:
    """Reads each picture once."""

    read: dict[str, DocumentFindings] = field(default_factory=dict)

    async def __call__(self, reader: TextReader, picture: Picture, today: date) -> DocumentFindings:
        """Return what was read."""
        if picture.digest not in self.read:
            self.read[picture.digest] = await read_findings(reader, picture, today)
        return self.read[picture.digest]


class RealStage(Stage):
    """A stage whose engines see."""

    def __init__(self) -> None:
        super().__init__()
        self.engines = Engines(
            decoder=RealDecoder(),
            text=RapidTextReader(),
            read_document=RealReader(),
            faces=RealFaces(build_face_engine()),
        )

    @property
    @override
    def handler(self) -> EvaluateVerification:
        """The handler with real engines."""
        return EvaluateVerification(
            self.stores, self.engines, self.policy, self._clock, self.state, self.announcer, self._pause
        )

    async def verified(
        self, document: bytes, selfie: bytes, subject: str, *, in_session: bool
    ) -> StoredVerification:
        """Hand a live command in, of a session as often as it asks for better images.

        The session asks for no LIVENESS: without an engine for it no copy would ever be approved.
        """
        for attempt in range(1, ATTEMPTS + 1):
            name = f"{random.getrandbits(64):x}"
            more: dict[str, Any] = {}
            if in_session:
                more = {
                    "session_id": SessionId(derive_id("vs", name)),
                    "attempt": attempt,
                    "may_retry": attempt < ATTEMPTS,
                    "required_checks": USUAL_CHECKS,
                }
            verification_id = VerificationId(derive_id("ver", name))
            try:
                await self.submit(
                    document=document,
                    selfie=selfie,
                    subject_id=SubjectId(subject),
                    verification_id=verification_id,
                    fingerprint=name,
                    document_evidence_id=EvidenceId(derive_id("evd", name, "document")),
                    selfie_evidence_id=EvidenceId(derive_id("evd", name, "selfie")),
                    **more,
                )
            except Refused:
                if not in_session or attempt == ATTEMPTS:
                    raise
                continue
            return await self.stored(verification_id)
        raise AssertionError("the last attempt is always decided")
