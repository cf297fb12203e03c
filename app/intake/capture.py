"""Store a captured image as evidence and check its quality at once, away from the event loop."""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from app.intake.images import MAX_IMAGE_BYTES, ImageGate, ReceivedImage, StorableImage, make_storable
from app.vision.forker import Forker
from app.vision.pool import VisionPool
from app.vision.pooled import PooledImageDecoder
from schemas.enums import EvidenceKind
from schemas.ids import ALPHABET, EvidenceId, SessionId, TenantId, derive_id
from schemas.people import CaptureCaller
from schemas.problems import (
    EngineFailed,
    ImageNotEvaluable,
    ImageUndecodable,
    ProblemCode,
    Refused,
    Unauthenticated,
)
from schemas.reasons import ReasonCode
from schemas.sessions import StoredSession
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore
from streams.sessions.image_rules import said_at_once, said_of_scenario
from streams.sessions.rules import attempt_of, verification_id
from streams.verification.policy import ImageThresholds, VerificationPolicy
from streams.verification.records import RETENTION_OF
from streams.verification.sandbox import scenario_for
from streams.vision_ports import ImageDecoder

WHOLE_BODY: Final = ""
"""The pointer of an image that is the body itself."""

JUDGING_S: Final = 8.0
"""How long a front judges an image before it keeps it unjudged; the evaluation judges it anyway."""

MAX_FRAME_BYTES: Final = 300_000
"""A frame of a movement (P13)."""

_JPEG: Final = b"\xff\xd8\xff"

