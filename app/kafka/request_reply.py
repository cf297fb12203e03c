"""Request and reply over Kafka: send a command to its topic and wait for the event that answers it."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from pydantic import ValidationError

from schemas.base import Command, Event
from schemas.problems import DecisionPending, Overloaded, Refused, StoreUnavailable
from schemas.topics import Topic
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.background import BackgroundTask
from streams.runtime.fetch_waits import ONE_PARTITION_WAIT_MS, FetchWaits
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.replays import delivery_of
from streams.runtime.replies import Reply, ReturnAddress
from streams.runtime.tables import partitions_of

log = structlog.get_logger(__name__)

MOST_PENDING: Final = 2_000
"""Pending requests; over it the front is overloaded."""

REOPEN_S: Final = 1.0
"""Between two attempts to read the replies again."""

Answer = TypeVar("Answer", bound=Event)


class RequestReply:
    """Sends commands and waits for their replies; an async context. The store has every result as well.

    `instance` is the partition of answers it reads; of two on one partition each skips the replies to
    the other. `name` must differ for every process that ever sent a request.
    """

    def __init__(
        self,
        access: LogAccess,
        writer: LogWriter,
        keys: RecordKeys,
        *,
        name: str,
        now: Callable[[], datetime],
        instance: int = 0,
        most_pending: int = MOST_PENDING,
    ) -> None:
        self._access = access
        self._writer = writer
        self._keys = keys
        self._name = name
        self._now = now
        self._most_pending = most_pending
        self._answers = TopicPartition(Topic.REPLIES, instance % partitions_of(Topic.REPLIES))
        self._counter = itertools.count()
        self._pending: dict[str, asyncio.Future[Reply]] = {}
        self._position: int | None = None
        self._opened: Any = None
        self._reader = BackgroundTask(self._read, "reply reader", needed=True)
        self.late_answers = 0
        """Replies that came after their timeout; for metrics."""
        self.forged_answers = 0
        """Replies without a valid authentication; for metrics."""

    @property
    def pending(self) -> int:
        """Number of pending requests."""
        return len(self._pending)

    async def __aenter__(self) -> Self:
        """Begin to read replies.

        Raises:
            StoreUnavailable: No broker answers.
        """
        try:
            self._opened = await self._open()
        except (KafkaError, OSError) as error:
            raise StoreUnavailable("no broker answers") from error
        self._reader.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading; pending requests raise `DecisionPending`."""
        await self._reader.stop()
        self._give_up()

    async def release(self, grace_s: float) -> None:
        """Wait for replies for a while longer, then fail what is pending with `DecisionPending`.

        Requests sent meanwhile are waited for as well.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._pending:
                    await asyncio.wait(list(self._pending.values()))
                    await asyncio.sleep(0)  # a caller with its reply removes its request
        self._give_up()

    def _give_up(self) -> None:
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(DecisionPending())

    async def request(
        self, topic: Topic, key: str, command: Command, answer: type[Answer], timeout_s: float
    ) -> Answer:
        """Send the command under its key and return the event that answers it.

        Raises:
            Refused: The command was refused; nothing was created.
            DecisionPending: It is in the log, and its answer did not come in time.
            Overloaded: Too many requests are pending; the command was not sent.
            StoreUnavailable: The log did not take the command in time; it may still come in.
        """
        if len(self._pending) >= self._most_pending:
            raise Overloaded
        correlation_id = f"{self._name}-{next(self._counter)}"
        reply = self._pending[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            return _read_answer(await self._exchange(topic, key, command, correlation_id, timeout_s), answer)
        finally:
            del self._pending[correlation_id]
            reply.cancel()

    async def _exchange(
        self, topic: Topic, key: str, command: Command, correlation_id: str, timeout_s: float
    ) -> Reply:
        deadline = self._now() + timedelta(seconds=timeout_s)
        address = ReturnAddress(correlation_id, self._answers.topic, self._answers.partition, deadline)
        sent = False
        try:
            async with asyncio.timeout(timeout_s):
                await self._writer.write(Outgoing(topic, key.encode(), command.to_bytes(), address.headers()))
                sent = True
                return await self._pending[correlation_id]
        except TimeoutError:
            raise (DecisionPending() if sent else StoreUnavailable("the log is away")) from None

    async def _read(self) -> None:
        consumer, self._opened = self._opened, None
        while True:
            if consumer is None:
                consumer = await self._reopen()
            try:
                await self._pump(consumer)
            except (KafkaError, OSError) as error:
                log.warning("reply_reader.disconnected", error=type(error).__name__)
            finally:
                await consumer.stop()
            consumer = None
            await asyncio.sleep(REOPEN_S)

    async def _reopen(self) -> Any:
        while True:
            with suppress(KafkaError, OSError):
                return await self._open()
            await asyncio.sleep(REOPEN_S)

    async def _open(self) -> Any:
        consumer = AIOKafkaConsumer(
            **self._access.client(), auto_offset_reset="latest", enable_auto_commit=False
        )
        try:
            await consumer.start()
            FetchWaits(consumer._fetcher, patient_wait_ms=ONE_PARTITION_WAIT_MS)  # noqa: SLF001  # not offered
            consumer.assign([self._answers])
            if self._position is None:
                await consumer.seek_to_end(self._answers)
                self._position = await consumer.position(self._answers)
            else:
                consumer.seek(self._answers, self._position)
        except (KafkaError, OSError):
            await consumer.stop()
            raise
        return consumer

    async def _pump(self, consumer: Any) -> None:
        async for record in consumer:
            self._position = record.offset + 1
            self._settle(delivery_of(record))

    def _settle(self, delivery: Delivery) -> None:
        correlation_id = (delivery.key or b"").decode(errors="replace")
        if not correlation_id.startswith(f"{self._name}-"):
            return  # another front asked, which shares the partition
        waiting = self._pending.get(correlation_id)
        if waiting is None or waiting.done():
            self.late_answers += 1
            return
        try:
            self._keys.check(delivery)
            waiting.set_result(Reply.from_bytes(delivery.value or b""))
        except Unauthentic as reason:
            self.forged_answers += 1
            log.error("reply.rejected", reason=str(reason))  # noqa: TRY400  # says it all
        except ValidationError:
            log.error("reply.decode_failed")  # noqa: TRY400  # the bytes may name a person


def _read_answer(reply: Reply, answer: type[Answer]) -> Answer:
    if reply.refusal is not None:
        raise Refused(reply.refusal)
    if reply.answer != answer.__name__:
        raise TypeError(f"asked for {answer.__name__}, answered by {reply.answer}")
    return answer.model_validate(reply.body)
