"""Search each verification's face among those of other approved subjects, where the policy enables it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from schemas.enums import VerificationStatus
from schemas.reasons import ReasonCode
from schemas.tenant_settings import DuplicateFaces
from schemas.verifications import SubmitVerification
from streams.ports.evidence import Vault
from streams.verification import records
from streams.verification.change import Decided
from streams.verification.engines import face_bands
from streams.verification.face_search import FaceQuery, FaceSearch, pack_face
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.reuse import noted
from streams.verification.rules import Finding, usual
from streams.vision_ports import Embedding, FaceEngine


@dataclass(frozen=True, slots=True)
class KnownFaces:
    """The faces of approved subjects, by tenant and mode."""

    search: FaceSearch | None
    """None: the search is not available, so no policy may enable it."""
    engine: FaceEngine
    vault: Vault

    async def unless_known(
        self, command: SubmitVerification, evaluation: Evaluation, policy: VerificationPolicy, at: datetime
    ) -> Evaluation:
        """Add a duplicate face to the evaluation, and note in every case that it was searched.

        Raises:
            StoreUnavailable: The search is not possible now.
        """
        if policy.duplicate_faces is DuplicateFaces.OFF:
            if self.search is not None:
                self.search.forget(command.tenant_id)
            return evaluation
        if evaluation.exempt:
            return evaluation
        if not command.face_search_agreed:
            return noted(evaluation, (), "The person agreed to a notice without a search among other faces.")
        if evaluation.face is None:
            return noted(evaluation, (), "No face was measured to look for among other subjects'.")
        return noted(evaluation, *await self._look(command, evaluation.face, policy, at))

    async def _look(
        self, command: SubmitVerification, face: Embedding, policy: VerificationPolicy, at: datetime
    ) -> tuple[tuple[Finding, ...], str]:
        """Return the findings of the search and the sentence for a reviewer."""
        if self.search is None or not np.isfinite(face).all():
            reasons = usual(ReasonCode.PROVIDER_UNAVAILABLE)
            return reasons, "The face could not be looked for among other subjects'."
        query = FaceQuery(
            tenant_id=command.tenant_id,
            livemode=command.livemode,
            model_version=self.engine.model_version,
            subject_id=command.subject_id,
            face=face,
            at=at,
            since=at - timedelta(days=policy.faces_kept_days),
        )
        found = await self.search.nearest(query)
        limit = face_bands(policy, self.engine).same_among_many
        among = f"Among {found.compared} faces of other approved subjects"
        if found.nearest is None or (apart := self.engine.distance(face, found.nearest.face)) > limit:
            return (), f"{among} none lies within {limit:.3g}."
        which = f"that of {found.nearest.verification_id} lies at {apart:.3g}, within {limit:.3g}"
        return usual(ReasonCode.DUPLICATE_SUBJECT), f"{among} {which}."

    async def seal(self, decided: Decided) -> str | None:
        """Return the sealed face for the record of its verification, or None where it is not to be stored.

        It is searched once the verification is APPROVED, also by a reviewer.

        Raises:
            Erased: The subject was erased.
        """
        face, command = decided.evaluation.face, decided.command
        wanted = decided.policy.duplicate_faces is not DuplicateFaces.OFF and command.face_search_agreed
        failed = decided.judgement.status is VerificationStatus.FAILED
        if face is None or failed or not wanted or decided.evaluation.exempt:
            return None
        label = records.face_label(command.verification_id)
        packed = pack_face(self.engine.model_version, face)
        return await self.vault.seal(command.tenant_id, command.subject_id, label, packed)
