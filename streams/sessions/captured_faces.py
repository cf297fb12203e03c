"""Look at the faces of selfies and frames with the engines, on behalf of sessions (P9, P13)."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from schemas.ids import EvidenceId, TenantId
from schemas.problems import (
    EngineFailed,
    ImageNotEvaluable,
    ImageUndecodable,
    NotFound,
    Overloaded,
    ProblemCode,
    Refused,
)
from schemas.reasons import ReasonCode
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import EvidenceStore
from streams.sessions.image_rules import FrameSeen, Thresholds
from streams.verification.checks import RequiredChecks
from streams.verification.engines import Engines, name_of
from streams.verification.observations import FacesSeen
from streams.verification.policy import MovementBands, VerificationPolicy
from streams.vision_ports import Embedding, Picture, Pose, Turn, on_behalf_of

SELFIE_S: Final = 2.0
"""How long a person waits to hear that there is no face on a selfie; the evaluation finds it out anyway."""

REMEMBERED: Final = 64
"""Selfies whose faces are remembered, some 2 kB each; any other is looked at again."""

SHORTER_SIDE_PX: Final = (480, 720)
LONGER_SIDE_MAX_PX: Final = 1440

_GONE: Final = (NotFound, Erased, Damaged)

One = TypeVar("One")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SelfieFace:
    """The face of a selfie."""

    seen: FacesSeen
    pose: Pose | None
    embedding: Embedding | None = field(repr=False)
    digest: str
    turn: Turn = 0
    """The turn at which it stands upright; frames come from the same camera."""


@dataclass(frozen=True, slots=True)
class FrameFace:
    """A frame as it was seen, and the digest of its pixels."""

    seen: FrameSeen
    digest: str


class CapturedFaces:
    """Find, measure and compare the faces of images in the evidence store."""

    def __init__(
        self,
        evidence: EvidenceStore,
        engines: Engines,
        policy: VerificationPolicy,
        patience_s: float = SELFIE_S,
    ) -> None:
        self._evidence = evidence
        self._engines = engines
        self._policy = policy
        self._checks = RequiredChecks(engines, policy)
        self._patience_s = patience_s
        self._selfies: OrderedDict[tuple[TenantId, EvidenceId], SelfieFace] = OrderedDict()

    @property
    def thresholds(self) -> Thresholds | None:
        """What frames are judged by; None where the engine's landmarks cannot tell movements."""
        bands = self._bands
        if bands is None:
            return None
        return Thresholds(bands, self._checks.face_bands(), self._policy.images)

    @property
    def _bands(self) -> MovementBands | None:
        return self._policy.movement_bands.get(name_of(self._engines.faces.model_version))

    async def reasons(self, tenant_id: TenantId, evidence_id: EvidenceId) -> tuple[ReasonCode, ...]:
        """Return what is wrong with the faces of a selfie; nothing when that is not known in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                face = await self.selfie(tenant_id, evidence_id)
        except TimeoutError:
            return ()
        if face is None:
            return ()
        if face.seen.count == 0:
            return (ReasonCode.FACE_NOT_FOUND_SELFIE,)
        return (ReasonCode.MULTIPLE_FACES,) if face.seen.several_alike else ()

    async def selfie(self, tenant_id: TenantId, evidence_id: EvidenceId) -> SelfieFace | None:
        """Return the face of a selfie, or None when the engines do not answer."""
        named = (tenant_id, evidence_id)
        known = self._selfies.get(named)
        if known is not None:
            self._selfies.move_to_end(named)
            return known
        found = await self._unless_failed("selfie", self._look_at_selfie(tenant_id, evidence_id))
        if found is not None:
            self._selfies[named] = found
            if len(self._selfies) > REMEMBERED:
                self._selfies.popitem(last=False)
        return found

    async def frame(
        self, tenant_id: TenantId, evidence_id: EvidenceId, selfie: SelfieFace
    ) -> FrameFace | None:
        """Return how a frame was seen, or None when the engines do not answer.

        Raises:
            Refused: IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE.
        """
        return await self._unless_failed("frame", self._look_at_frame(tenant_id, evidence_id, selfie))

    async def _look_at_selfie(self, tenant_id: TenantId, evidence_id: EvidenceId) -> SelfieFace:
        with on_behalf_of(tenant_id):
            picture = await self._picture(tenant_id, evidence_id)
            view = await self._checks.look(picture)
        if view.face is None:
            return SelfieFace(view.seen, None, view.embedding, picture.digest)
        pose = self._engines.faces.pose(view.face)
        return SelfieFace(view.seen, pose, view.embedding, picture.digest, view.face.turn)

    async def _look_at_frame(
        self, tenant_id: TenantId, evidence_id: EvidenceId, selfie: SelfieFace
    ) -> FrameFace:
        with on_behalf_of(tenant_id):
            picture = await self._picture(tenant_id, evidence_id)
            _require_size(picture)
            view = await self._checks.look(picture, selfie.turn)
        faces, shorter = self._engines.faces, min(picture.width, picture.height)
        if view.face is None or view.embedding is None or selfie.embedding is None:
            return FrameFace(FrameSeen(view.seen, shorter), picture.digest)
        distance = faces.distance(view.embedding, selfie.embedding)
        pose = faces.pose(view.face)
        return FrameFace(FrameSeen(view.seen, shorter, view.face.score, pose, distance), picture.digest)

    async def _picture(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Picture:
        content = await self._evidence.get(tenant_id, evidence_id)
        return await self._checks.call(self._engines.decoder.decode(content))

    async def _unless_failed(self, what: str, looking: Awaitable[One]) -> One | None:
        try:
            return await looking
        except (ImageUndecodable, ImageNotEvaluable):
            message = "The image cannot be evaluated."
            raise Refused.at("", ProblemCode.IMAGE_NOT_EVALUABLE, message) from None
        except (EngineFailed, Overloaded, *_GONE) as error:
            log.warning("capture.look_failed", what=what, cause=type(error).__name__)
            return None


def _require_size(picture: Picture) -> None:
    low, high = SHORTER_SIDE_PX
    shorter, longer = sorted((picture.width, picture.height))
    if not low <= shorter <= high or longer > LONGER_SIDE_MAX_PX:
        message = f"Its shorter side must have {low} to {high} pixels, the other up to {LONGER_SIDE_MAX_PX}."
        raise Refused.at("", ProblemCode.IMAGE_NOT_EVALUABLE, message)
