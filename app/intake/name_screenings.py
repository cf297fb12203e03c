"""Submit a name screening: seal its request, send its command, and return the record that answers it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.intake.verifications import RequestReply, SubmitResult
from schemas.audit import Actor
from schemas.ids import ScreeningId, SubjectId, TenantId
from schemas.name_screenings import NameScreeningRequest, NamesScreened, ScreenNames
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.topics import Topic
from streams.aggregate import key_reused
from streams.audit.rows import seal_actor
from streams.name_screenings.records import request_label
from streams.ports.evidence import Vault
from streams.ports.records import Record, RecordKind, Records
from streams.privacy.sealing import refusing_erased, seal, seal_subject_id
from streams.transactions.keyed_hashes import KeyedHashes


@dataclass(frozen=True, slots=True)
class AskedScreening:
    """Who asks for a screening, in which mode, and under which id."""

    tenant_id: TenantId
    livemode: bool
    actor: Actor
    screening_id: ScreeningId
    """Derived from the Idempotency-Key, if there was one."""


@dataclass(frozen=True, slots=True)
class NameScreeningIntake:
    """Submits name screenings; a repeated request sends the same."""

    request_reply: RequestReply
    records: Records
    vault: Vault
    hashes: KeyedHashes
    clock: Callable[[], datetime]
    answer_timeout_s: float

    async def submit(self, body: NameScreeningRequest, asked: AskedScreening) -> SubmitResult:
        """Return the record of the screening, new or of the first request with the same key.

        Raises:
            Refused: The body, the subject or the key's earlier use forbid it; or the command was refused.
            DecisionPending: The answer did not come in time; the same key finds it later.
            Overloaded: Too much is under way.
            StoreUnavailable: Nothing is known; the same key may be sent again.
        """
        if body.monitor and body.subject_id is None:
            message = "Names are monitored for a subject; name it in subject_id."
            raise Refused.at("/monitor", ProblemCode.VALIDATION_FAILED, message)
        fingerprint = self._fingerprint(body, asked.tenant_id)
        first = await self._find(asked)
        if first is not None:
            if first.fingerprint != fingerprint:
                raise key_reused()
            return SubmitResult(first, replayed=True)
        with refusing_erased():
            command = await self._command(body, asked, fingerprint)
        answer = await self.request_reply.request(
            Topic.SCREENING_COMMANDS, asked.screening_id, command, NamesScreened, self.answer_timeout_s
        )
        kind = RecordKind.NAME_SCREENING
        record = await self.records.get(asked.tenant_id, kind, asked.screening_id)
        return SubmitResult(record, replayed=answer.replayed)

    async def _find(self, asked: AskedScreening) -> Record | None:
        try:
            return await self.records.get(asked.tenant_id, RecordKind.NAME_SCREENING, asked.screening_id)
        except NotFound:
            return None

    def _fingerprint(self, body: NameScreeningRequest, tenant_id: TenantId) -> str:
        """Return the keyed hash of the canonical body: it tells nothing of whose names were asked about."""
        canonical = json.dumps(body.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return self.hashes.of(tenant_id, "name-screening", canonical).hex()

    async def _command(
        self, body: NameScreeningRequest, asked: AskedScreening, fingerprint: str
    ) -> ScreenNames:
        tenant_id = asked.tenant_id
        subject_id = None if body.subject_id is None else SubjectId(body.subject_id)
        label = request_label(asked.screening_id)
        sealed = await seal(self.vault, tenant_id, subject_id, label, body)
        return ScreenNames(
            tenant_id=tenant_id,
            screening_id=asked.screening_id,
            fingerprint=fingerprint,
            livemode=asked.livemode,
            requested_at=self.clock(),
            subject_id=None
            if subject_id is None
            else await seal_subject_id(self.vault, tenant_id, subject_id),
            sealed_request=sealed,
            actor=await seal_actor(self.vault, tenant_id, asked.actor),
        )
