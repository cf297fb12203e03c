"""Register pictures by digest, so that one picture used for two subjects is noticed (R2)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.base import Frozen
from schemas.enums import FlowType
from schemas.ids import EvidenceId, SubjectId
from schemas.problems import NotFound
from schemas.verifications import PersonalFields, StoredVerification, SubmitVerification
from streams.ports.errors import Conflict, Damaged, Erased
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.verification import records, reuse
from streams.verification.observations import Evaluation
from streams.vision_ports import Picture

_TRIES: Final = 3
"""Attempts to claim a picture whose holder is gone, under concurrent claims."""


class PictureHolder(Frozen):
    """The subject a picture was first stored for, and its evidence id."""

    subject_id: SubjectId
    evidence_id: EvidenceId


@dataclass(frozen=True, slots=True)
class KnownPictures:
    """The pictures of all subjects, by tenant, mode and digest."""

    stores: Stores

    async def unless_known(
        self,
        command: SubmitVerification,
        evaluation: Evaluation,
        pictures: tuple[Picture, Picture] | None,
        at: datetime,
    ) -> Evaluation:
        """Claim the command's pictures for its subject, and return those stored for another one.

        Claims are committed before the decision: of two subjects that submit one picture at the same
        time the later one is noticed. A repeated command finds its own claim, which is no duplicate.
        """
        if pictures is None or evaluation.exempt:
            return evaluation
        document, selfie = pictures
        found = {
            "document": command.flow_type is not FlowType.BIOMETRIC
            and await self._is_anothers(command, document.digest, command.document_evidence_id, at),
            "selfie": command.flow_type is not FlowType.DOCUMENT
            and selfie.digest != document.digest
            and await self._is_anothers(command, selfie.digest, command.selfie_evidence_id, at),
        }
        return reuse.duplicated(evaluation, **found)

    async def is_exempt(self, command: SubmitVerification, evaluation: Evaluation) -> bool:
        """Return whether the document is a specimen in test mode; a portrait is one if its document was."""
        if command.livemode:
            return False
        if command.flow_type is not FlowType.BIOMETRIC:
            return reuse.is_specimen(evaluation)
        try:
            portrait = await self.stores.evidence.describe(command.tenant_id, command.document_evidence_id)
            record = await self.stores.records.get(
                command.tenant_id, RecordKind.VERIFICATION, portrait.verification_id
            )
            stored = StoredVerification.from_bytes(record.body)
            if stored.sealed_fields is None:
                return False
            opened = await self.stores.vault.open(
                command.tenant_id,
                stored.verification.subject_id,
                records.fields_label(portrait.verification_id),
                stored.sealed_fields,
            )
        except (NotFound, Erased, Damaged):
            return False
        return PersonalFields.from_bytes(opened).issuing_country == reuse.SPECIMENS

    async def _is_anothers(
        self, command: SubmitVerification, digest: str, evidence_id: EvidenceId, at: datetime
    ) -> bool:
        """Claim one picture; return True when it is stored for another subject of the tenant in the mode."""
        if not digest:
            return False
        mine = PictureHolder(subject_id=command.subject_id, evidence_id=evidence_id).to_bytes()
        record_id, seen = records.picture_id(command.livemode, digest), (records.seen_index(at),)
        record = Record(command.tenant_id, RecordKind.PICTURE, record_id, mine, at, indexes=seen)
        for _ in range(_TRIES):
            try:
                found = (await self.stores.journal.commit(Change(command.tenant_id, (record,)))).record
            except Conflict:
                found = await self.stores.records.get(command.tenant_id, RecordKind.PICTURE, record_id)
            holder = PictureHolder.from_bytes(found.body)
            if holder.subject_id == command.subject_id:
                return False
            if await self._is_stored(command, holder):
                return True
            record = replace(found, body=mine, version=found.version + 1, indexes=seen)
        return True

    async def _is_stored(self, command: SubmitVerification, holder: PictureHolder) -> bool:
        """Return whether the holder's evidence still exists: it may be erased, expired or refused."""
        try:
            await self.stores.evidence.get(command.tenant_id, holder.evidence_id)
        except (NotFound, Erased):
            return False
        except Damaged:
            return True
        return True