WAITING: Final = 32
"""A front looks at captured images one after the other, some 0.1 s each, without any model."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredCapture:
    """An image that is stored, not yet named by the session."""

    attempt: int
    evidence_id: EvidenceId
    reasons: tuple[ReasonCode, ...]


@dataclass(frozen=True, slots=True)
class CaptureIntake:
    """Accepts captured images; the same image again is stored once."""

    evidence: EvidenceStore
    images: ImageGate
    decoder: ImageDecoder
    clock: Callable[[], datetime]
    thresholds: ImageThresholds

    async def keep(
        self, tenant_id: TenantId, stored: StoredSession, what: EvidenceKind, image: ReceivedImage
    ) -> StoredCapture:
        """Store an image of the present attempt, and return its quality faults.

        Raises:
            Refused: PAYLOAD_TOO_LARGE, IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE at its place.
            Overloaded: Too many images are being looked at.
            StoreUnavailable: Nothing is known; the same image may be sent again.
        """
        if len(image.content) > MAX_IMAGE_BYTES:
            message = f"The image has more than {MAX_IMAGE_BYTES} bytes."
            raise Refused.at(image.pointer, ProblemCode.PAYLOAD_TOO_LARGE, message)
        keepable = await make_storable(self.images, image)
        reasons = await self._judge(stored, what, image, keepable)
        evidence_id = await self._store(tenant_id, stored, what, image, keepable)
        return StoredCapture(attempt_of(stored), evidence_id, reasons)

    async def keep_frame(
        self, tenant_id: TenantId, stored: StoredSession, image: ReceivedImage
    ) -> EvidenceId:
        """Store a frame of a movement; the judge of it decodes it.

        Raises:
            Refused: PAYLOAD_TOO_LARGE, IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE at its place.
            Overloaded: Too many images are being looked at.
            StoreUnavailable: Nothing is known; the same frame may be sent again.
        """
        if len(image.content) > MAX_FRAME_BYTES:
            message = f"The frame has more than {MAX_FRAME_BYTES} bytes."
            raise Refused.at(image.pointer, ProblemCode.PAYLOAD_TOO_LARGE, message)
        if not image.content.startswith(_JPEG):
            raise Refused.at(image.pointer, ProblemCode.IMAGE_UNDECODABLE, "A frame is a JPEG.")
        keepable = await make_storable(self.images, image)
        return await self._store(tenant_id, stored, EvidenceKind.LIVENESS_TRACE, image, keepable)

    async def _store(
        self,
        tenant_id: TenantId,
        stored: StoredSession,
        what: EvidenceKind,
        image: ReceivedImage,
        keepable: StorableImage,
    ) -> EvidenceId:
        row, attempt = stored.session, attempt_of(stored)
        run = verification_id(tenant_id, row.session_id, attempt)
        evidence_id = EvidenceId(derive_id("evd", run, what, image.digest))
        draft = EvidenceRow(
            tenant_id=tenant_id,
            subject_id=row.subject_id,
            verification_id=run,
            evidence_id=evidence_id,
            kind=what,
            retention_policy=RETENTION_OF[what],
            media_type=keepable.media_type,
            created_at=self.clock(),
        )
        await self.evidence.put([EvidenceDraft(draft, keepable.content)])
        return evidence_id

    async def _judge(
        self, stored: StoredSession, what: EvidenceKind, image: ReceivedImage, keepable: StorableImage
    ) -> tuple[ReasonCode, ...]:
        row = stored.session
        try:
            async with asyncio.timeout(JUDGING_S):
                picture = await self.decoder.decode(keepable.content)
                scenario = scenario_for(row.subject_id, livemode=row.livemode)
                if scenario is not None:
                    return said_of_scenario(scenario)
                measured = await self.decoder.sharpness(picture)
        except ImageUndecodable:
            message = "The image cannot be decoded."
            raise Refused.at(image.pointer, ProblemCode.IMAGE_UNDECODABLE, message) from None
        except ImageNotEvaluable:
            message = "There is nothing in the image to evaluate."
            raise Refused.at(image.pointer, ProblemCode.IMAGE_NOT_EVALUABLE, message) from None
        except (EngineFailed, TimeoutError):
            log.warning("capture.check_failed", session_id=row.session_id)
            return ()
        return said_at_once(what, measured, min(picture.width, picture.height), self.thresholds)


@asynccontextmanager
async def open_image_pool(forker: Forker) -> AsyncIterator[VisionPool]:
    """Open a child process for the front, so that its images never wait for models."""
    pool = VisionPool(forker, 1, waiting=WAITING)
    try:
        yield pool
    finally:
        await pool.aclose()


def build_capture_intake(
    evidence: EvidenceStore, decoder: PooledImageDecoder, clock: Callable[[], datetime]
) -> CaptureIntake:
    """Judge captured images by the thresholds of the evaluation."""
    return CaptureIntake(evidence, decoder, decoder, clock, VerificationPolicy().images)


def arrived(content: bytes) -> ReceivedImage:
    """Return an image that is the body itself."""
    return ReceivedImage(WHOLE_BODY, content, hashlib.sha256(content).hexdigest())


_BODY: Final = f"[{ALPHABET}]{{26}}"
_FORM: Final = re.compile(f"cap_({_BODY})({_BODY})([0-9]{{10}})_([A-Za-z0-9_-]{{43}})")
"""Tenant, session, end (seconds since 1970), HMAC-SHA-256 over the three."""


class CaptureTokens:
    """Issue and verify stateless tokens; the same session always has the same token."""

    def __init__(self, key: bytes, now: Callable[[], datetime]) -> None:
        self._key = key
        self._now = now

    def issue(self, tenant_id: TenantId, session_id: SessionId, expires_at: datetime) -> str:
        """Return the token of a session."""
        body = _body(tenant_id) + _body(session_id) + f"{int(expires_at.timestamp()):010d}"
        return f"cap_{body}_{self._sign(body)}"

    def recognise(self, presented: str) -> CaptureCaller:
        """Return the session a token is good for.

        Raises:
            Unauthenticated: It is malformed, forged or expired.
        """
        found = _FORM.fullmatch(presented)
        if found is None:
            raise Unauthenticated
        tenant, session, ends, signature = found.groups()
        if not hmac.compare_digest(signature, self._sign(tenant + session + ends)):
            raise Unauthenticated
        if self._now() >= datetime.fromtimestamp(int(ends), UTC):
            raise Unauthenticated
        return CaptureCaller(tenant_id=TenantId(f"ten_{tenant}"), session_id=SessionId(f"vs_{session}"))

    def _sign(self, body: str) -> str:
        mac = hmac.new(self._key, body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def _body(identifier: str) -> str:
    return identifier.partition("_")[2]
