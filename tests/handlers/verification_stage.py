"""The stage for tests of the verification handler: memory stores, and engines that see what they are given.

The engines are hand-written stand-ins for the outside world (models), never for code of this project.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Generic, TypeVar

import numpy as np
from typing_extensions import override

from app.adapters.faces.search import InMemoryFaceSearch
from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.vision.faces.pose import pose_of
from schemas.enums import CheckKind, EvidenceKind
from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, EvidenceId, TenantId, VerificationId, derive_id
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable, NotFound, Overloaded
from schemas.reviews import ReviewCase, StoredCase
from schemas.verifications import CheckResult, StoredVerification, SubmitVerification, VerificationDecided
from streams.ports.events import EventPublisher
from streams.ports.records import RecordKind
from streams.ports.screening import Screening
from streams.ports.stores import Stores, WorkingState
from streams.verification import records
from streams.verification.change import Remembered
from streams.verification.engines import DocumentReader, Engines
from streams.verification.face_search import FaceSearch
from streams.verification.handler import EvaluateVerification
from streams.verification.observations import DocumentFindings
from streams.verification.policy import VerificationPolicy
from streams.vision_ports import (
    Box,
    Condition,
    Detail,
    Embedding,
    Face,
    FaceEngine,
    ImageDecoder,
    LivenessEngine,
    Picture,
    Pose,
    Quad,
    Sharpness,
    TextLine,
    TextReader,
    Turn,
)
from tests.builders import (
    ACME,
    NOW,
    build_command,
    build_evidence_draft,
    build_findings,
    build_sharpness,
    build_submission,
)

DOCUMENT, SELFIE = b"the document's image", b"the selfie's image"
UNDECODABLE, TINY = b"no image at all", b"an image of ten pixels"
FACE_BOX: Box = (40.0, 30.0, 120.0, 110.0)

Value = TypeVar("Value")


class Trouble(StrEnum):
    """What an engine may do instead of answering."""

    BROKEN = "broken"
    HANGING = "hanging"
    FULL = "full"


@dataclass
class Scene:
    """What the engines see, and which of their calls are in trouble."""

    findings: DocumentFindings = field(default_factory=build_findings)
    document_faces: tuple[Face, ...] = (Face(FACE_BOX, 1.1, ()),)
    selfie_faces: tuple[Face, ...] = (Face(FACE_BOX, 1.2, ()),)
    distance: float = 0.31
    face: Sequence[float] = (0.0,) * 128
    """The vector of every face; those of two scenes are as far apart as they are."""
    parallax: float = 1.4
    digests: bool = False
    """Whether pictures have digests; most tests submit the same two images for every subject."""
    print_rows: int = 0
    liveness: float = 0.9
    sharpness: Sharpness = field(default_factory=build_sharpness)
    trouble: dict[str, Trouble] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    async def play(self, call: str) -> None:
        """Take part in one call of an engine."""
        self.calls.append(call)
        match self.trouble.get(call):
            case Trouble.BROKEN:
                raise EngineFailed(call)
            case Trouble.FULL:
                raise Overloaded(call)
            case Trouble.HANGING:
                await asyncio.Event().wait()
            case None:
                await asyncio.sleep(0)

    def is_document(self, picture: Picture) -> bool:
        """Tell the two pictures apart by their first pixel, as the decoder painted them."""
        return bool(picture.pixels[0, 0, 0] == 1)


class SceneDecoder(ImageDecoder):
    """Knows four images by heart."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @override
    async def examine(self, images: Sequence[bytes]) -> tuple[Condition | None, ...]:
        return tuple([await self._condition(image) for image in images])

    async def _condition(self, image: bytes) -> Condition | None:
        try:
            await self.decode(image)
        except (ImageUndecodable, ImageNotEvaluable) as condition:
            return condition
        return None

    @override
    async def decode(self, image: bytes) -> Picture:
        await self._scene.play("decode")
        if image == UNDECODABLE:
            raise ImageUndecodable("no image")
        if image == TINY:
            raise ImageNotEvaluable("too small")
        digest = sha256(image).hexdigest() if self._scene.digests else ""
        return Picture(np.full((600, 500, 3), 1 if image.startswith(DOCUMENT) else 2, np.uint8), digest)

    @override
    async def sharpness(self, picture: Picture, box: Box | None = None) -> Sharpness:
        await self._scene.play("sharpness")
        return self._scene.sharpness

    @override
    async def encode(self, picture: Picture, box: Box) -> bytes:
        await self._scene.play("encode")
        return f"portrait {box}".encode()

    @override
    async def print_rows(self, picture: Picture) -> int:
        await self._scene.play("print rows")
        return self._scene.print_rows


