"""Submit a transaction: seal its request, send its command, and return the record that answers it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.intake.verifications import RequestContext, RequestReply, SubmitResult
from schemas.ids import TransactionId
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from schemas.topics import Topic
from schemas.transaction_decisions import ScreenTransaction, TransactionScreened
from schemas.transactions import TransactionRequest, TransactionType
from streams.aggregate import key_reused
from streams.ports.evidence import Vault
from streams.ports.records import Record, RecordKind, Records
from streams.privacy.sealing import refusing_erased, seal_subject_id
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.records import request_label, transaction_id
from streams.transactions.sandbox import scenario_for
from streams.transactions.wallets import address_of

OLDEST: Final = timedelta(hours=24)
"""How long ago a transaction may have occurred (G39)."""

EARLIEST: Final = timedelta(minutes=5)
"""How far ahead of ours the tenant's clock may be (G39)."""

ANSWER_TIMEOUT_S: Final = 2.0
"""How long a payment waits for its decision; afterwards DECISION_PENDING, never ALLOW (G39)."""


@dataclass(frozen=True, slots=True)
class TransactionIntake:
    """Submits transactions; a repeated request sends the same."""

    request_reply: RequestReply
    records: Records
    vault: Vault
    hashes: KeyedHashes
    clock: Callable[[], datetime]
    answer_timeout_s: float = ANSWER_TIMEOUT_S

    async def submit(self, body: TransactionRequest, asked: RequestContext, key: str) -> SubmitResult:
        """Return the record of the transaction, new or of the first request with the same key.

        Raises:
            Refused: The body, the subject or the key's earlier use forbid it; or the command was refused.
            DecisionPending: The answer did not come in time; the same key finds it later.
            Overloaded: Too much is under way.
            StoreUnavailable: Nothing is known; the same key may be sent again.
        """
        caller = asked.caller
        scenario_for(body.subject_id, livemode=caller.livemode)
        about = transaction_id(caller.tenant_id, key, livemode=caller.livemode)
        fingerprint = self._fingerprint(body, asked)
        first = await self._find(asked, about)
        if first is not None:
            if first.fingerprint != fingerprint:
                raise key_reused()
            return SubmitResult(first, replayed=True)
        refuse_impossible(body, self.clock())
        if body.wallet is not None:
            address_of(body.wallet)
        with refusing_erased():
            command = await self._command(body, asked, about, fingerprint)
        screened = await self.request_reply.request(
            Topic.TRANSACTION_COMMANDS,
            command.subject_key,
            command,
            TransactionScreened,
            self.answer_timeout_s,
            once=f"{about}/{fingerprint}",
        )
        record = await self.records.get(caller.tenant_id, RecordKind.TRANSACTION, about)
        return SubmitResult(record, replayed=screened.replayed)

    async def _find(self, asked: RequestContext, about: TransactionId) -> Record | None:
        try:
            return await self.records.get(asked.caller.tenant_id, RecordKind.TRANSACTION, about)
        except NotFound:
            return None

    def _fingerprint(self, body: TransactionRequest, asked: RequestContext) -> str:
        """Return the keyed hash of the canonical body: it tells nothing of an erased subject."""
        canonical = json.dumps(body.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return self.hashes.of(asked.caller.tenant_id, "request", canonical).hex()

    async def _command(
        self, body: TransactionRequest, asked: RequestContext, about: TransactionId, fingerprint: str
    ) -> ScreenTransaction:
        caller, subject_id = asked.caller, body.subject_id
        sealed = await self.vault.seal(caller.tenant_id, subject_id, request_label(about), body.to_bytes())
        return ScreenTransaction(
            tenant_id=caller.tenant_id,
            subject_key=self.hashes.subject_key(caller.tenant_id, subject_id, livemode=caller.livemode),
            subject_id=await seal_subject_id(self.vault, caller.tenant_id, subject_id),
            livemode=caller.livemode,
            requested_at=self.clock(),
            transaction_id=about,
            fingerprint=fingerprint,
            sealed_request=sealed,
            key_id=caller.key_id,
            request_id=asked.request_id,
        )


def refuse_impossible(body: TransactionRequest, now: datetime, oldest: timedelta = OLDEST) -> None:
    """Refuse a request whose parts do not fit each other, or its time the clock.

    Raises:
        Refused: VALIDATION_FAILED, place by place.
    """
    errors = tuple(
        FieldProblem(code=ProblemCode.VALIDATION_FAILED, message=message, pointer=pointer)
        for pointer, message in _problems(body, now, oldest)
    )
    if errors:
        raise Refused.because(ProblemCode.VALIDATION_FAILED, errors[0].message, *errors)


def _problems(body: TransactionRequest, now: datetime, oldest: timedelta) -> Iterator[tuple[str, str]]:
    if body.occurred_at < now - oldest:
        instead = "; import it as history instead" if oldest == OLDEST else ""
        far = f"{oldest.days} days" if oldest.days > 1 else f"{oldest // timedelta(hours=1)} hours"
        yield "/occurred_at", f"The time lies more than {far} back{instead}."
    if body.occurred_at > now + EARLIEST:
        yield "/occurred_at", "The time lies more than 5 minutes ahead."
    if body.type is TransactionType.CRYPTO_TRANSFER and body.wallet is None:
        yield "/wallet", "A CRYPTO_TRANSFER needs its wallet."
    if body.type is TransactionType.STREAM_TICK and body.stream is None:
        yield "/stream", "A STREAM_TICK needs its stream."
    if body.type is not TransactionType.STREAM_TICK and body.stream is not None:
        yield "/stream", "Only a STREAM_TICK has a stream."
