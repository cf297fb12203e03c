"""Request and reply over Kafka: send a command to its topic and wait for the event that answers it."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from pydantic import ValidationError
from typing_extensions import override

from schemas.base import Command, Event
from schemas.keyed_features import ComputeFeatures, FeaturesComputed
from schemas.problems import DecisionPending, Overloaded, Refused, StoreUnavailable
from schemas.topics import Topic
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.background import BackgroundTask
from streams.runtime.fetch_waits import ONE_PARTITION_WAIT_MS, FetchWaits
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import stop_client
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.replays import delivery_of
from streams.runtime.replies import Reply, ReturnAddress
from streams.runtime.tables import partitions_of
from streams.transactions.keyed.asking import AskKey

log = structlog.get_logger(__name__)

MOST_PENDING: Final = 2_000
"""Pending requests; over it the front is overloaded."""

REOPEN_S: Final = 1.0
"""Between two attempts to read the replies again."""

LATE_S: Final = 30.0
"""For how long a command that was not answered in time is not sent again; it may have been lost by then."""

Answer = TypeVar("Answer", bound=Event)


@dataclass(slots=True, eq=False)
class _Question:
    """A command that was sent, or is being sent, and its reply."""

    reply: asyncio.Future[Reply]
    once: str | None = None
    sent: bool = False
    late_until: float = 0.0
    """By the loop's clock; so long its late reply is awaited."""


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
        late_s: float = LATE_S,
    ) -> None:
        self._access = access
        self._writer = writer
        self._keys = keys
        self._name = name
        self._now = now
        self._most_pending = most_pending
        self._answers = TopicPartition(Topic.REPLIES, instance % partitions_of(Topic.REPLIES))
        self._counter = itertools.count()
        self._late_s = late_s
        self._pending: dict[str, _Question] = {}
        self._late: dict[str, _Question] = {}
        """Questions that were not answered in time and may be asked again, the oldest first."""
        self._once: dict[str, _Question] = {}
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
                    await asyncio.wait([question.reply for question in self._pending.values()])
                    await asyncio.sleep(0)  # a caller with its reply removes its request
        self._give_up()

    def _give_up(self) -> None:
        for question in self._pending.values():
            if not question.reply.done():
                question.reply.set_exception(DecisionPending())
        while self._late:
            self._forget(next(iter(self._late)))

    async def request(
        self,
        topic: Topic,
        key: str,
        command: Command,
        answer: type[Answer],
        timeout_s: float,
        *,
        once: str | None = None,
    ) -> Answer:
        """Send the command under its key and return the event that answers it.

        While a command of the same name `once` is unanswered, its answer is waited for and nothing is sent:
        a worker that is late would otherwise get the more to do the longer it is asked again and again.

        Raises:
            Refused: The command was refused; nothing was created.
            DecisionPending: It is in the log, and its answer did not come in time.
            Overloaded: Too many requests are pending; the command was not sent.
            StoreUnavailable: The log did not take the command in time; it may still come in.
        """
        asked = None if once is None else self._asked_before(once)
        if asked is not None:
            return _read_answer(await _late_reply(asked, timeout_s), answer)
        if len(self._pending) >= self._most_pending:
            raise Overloaded
        correlation_id = f"{self._name}-{next(self._counter)}"
        question = _Question(asyncio.get_running_loop().create_future(), once)
        self._pending[correlation_id] = question
        if once is not None:
            self._once[once] = question
        try:
            return _read_answer(await self._exchange(topic, key, command, correlation_id, timeout_s), answer)
        finally:
            self._end(correlation_id)

    async def _exchange(
        self, topic: Topic, key: str, command: Command, correlation_id: str, timeout_s: float
    ) -> Reply:
        deadline = self._now() + timedelta(seconds=timeout_s)
        address = ReturnAddress(correlation_id, self._answers.topic, self._answers.partition, deadline)
        question = self._pending[correlation_id]
        try:
            async with asyncio.timeout(timeout_s):
                await self._writer.write(Outgoing(topic, key.encode(), command.to_bytes(), address.headers()))
                question.sent = True
                return await (question.reply if question.once is None else asyncio.shield(question.reply))
        except TimeoutError:
            raise _unanswered(question) from None

    def _asked_before(self, once: str) -> _Question | None:
        """Return the unanswered question of the name; those that are too late are forgotten."""
        now = asyncio.get_running_loop().time()
        while self._late:
            correlation_id, oldest = next(iter(self._late.items()))
            if oldest.late_until > now and len(self._late) <= self._most_pending:
                break
            self._forget(correlation_id)
        return self._once.get(once)

    def _end(self, correlation_id: str) -> None:
        """End to wait for the reply; a question that may be asked again stays for its late reply."""
        question = self._pending.pop(correlation_id)
        if question.once is not None and question.sent and not question.reply.done():
            question.late_until = asyncio.get_running_loop().time() + self._late_s
            self._late[correlation_id] = question
            return
        if question.once is not None:
            del self._once[question.once]
        question.reply.cancel()

    def _forget(self, correlation_id: str) -> _Question | None:
        """Forget a question that was not answered in time; its callers find the decision pending."""
        question = self._late.pop(correlation_id, None)
        if question is not None and question.once is not None:
            del self._once[question.once]
            question.reply.cancel()
        return question

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
                await stop_client(consumer)
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
        async with AsyncExitStack() as failed:
            failed.push_async_callback(stop_client, consumer)
            await consumer.start()
            FetchWaits(consumer._fetcher, patient_wait_ms=ONE_PARTITION_WAIT_MS)  # noqa: SLF001  # not offered
            consumer.assign([self._answers])
            if self._position is None:
                await consumer.seek_to_end(self._answers)
                self._position = await consumer.position(self._answers)
            else:
                consumer.seek(self._answers, self._position)
            failed.pop_all()
        return consumer

    async def _pump(self, consumer: Any) -> None:
        """Settle all answers of a fetch in one turn of the loop."""
        while True:
            fetched = await consumer.getmany(self._answers, timeout_ms=ONE_PARTITION_WAIT_MS)
            for record in fetched.get(self._answers, ()):
                self._position = record.offset + 1
                self._settle(delivery_of(record))

    def _settle(self, delivery: Delivery) -> None:
        correlation_id = (delivery.key or b"").decode(errors="replace")
        if not correlation_id.startswith(f"{self._name}-"):
            return  # another front asked, which shares the partition
        question = self._pending.get(correlation_id)
        if question is None:
            self.late_answers += 1
            question = self._late.get(correlation_id)
        elif question.reply.done():
            self.late_answers += 1
        if question is None or question.reply.done():
            return
        try:
            self._keys.check(delivery)
            question.reply.set_result(Reply.from_bytes(delivery.value or b""))
            self._forget(correlation_id)
        except Unauthentic as reason:
            self.forged_answers += 1
            log.error("reply.rejected", reason=str(reason))  # noqa: TRY400  # says it all
        except ValidationError:
            log.error("reply.decode_failed")  # noqa: TRY400  # the bytes may name a person