class SceneText(TextReader):
    """Is handed on, but the scene's findings are read instead."""

    def __init__(self) -> None:
        self.model_version = "scene-text@00000000"

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return ()

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        return ()

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return ()


class SceneDocuments(DocumentReader):
    """Reads the scene's document."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @override
    async def __call__(self, reader: TextReader, picture: Picture, today: date) -> DocumentFindings:
        await self._scene.play("read")
        return self._scene.findings


class SceneFaces(FaceEngine):
    """Finds the scene's faces at the scene's distance."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.model_version = "scene-faces@12345678"
        self.pass_at = 0.5
        self.fail_at = 0.6
        self.copy_at = 0.45

    @override
    async def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        document = self._scene.is_document(picture)
        await self._scene.play("find on document" if document else "find on selfie")
        return self._scene.document_faces if document else self._scene.selfie_faces

    @override
    async def embed(self, picture: Picture, face: Face) -> Embedding:
        await self._scene.play("embed")
        return np.array(self._scene.face, np.float32)

    @override
    def distance(self, one: Embedding, other: Embedding) -> float:
        apart = float(np.linalg.norm(one - other))
        return apart or self._scene.distance

    @override
    def pose(self, face: Face) -> Pose | None:
        return pose_of(face, eye_corners=True)

    @override
    async def parallax(self, one: Picture, one_face: Face, other: Picture, other_face: Face) -> float:
        await self._scene.play("parallax")
        return self._scene.parallax


