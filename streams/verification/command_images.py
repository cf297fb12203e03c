"""Fetches and decodes the two images of a command, or refuses those that cannot be evaluated."""

import asyncio
from typing import Final

import numpy as np

from schemas.enums import FlowType
from schemas.problems import ImageNotEvaluable, ImageUndecodable
from schemas.verifications import SubmitVerification
from streams.ports.evidence import EvidenceStore
from streams.verification.checks import DOCUMENT_POINTER, SELFIE_POINTER, RequiredChecks, both, unless_broken
from streams.verification.engine_queue import Turns
from streams.verification.refusals import unusable_images
from streams.vision_ports import Condition, ImageDecoder, Picture

_NO_PIXELS: Final = Picture(np.empty((0, 0, 3), np.uint8))
"""Stands for an image that can be decoded and whose pixels are not needed."""


class CommandImages:
    """Loads the images of a command from the evidence store through the decoder."""

    def __init__(
        self, evidence: EvidenceStore, decoder: ImageDecoder, checks: RequiredChecks, turns: Turns
    ) -> None:
        self._evidence = evidence
        self._decoder = decoder
        self._checks = checks
        self._turns = turns

    async def load(self, command: SubmitVerification, *, pixels: bool) -> tuple[Picture, Picture] | None:
        """Fetch and decode both images; None when the decoder itself broke.

        One image that stands for both is looked at twice: a DOCUMENT session has no selfie. Without `pixels`,
        for a scenario of the sandbox, the images are only examined: they must be such as can be decoded.

        Raises:
            Refused: IMAGE_UNDECODABLE or IMAGE_NOT_EVALUABLE, naming every image it is true of.
        """
        async with self._turns.taken(wanted=not pixels):
            shown, own = await asyncio.gather(  # together: a store may answer both at once
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
            return await unless_broken("images", self._checks.ask(self._decoder.decode(image)))
        except (ImageUndecodable, ImageNotEvaluable) as condition:
            return condition

    async def _examined(self, images: tuple[bytes, bytes]) -> tuple[Picture | Condition | None, ...]:
        conditions = await unless_broken("images", self._checks.ask(self._decoder.examine(images)))
        if conditions is None:
            return None, None
        return tuple(condition or _NO_PIXELS for condition in conditions)