class KeyRequests(AskKey):
    """Asks the actors of keys for features; an async context.

    Replies are read from the first question on, for many never ask.
    """

    def __init__(self, build: Callable[[], RequestReply]) -> None:
        self._build = build
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._opened: RequestReply | None = None

    async def __aenter__(self) -> Self:
        """Return itself; nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading replies."""
        await self._stack.aclose()

    @override
    async def __call__(self, command: ComputeFeatures, timeout_s: float, /) -> FeaturesComputed:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(self._build())
        topic = Topic.TRANSACTION_KEYS
        return await self._opened.request(topic, command.key, command, FeaturesComputed, timeout_s)


async def _late_reply(question: _Question, timeout_s: float) -> Reply:
    """Return the reply to a question that somebody else asked."""
    await asyncio.wait({question.reply}, timeout=timeout_s)
    if question.reply.cancelled() or not question.reply.done():
        raise _unanswered(question)
    return question.reply.result()


def _unanswered(question: _Question) -> DecisionPending | StoreUnavailable:
    return DecisionPending() if question.sent else StoreUnavailable("the log is away")


def _read_answer(reply: Reply, answer: type[Answer]) -> Answer:
    if reply.refusal is not None:
        raise Refused(reply.refusal)
    if reply.answer != answer.__name__:
        raise TypeError(f"asked for {answer.__name__}, answered by {reply.answer}")
    return answer.model_validate(reply.body)
