"""Load and decode the two images of a command, or refuse those that cannot be evaluated."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

import numpy as np

from schemas.enums import FlowType
from schemas.problems import FieldProblem, ImageNotEvaluable, ImageUndecodable, ProblemCode, Refused
from schemas.verifications import SubmitVerification
from streams.ports.evidence import EvidenceStore
from streams.verification.checks import DOCUMENT_POINTER, SELFIE_POINTER, RequiredChecks
from streams.verification.engines import both, unless_broken
from streams.verification.evaluation_limits import EngineSlots
from streams.vision_ports import Condition, ImageDecoder, Picture

SMALL_BYTES: Final = 8 * 1024
"""Two images up to here are examined without a slot: slots bound the memory that images take."""

_NO_PIXELS: Final = Picture(np.empty((0, 0, 3), np.uint8))
"""Placeholder for an image that can be decoded and whose pixels are not needed."""


class CommandImages:
    """Load the images of a command from the evidence store through the decoder."""

    def __init__(
        self, evidence: EvidenceStore, decoder: ImageDecoder, checks: RequiredChecks, slots: EngineSlots
    ) -> None:
        self._evidence = evidence
        self._decoder = decoder
        self._checks = checks
        self._slots = slots

    async def load(self, command: SubmitVerification, *, pixels: bool) -> tuple[Picture, Picture] | None:
        """Fetch and decode both images; None when the decoder itself broke.

        One image that stands for both is decoded twice: a DOCUMENT session has no selfie. Without `pixels`,
        for a scenario of the sandbox, the images are only examined: they must be such as can be decoded.

        Raises:
            Refused: IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE, naming every image concerned.
        """
        small = command.image_bytes is not None and command.image_bytes <= SMALL_BYTES
        async with nullcontext() if pixels or small else self._slots.taken():
            shown, own = await asyncio.gather(  # a store may answer both at once
                self._evidence.get(command.tenant_id, command.document_evidence_id),
                self._evidence.get(command.tenant_id, command.selfie_evidence_id),
            )
            if pixels:
                document, selfie = await both(self._decoded(shown), self._decoded(own))
            else:
                document, selfie = await self._examined((shown, own))
        sent = [(DOCUMENT_POINTER, document), (SELFIE_POINTER, selfie)]
        refusal = unusable_images(sent if command.flow_type is not FlowType.BIOMETRIC else sent[1:])
        if refusal is not None:
            raise refusal
        if isinstance(document, Picture) and isinstance(selfie, Picture):
            return document, selfie
        return None

    async def _decoded(self, image: bytes) -> Picture | Condition | None:
        try:
            return await unless_broken("images", self._checks.call(self._decoder.decode(image)))
        except (ImageUndecodable, ImageNotEvaluable) as condition:
            return condition

    async def _examined(self, images: tuple[bytes, bytes]) -> tuple[Picture | Condition | None, ...]:
        conditions = await unless_broken("images", self._checks.call(self._decoder.examine(images)))
        if conditions is None:
            return None, None
        return tuple(condition or _NO_PIXELS for condition in conditions)


REFUSALS_OF_IMAGES: Final = (
    (ImageUndecodable, ProblemCode.IMAGE_UNDECODABLE, "The image cannot be decoded."),
    (ImageNotEvaluable, ProblemCode.IMAGE_NOT_EVALUABLE, "There is nothing in the image to evaluate."),
)
"""The problem of each decoder error; the first kind found is the answer (G60)."""


def unusable_images(images: Sequence[tuple[str, object]]) -> Refused | None:
    """Return the refusal with the more severe of the two errors, at every image that has it."""
    for condition, code, message in REFUSALS_OF_IMAGES:
        places = [pointer for pointer, image in images if isinstance(image, condition)]
        if places:
            errors = [FieldProblem(code=code, message=message, pointer=pointer) for pointer in places]
            return Refused.because(code, message, *errors)
    return None
