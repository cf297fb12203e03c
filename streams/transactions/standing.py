"""What lasts of decisions about a subject: its suspension, and its streams of payments (G121, G122)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.ids import TransactionId
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.transaction_decisions import ScreenTransaction, StreamStanding, SubjectStanding
from schemas.transactions import PaymentStream, TransactionRequest
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.change import Standing
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.records import standing_id

_BEFORE_ANY: Final = -1


@dataclass(frozen=True, slots=True)
class Standings:
    """Reads what lasts, and gives a new stream to the subject that sends its first tick."""

    stores: Stores
    hashes: KeyedHashes

    async def of_subject(self, command: ScreenTransaction) -> Standing:
        """Return what lasts of the subject."""
        kind, about = RecordKind.SUBJECT_STANDING, standing_id(command.subject_key)
        try:
            record = await self.stores.records.get(command.tenant_id, kind, about)
        except NotFound:
            return Standing(SubjectStanding(), 0)
        return Standing(SubjectStanding.from_bytes(record.body), record.version)

    async def with_stream(
        self, standing: Standing, command: ScreenTransaction, request: TransactionRequest, now: datetime
    ) -> Standing:
        """Return what lasts of the subject, and of the stream of a tick.

        Raises:
            Refused: VALIDATION_FAILED; the stream is another subject's, or the tick is not its next one.
        """
        if request.stream is None:
            return standing
        record = await self._stream(command, request.stream, now)
        stream = StreamStanding.from_bytes(record.body)
        _refuse_out_of_order(command, request.stream, stream)
        return replace(
            standing,
            stream=stream,
            stream_id=record.id,
            stream_version=record.version,
            created_at=record.created_at,
        )

    async def _stream(self, command: ScreenTransaction, tick: PaymentStream, now: datetime) -> Record:
        """Return the stream's record; the first tick of a stream makes it, and so says whose it is."""
        tenant_id = command.tenant_id
        about = self.hashes.stream_id(tenant_id, tick.stream_id, livemode=command.livemode)
        try:
            return await self.stores.records.get(tenant_id, RecordKind.PAYMENT_STREAM, about)
        except NotFound:
            first = StreamStanding(
                subject_key=command.subject_key,
                last_sequence=_BEFORE_ANY,
                last_transaction_id=TransactionId(""),
            )
            record = Record(tenant_id, RecordKind.PAYMENT_STREAM, about, first.to_bytes(), now)
            return (await self.stores.journal.commit(Change(tenant_id, (record,)))).record


def _refuse_out_of_order(command: ScreenTransaction, tick: PaymentStream, stream: StreamStanding) -> None:
    if stream.subject_key != command.subject_key:
        message = "The stream belongs to another subject."
        raise Refused.at("/stream/stream_id", ProblemCode.VALIDATION_FAILED, message)
    if tick.sequence <= stream.last_sequence:
        message = "The sequence must rise with every tick of the stream."
        raise Refused.at("/stream/sequence", ProblemCode.VALIDATION_FAILED, message)