class SceneLiveness(LivenessEngine):
    """Scores as the scene says."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.model_version = "scene-liveness@87654321"
        self.pass_at = 0.8
        self.fail_at = 0.4

    @override
    async def score(self, picture: Picture, face: Face) -> float:
        await self._scene.play("liveness")
        return self._scene.liveness


class DictState(WorkingState[Value], Generic[Value]):
    """What an actor remembers, in a dictionary."""

    def __init__(self) -> None:
        self.stored: dict[str, Value] = {}

    @override
    def get(self, key: str) -> Value | None:
        return self.stored.get(key)

    @override
    def put(self, key: str, value: Value) -> None:
        self.stored[key] = value


class Loudspeaker(EventPublisher):
    """Keeps what was announced."""

    def __init__(self) -> None:
        self.events: list[DecisionEvent] = []
        self.audit_ids: list[AuditEventId] = []

    @override
    async def announce(
        self, tenant_id: TenantId, events: Sequence[DecisionEvent], audit_ids: Sequence[AuditEventId]
    ) -> None:
        self.events += events
        self.audit_ids += audit_ids


class Breaking:
    """Stands before a port and lets one of its methods fail once, before or after the work was done."""

    def __init__(self, port: Any, method: str, error: Exception, *, after: bool = False) -> None:
        self._port = port
        self._method = method
        self._error = error
        self._after = after
        self.broke = False

    def __getattr__(self, name: str) -> Any:
        genuine = getattr(self._port, name)
        if name != self._method or self.broke:
            return genuine

        async def failing(*args: Any, **kwargs: Any) -> None:
            self.broke = True
            if self._after:
                with suppress(NotFound):
                    await genuine(*args, **kwargs)
            raise self._error

        return failing


class Stage:
    """One deployment with its handler; everything a test may look at is public."""

    def __init__(
        self,
        scene: Scene | None = None,
        policy: VerificationPolicy | None = None,
        *,
        with_liveness: bool = True,
        screening: Screening | None = None,
    ) -> None:
        self.scene = scene or Scene()
        self.policy = policy or VerificationPolicy()
        self.shelves = Shelves()
        self.stores: Stores = open_memory_stores(RootKey(b"r" * 32), self.shelves)
        self.state: DictState[Remembered] = DictState()
        self.announcer: Any = Loudspeaker()
        self.pauses: list[float] = []
        self.now = NOW
        self.faces: FaceSearch = InMemoryFaceSearch(self.stores)
        self._with_liveness = with_liveness
        self._screening = screening

    @property
    def scene_engines(self) -> Engines:
        """The engines that see the scene."""
        scene = self.scene
        return Engines(
            decoder=SceneDecoder(scene),
            text=SceneText(),
            read_document=SceneDocuments(scene),
            faces=SceneFaces(scene),
            liveness=SceneLiveness(scene) if self._with_liveness else None,
        )

    @property
    def handler(self) -> EvaluateVerification:
        """The handler over what the stage holds now."""
        return EvaluateVerification(
            self.stores,
            self.scene_engines,
            self.policy,
            self._clock,
            self.state,
            self.announcer,
            self._pause,
            faces=self.faces,
            screening=self._screening,
        )

    def _clock(self) -> datetime:
        return self.now

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += timedelta(seconds=seconds)

    async def keep(
        self, document: bytes = DOCUMENT, selfie: bytes = SELFIE, **changes: Any
    ) -> SubmitVerification:
        """Do what the front does: keep the images, seal the submission, word the command."""
        submission = changes.pop("submission", build_submission())
        command = build_command(requested_at=self.now, **changes)
        for content, evidence_id, kind in (
            (document, command.document_evidence_id, EvidenceKind.IMAGE),
            (selfie, command.selfie_evidence_id, EvidenceKind.SELFIE),
        ):
            draft = build_evidence_draft(
                content,
                tenant_id=command.tenant_id,
                subject_id=command.subject_id,
                evidence_id=evidence_id,
                kind=kind,
                retention_policy=records.RETENTION_OF[kind],
            )
            await self.stores.evidence.put([draft])
        sealed = await self.stores.vault.seal(
            command.tenant_id,
            command.subject_id,
            records.submission_label(command.verification_id),
            submission.to_bytes(),
        )
        return command.model_copy(update={"sealed_submission": sealed})

    async def submit(self, **changes: Any) -> VerificationDecided:
        """Keep and hand the command to the handler."""
        command = await self.keep(**changes)
        return await self.handler(command)

    async def stored(self, verification_id: VerificationId | None = None) -> StoredVerification:
        """Return what is kept of a verification."""
        record = await self.stores.records.get(
            ACME, RecordKind.VERIFICATION, verification_id or build_command().verification_id
        )
        return StoredVerification.from_bytes(record.body)

    async def case(self) -> ReviewCase:
        """Return the case of the verification."""
        stored = await self.stored()
        case_id = stored.verification.review_case_id or "none"
        record = await self.stores.records.get(ACME, RecordKind.REVIEW_CASE, case_id)
        return StoredCase.from_bytes(record.body).case

    def evidence_ids(self) -> set[EvidenceId]:
        """Return the ids of all evidence that is kept."""
        return {evidence_id for _, evidence_id in self.shelves.evidence}


def check_of(stored: StoredVerification, kind: CheckKind) -> CheckResult:
    """Return the result of one check."""
    (result,) = [check for check in stored.checks if check.kind is kind]
    return result


def other_evidence(name: str) -> dict[str, Any]:
    """Return the evidence ids of another request."""
    return {
        "document_evidence_id": EvidenceId(derive_id("evd", name, "document")),
        "selfie_evidence_id": EvidenceId(derive_id("evd", name, "selfie")),
    }
