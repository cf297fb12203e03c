"""Submit a verification: store its evidence, send its command, and return the record that answers it."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol, TypeVar

from app.intake.admission import Admission
from app.intake.body import SubmitBody
from app.intake.images import ImageGate, ReceivedImage, encoded_length, make_storable, unpack
from schemas.access import TenantCaller
from schemas.base import Command, Event
from schemas.enums import EvidenceKind
from schemas.ids import TenantId, VerificationId, derive_id
from schemas.problems import DecisionPending, NotFound, Overloaded, StoreUnavailable
from schemas.topics import Topic
from schemas.verifications import DeclaredDocument, Submission, SubmitVerification, VerificationDecided
from streams.aggregate import key_reused
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore, Vault
from streams.ports.records import Record, RecordKind, Records
from streams.privacy.sealing import refusing_erased, seal_subject_id
from streams.runtime.producer import NeverSent
from streams.verification.records import RETENTION_OF, evidence_id, mode, submission_label
from streams.verification.sandbox import scenario_for

ROUTE: Final = "POST /v1/verifications"
"""Part of what a verification id is derived from (G2); it can never change."""

INLINE_CHARS: Final = 64 * 1024
"""Base64 up to here is decoded, hashed and looked at in the event loop: measured, 64 KiB take 0.35 ms, and
a hop to a thread and back 0.06 ms that every small request would pay."""

Answer = TypeVar("Answer", bound=Event)


class RequestReply(Protocol):
    """Sends a command to the log and waits for its answer."""

    async def request(
        self,
        topic: Topic,
        key: str,
        command: Command,
        answer_type: type[Answer],
        timeout_s: float,
        /,
        *,
        once: str | None = None,
    ) -> Answer:
        """Return the answer; raises `Refused`, `DecisionPending`, `Overloaded` or `StoreUnavailable`.

        While a command of the same name `once` is unanswered, it is not sent again.
        """
        ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller and the identifiers of a request."""

    caller: TenantCaller
    request_id: str
    idempotency_key: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The record that answers the request."""

    record: Record
    replayed: bool
    """The request had been answered before; `record.first_body` is that answer."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Submits verifications; a repeated request stores and sends the same."""

    request_reply: RequestReply
    records: Records
    evidence: EvidenceStore
    vault: Vault
    images: ImageGate
    clock: Callable[[], datetime]
    admission: Admission
    """Where verifications that need models wait for their turn, before their images are decoded."""
    answer_timeout_s: float

    async def submit(self, body: SubmitBody, asked: RequestContext) -> SubmitResult:
        """Return the record of the verification, new or of the first request with the same key.

        Raises:
            Refused: The images, the subject or the key's earlier use forbid it; or the command was refused.
            DecisionPending: The answer did not come in time; it names the verification; the same key finds it
                later.
            Overloaded: Too much is under way.
            StoreUnavailable: Nothing is known; the same key may be sent again.
        """
        scenario = scenario_for(body.subject_id, livemode=asked.caller.livemode)
        verification_id = _derived_id(asked)
        if verification_id is not None:
            first = await self._find(asked, verification_id)
            if first is not None:
                return await self._replay(first, body)
        if scenario is not None:  # it needs no model, so it waits for none
            name = verification_id or self.admission.fresh_id()
            return await self._decide(body, asked, name, self.answer_timeout_s)
        async with self.admission.place(asked.caller.tenant_id, verification_id) as place:
            place.decided = partial(self._is_decided, asked, place.verification_id)
            left_s = self.answer_timeout_s - place.waited_s
            return await self._decide(body, asked, place.verification_id, left_s)

    async def _decide(
        self, body: SubmitBody, asked: RequestContext, verification_id: VerificationId, timeout_s: float
    ) -> SubmitResult:
        """Store the evidence, send the command, and return the record that answers it."""
        document, selfie = await self._unpack(body)
        fingerprint = fingerprint_of(body, document, selfie)
        with refusing_erased():
            command = await self._keep(body, asked, verification_id, fingerprint, (document, selfie))
        try:
            return await self._ask(command, timeout_s)
        except DecisionPending as pending:
            raise DecisionPending(verification_id) from pending
        except (Overloaded, NeverSent):
            if asked.idempotency_key is None:
                await self._forget(command)
            raise

    async def _replay(self, first: Record, body: SubmitBody) -> SubmitResult:
        """Return the record that the key's first request made, if this is the same request."""
        document, selfie = await self._unpack(body)
        if first.fingerprint != fingerprint_of(body, document, selfie):
            raise key_reused()
        return SubmitResult(first, replayed=True)

    async def _unpack(self, body: SubmitBody) -> tuple[ReceivedImage, ReceivedImage]:
        if encoded_length(body) <= INLINE_CHARS:
            return unpack(body)
        return await asyncio.to_thread(unpack, body)

    async def _find(self, asked: RequestContext, verification_id: VerificationId) -> Record | None:
        try:
            return await self.records.get(asked.caller.tenant_id, RecordKind.VERIFICATION, verification_id)
        except NotFound:
            return None

    async def _is_decided(self, asked: RequestContext, verification_id: VerificationId) -> bool:
        return await self._find(asked, verification_id) is not None

    async def _keep(
        self,
        body: SubmitBody,
        asked: RequestContext,
        verification_id: VerificationId,
        fingerprint: str,
        arrived: tuple[ReceivedImage, ReceivedImage],
    ) -> SubmitVerification:
        """Keep the evidence and the sealed part, and word the command."""
        caller, now = asked.caller, self.clock()
        naming = (caller.tenant_id, verification_id, fingerprint)
        document, selfie = await self._drafts(body, naming, now, arrived)
        label = submission_label(verification_id)
        plain = _submission(body, asked).to_bytes()
        await self.evidence.put((document, selfie))  # first: it gives the subject its key on the way
        sealed = await self.vault.seal(caller.tenant_id, body.subject_id, label, plain)
        return SubmitVerification(
            tenant_id=caller.tenant_id,
            verification_id=verification_id,
            subject_id=await seal_subject_id(self.vault, caller.tenant_id, body.subject_id),
            livemode=caller.livemode,
            fingerprint=fingerprint,
            document_evidence_id=document.row.evidence_id,
            selfie_evidence_id=selfie.row.evidence_id,
            image_bytes=len(document.content) + len(selfie.content),
            sealed_submission=sealed,
            key_id=caller.key_id,
            request_id=asked.request_id,
            requested_at=now,
        )

    async def _drafts(
        self,
        body: SubmitBody,
        naming: tuple[TenantId, VerificationId, str],
        now: datetime,
        arrived: tuple[ReceivedImage, ReceivedImage],
    ) -> tuple[EvidenceDraft, EvidenceDraft]:
        """Return document and selfie as they will be stored; the same request stores them once."""
        tenant_id, verification_id, _ = naming

        async def draft(image: ReceivedImage, kind: EvidenceKind) -> EvidenceDraft:
            keepable = await make_storable(self.images, image)
            row = EvidenceRow(
                tenant_id=tenant_id,
                subject_id=body.subject_id,
                verification_id=verification_id,
                evidence_id=evidence_id(*naming, kind),
                kind=kind,
                retention_policy=RETENTION_OF[kind],
                media_type=keepable.media_type,
                created_at=now,
            )
            return EvidenceDraft(row, keepable.content)

        document, selfie = arrived
        return await draft(document, EvidenceKind.IMAGE), await draft(selfie, EvidenceKind.SELFIE)

    async def _forget(self, command: SubmitVerification) -> None:
        """Remove the evidence of a command that is certainly not in the log and cannot be repeated."""
        with suppress(StoreUnavailable):
            await self.evidence.discard(
                command.tenant_id, [command.document_evidence_id, command.selfie_evidence_id]
            )

    async def _ask(self, command: SubmitVerification, timeout_s: float) -> SubmitResult:
        decided = await self.request_reply.request(
            Topic.VERIFICATION_COMMANDS,
            command.verification_id,
            command,
            VerificationDecided,
            timeout_s,
        )
        record = await self.records.get(command.tenant_id, RecordKind.VERIFICATION, command.verification_id)
        return SubmitResult(record, replayed=decided.replayed)


def fingerprint_of(body: SubmitBody, document: ReceivedImage, selfie: ReceivedImage) -> str:
    """Return the SHA-256 of the canonical body, hexadecimal; an image counts by the SHA-256 of its bytes.

    So the same request is the same whatever its key order, its spacing or its `data:` prefixes.
    """
    canonical = body.model_dump(
        mode="json", exclude={"document": {"image_base64"}, "selfie_image_base64": True}
    )
    canonical["images"] = [document.digest, selfie.digest]
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _derived_id(asked: RequestContext) -> VerificationId | None:
    """Return the id derived from the request's key, None without a key (G2)."""
    caller, key = asked.caller, asked.idempotency_key
    if key is None:
        return None
    return VerificationId(derive_id("ver", caller.tenant_id, mode(caller.livemode), ROUTE, key))


def _submission(body: SubmitBody, asked: RequestContext) -> Submission:
    document = body.document
    declared = DeclaredDocument(
        issuing_country=document.issuing_country,
        number_last4=document.number_last4,
        expires_at=document.expires_at,
        extracted_fields=document.extracted_fields,
    )
    return Submission(declared=declared, ip=asked.address)
