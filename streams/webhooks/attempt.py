"""One attempt of one delivery: read, sign, post, store the result. A process killed in between repeats it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from schemas.base import to_milliseconds
from schemas.problems import NotFound, StoreUnavailable
from schemas.webhooks import Deliver, DeliveryStatus, NoteAttempt, StoredDelivery, StoredEndpoint
from streams.ports.errors import Conflict, Erased
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.webhooks import rules
from streams.webhooks.ports import Answer, AttemptResult, Note, Outcome, WebhookSender
from streams.webhooks.records import delivery_records
from streams.webhooks.rules import STANDARD, Pace, Uniform
from streams.webhooks.signing import open_secrets, signatures, timestamp

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AttemptDelivery:
    """Make the attempt that is due, and store the result before reporting it."""

    stores: Stores
    sender: WebhookSender
    note: Note
    clock: Callable[[], datetime]
    uniform: Uniform
    pace: Pace = STANDARD

    async def __call__(self, command: Deliver) -> AttemptResult:
        """Attempt the delivery unless it is over or not due.

        Raises:
            StoreUnavailable: The receiver was not called; a sweep finds the delivery again.
            Damaged: A secret of the endpoint is not what was sealed.
        """
        try:
            record = await self.stores.records.get(
                command.tenant_id, RecordKind.DELIVERY, command.delivery_id
            )
        except NotFound:
            return AttemptResult(Outcome.NOT_DUE)
        stored = StoredDelivery.from_bytes(record.body)
        if not rules.is_due(stored, self.clock(), self.pace.early):
            return AttemptResult(Outcome.NOT_DUE)
        endpoint = await self._endpoint(stored)
        if endpoint is None:
            return await self._cancel(record, stored)
        try:
            secrets = await open_secrets(self.stores.vault, endpoint, self.clock())
        except Erased:
            return await self._cancel(record, stored)
        return await self._attempt(record, stored, endpoint, secrets)

    async def _endpoint(self, stored: StoredDelivery) -> StoredEndpoint | None:
        """Return the delivery's endpoint, or None when nothing is sent to it any more."""
        endpoint_id = stored.delivery.endpoint_id
        try:
            found = await self.stores.records.get(stored.tenant_id, RecordKind.WEBHOOK_ENDPOINT, endpoint_id)
        except NotFound:
            return None
        endpoint = StoredEndpoint.from_bytes(found.body)
        return endpoint if rules.is_in_force(endpoint) else None

    async def _cancel(self, record: Record, stored: StoredDelivery) -> AttemptResult:
        committed = await self._commit(record, rules.cancelled(stored))
        return AttemptResult(Outcome.CANCELLED if committed else Outcome.NOT_DUE)

    async def _attempt(
        self, record: Record, stored: StoredDelivery, endpoint: StoredEndpoint, secrets: list[bytes]
    ) -> AttemptResult:
        began = to_milliseconds(self.clock())
        headers, body = headers_of(stored, began, secrets), stored.payload.encode()
        answer = await self.sender.post(endpoint.endpoint.url, headers, body)
        after = rules.attempted(stored, answer, began, self.clock(), self.uniform, self.pace.schedule)
        slow = rules.is_slow(answer)
        try:
            if not await self._commit(record, after):
                return AttemptResult(Outcome.UNRECORDED, slow)
        except StoreUnavailable:
            log.warning("webhooks.result_dropped", delivery_id=stored.delivery.delivery_id)
            return AttemptResult(Outcome.UNRECORDED, slow)
        await self._note_attempt(stored, answer, began)
        return AttemptResult(_OUTCOME_OF[after.delivery.status], slow)

    async def _commit(self, record: Record, after: StoredDelivery) -> bool:
        """Write the delivery's next version and its watch; False when another writer was first."""
        records = delivery_records(after, after.delivery.next_attempt_at, record.version + 1)
        try:
            return (await self.stores.journal.commit(Change(after.tenant_id, records))).won
        except Conflict:
            return False

    async def _note_attempt(self, stored: StoredDelivery, answer: Answer, began: datetime) -> None:
        note = NoteAttempt(
            tenant_id=stored.tenant_id,
            endpoint_id=stored.delivery.endpoint_id,
            at=began,
            succeeded=answer.succeeded,
            gone=answer.status == rules.GONE,
        )
        try:
            await self.note(note)
        except StoreUnavailable:
            log.warning("webhooks.health_update_failed", endpoint_id=note.endpoint_id)


_OUTCOME_OF = {
    DeliveryStatus.DELIVERED: Outcome.DELIVERED,
    DeliveryStatus.PENDING: Outcome.RETRYING,
    DeliveryStatus.FAILED: Outcome.FAILED,
    DeliveryStatus.CANCELLED: Outcome.CANCELLED,
}


def headers_of(stored: StoredDelivery, at: datetime, secrets: list[bytes]) -> dict[str, str]:
    """Return the headers of an attempt (Standard Webhooks; `webhook-attempt` is ours)."""
    event_id = stored.delivery.event_id
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": timestamp(at),
        "webhook-signature": signatures(event_id, at, stored.payload.encode(), secrets),
        "webhook-attempt": str(rules.next_number(stored)),
    }
