"""Submit a disposition: seal its request, send its command, and return the record that answers it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.intake.verifications import RequestReply, SubmitResult
from schemas.audit import Actor
from schemas.dispositions import (
    MAX_DAYS,
    CreateDisposition,
    DispositionCreated,
    DispositionKind,
    DispositionRequest,
)
from schemas.ids import DispositionId, SubjectId, TenantId
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from schemas.topics import Topic
from streams.aggregate import key_reused
from streams.audit.rows import seal_actor
from streams.dispositions.records import request_label
from streams.ports.evidence import Vault
from streams.ports.records import Record, RecordKind, Records
from streams.privacy.sealing import refusing_erased, seal, seal_subject_id
from streams.transactions.keyed_hashes import KeyedHashes


@dataclass(frozen=True, slots=True)
class DispositionIntake:
    """Submits dispositions; a repeated request sends the same."""

    request_reply: RequestReply
    records: Records
    vault: Vault
    hashes: KeyedHashes
    clock: Callable[[], datetime]
    answer_timeout_s: float

    async def submit(
        self, body: DispositionRequest, tenant_id: TenantId, actor: Actor, about: DispositionId
    ) -> SubmitResult:
        """Return the record of the disposition, new or of the first request with the same key.

        Raises:
            Refused: The body, the subject or the key's earlier use forbid it; or no list has the entity.
            DecisionPending: The answer did not come in time; the same key finds it later.
            Overloaded: Too much is under way.
            StoreUnavailable: Nothing is known; the same key may be sent again.
        """
        canonical = json.dumps(body.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        fingerprint = self.hashes.of(tenant_id, "disposition", canonical).hex()
        first = await self._find(tenant_id, about)
        if first is not None:
            if first.fingerprint != fingerprint:
                raise key_reused()
            return SubmitResult(first, replayed=True)
        _refuse_impossible(body, self.clock())
        subject_id = None if body.subject_id is None else SubjectId(body.subject_id)
        with refusing_erased():
            command = CreateDisposition(
                tenant_id=tenant_id,
                disposition_id=about,
                fingerprint=fingerprint,
                livemode=body.livemode,
                requested_at=self.clock(),
                subject_id=subject_id and await seal_subject_id(self.vault, tenant_id, subject_id),
                sealed_request=await seal(self.vault, tenant_id, subject_id, request_label(about), body),
                actor=await seal_actor(self.vault, tenant_id, actor),
            )
        answer = await self.request_reply.request(
            Topic.SCREENING_COMMANDS, about, command, DispositionCreated, self.answer_timeout_s
        )
        record = await self.records.get(tenant_id, RecordKind.DISPOSITION, about)
        return SubmitResult(record, replayed=answer.replayed)

    async def _find(self, tenant_id: TenantId, about: DispositionId) -> Record | None:
        try:
            return await self.records.get(tenant_id, RecordKind.DISPOSITION, about)
        except NotFound:
            return None


def _refuse_impossible(body: DispositionRequest, now: datetime) -> None:
    """Refuse a request that does not say whom and what it is about, or whose end is no end.

    Raises:
        Refused: VALIDATION_FAILED, place by place.
    """
    code = ProblemCode.VALIDATION_FAILED
    errors = tuple(
        FieldProblem(code=code, message=message, pointer=pointer) for pointer, message in _problems(body, now)
    )
    if errors:
        raise Refused.because(code, errors[0].message, *errors)


def _problems(body: DispositionRequest, now: datetime) -> Iterator[tuple[str, str]]:
    if (body.subject_id is None) is (body.counterparty_id is None):
        yield "/subject_id", "Name either subject_id or counterparty_id."
    is_rule = body.kind is DispositionKind.RULE
    for name, needed in (("list", not is_rule), ("entity_id", not is_rule), ("rule_id", is_rule)):
        if (getattr(body, name) is not None) is not needed:
            yield f"/{name}", f"A disposition of kind {body.kind} {'needs' if needed else 'has no'} {name}."
    for message in expiry_problems(body.expires_at, now):
        yield "/expires_at", message


def expiry_problems(expires_at: datetime, now: datetime) -> Iterator[str]:
    """Yield what is wrong with the end of a disposition."""
    if expires_at <= now:
        yield "The time is past."
    if expires_at > now + timedelta(days=MAX_DAYS):
        yield f"The time lies more than {MAX_DAYS} days ahead."
