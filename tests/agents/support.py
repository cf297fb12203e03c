"""What the agent tests share: valid commands, a worker as a process, and questions to the broker."""

import asyncio
import itertools
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.kafka.request_reply import RequestReply
from schemas.ids import EvidenceId, KeyId, SubjectId, TenantId, VerificationId, derive_id
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.ports.stores import WorkingState
from streams.runtime.app import GROUP, StreamSettings, build_app
from streams.runtime.authentication import RecordKeys, without_authentication
from streams.runtime.guard import Contract, Guard, Handle, RetryPolicy
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter
from streams.runtime.replays import Replays
from streams.runtime.tables import partitions_of
from streams.runtime.topics import ensure_topics
from streams.verification import agent
from streams.verification.change import Remembered

ACME = TenantId("ten_acme")
QUICK = RetryPolicy(first_s=0.01, longest_s=0.05, failures=2)
PROCESS = Path(__file__).with_name("worker_process.py")
PATIENCE_S = 600.0
"""How long a command is waited for on a busy machine."""

KEYS = RecordKeys(RootKey(b"r" * 32).derive)
"""What signs and checks the records of these tests."""

Evaluate = Callable[[SubmitVerification], Awaitable[VerificationDecided]]


def now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def submission(name: str) -> SubmitVerification:
    """A valid command for the verification of that name."""
    return SubmitVerification(
        tenant_id=ACME,
        verification_id=VerificationId(derive_id("ver", name)),
        subject_id=SubjectId("subject"),
        livemode=True,
        fingerprint="0" * 64,
        document_evidence_id=EvidenceId(derive_id("evd", name, "document")),
        selfie_evidence_id=EvidenceId(derive_id("evd", name, "selfie")),
        sealed_submission="c2VhbGVk",
        key_id=KeyId("key_1"),
        request_id=name,
        requested_at=now(),
    )


def remembered(command: SubmitVerification) -> Remembered:
    """What an actor keeps of a command."""
    return Remembered(
        tenant_id=command.tenant_id,
        fingerprint=command.fingerprint,
        request_id=command.request_id,
        evidence_ids=(command.document_evidence_id,),
    )


def decided(command: SubmitVerification, *, replayed: bool = False) -> VerificationDecided:
    """The answer to a command."""
    return VerificationDecided(verification_id=command.verification_id, replayed=replayed)


async def ask(
    gateway: RequestReply, name: str, timeout_s: float = PATIENCE_S, *, once: str | None = None
) -> VerificationDecided:
    """Ask for the verification of that name to be decided."""
    command = submission(name)
    key, topic = command.verification_id, Topic.VERIFICATION_COMMANDS
    return await gateway.request(topic, key, command, VerificationDecided, timeout_s, once=once)


def quick_settings(bootstrap: str, directory: Path) -> StreamSettings:
    """Worker settings that notice a dead worker within the patience of a test."""
    return StreamSettings(
        LogAccess(bootstrap),
        directory,
        session_timeout_s=3.0,
        heartbeat_s=0.3,
        commit_interval_s=0.3,
        drain_s=1.0,
    )


def quick_guard(
    writer: LogWriter, access: LogAccess, uniform: Callable[[float, float], float] = random.uniform
) -> Guard:
    """A guard of little patience."""
    return Guard(writer, KEYS, Replays(access, KEYS), now=now, uniform=uniform, patience=QUICK)


async def settle(
    guard: Guard,
    delivery: Delivery,
    contract: Contract[SubmitVerification],
    handle: Handle[SubmitVerification],
) -> None:
    """Take one record through a guard, as an agent does."""
    command = await guard.admit(delivery, contract)
    if command is not None:
        await guard.carry_out(delivery, command, handle)


def signed(delivery: Delivery, *, after_ms: int = 0) -> Delivery:
    """The delivery as a writer of ours sent it, appended so long after it was signed."""
    headers = without_authentication(delivery.headers)
    at = int(now().timestamp() * 1000)
    header, code = KEYS.sign(
        delivery.topic, delivery.partition, delivery.key, delivery.value, headers.items(), at
    )
    return replace(delivery, headers={**headers, header: code}, appended_ms=at + after_ms)


def verification_app(
    writer: LogWriter,
    settings: StreamSettings,
    build: Callable[[WorkingState[Remembered]], Evaluate],
    uniform: Callable[[float, float], float] = random.uniform,
) -> faust.App:
    """An app with the verification agent and a guard of little patience."""
    app = build_app(settings)
    guard = quick_guard(writer, settings.access, uniform)
    agent.register(app, guard, build)
    return app


@asynccontextmanager
async def open_broker(directory: Path, port: int = 0) -> AsyncIterator[Broker]:
    """An embedded broker that has every topic."""
    async with Broker(BrokerSettings(directory=directory, port=port)) as broker:
        await ensure_topics(LogAccess(broker.address), GROUP, {agent.TABLE: Topic.VERIFICATION_COMMANDS})
        yield broker


async def committed(bootstrap: str, topic: Topic) -> tuple[int, int]:
    """How many records of the topic the agents have committed, and how many there are."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False)
    await consumer.start()
    try:
        tps = [TopicPartition(topic, number) for number in range(partitions_of(topic))]
        ends = await consumer.end_offsets(tps)
        return sum([await consumer.committed(tp) or 0 for tp in tps]), sum(ends.values())
    finally:
        await consumer.stop()


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = 180.0) -> None:
    """Return as soon as the condition holds; raise TimeoutError when it does not come to hold."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110  # what is waited for is in another process
            await asyncio.sleep(0.05)


async def until_settled(bootstrap: str, topic: Topic = Topic.VERIFICATION_COMMANDS) -> None:
    """Return once everything in the topic is committed."""

    async def settled() -> bool:
        done, all_of_them = await committed(bootstrap, topic)
        return done == all_of_them

    await until(settled)


async def everything_in(bootstrap: str, topic: Topic) -> list[Any]:
    """Every record of a topic, in the order of its partitions."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        tps = [TopicPartition(topic, number) for number in range(partitions_of(topic))]
        consumer.assign(tps)
        expected = sum((await consumer.end_offsets(tps)).values())
        found: list[Any] = []
        while len(found) < expected:
            batches = await consumer.getmany(timeout_ms=200)
            found.extend(itertools.chain.from_iterable(batches.values()))
        return found
    finally:
        await consumer.stop()


class WorkerProcess:
    """A worker in a process of its own, which can be stopped or killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, stream: str, bootstrap: str, directory: Path) -> Self:
        """Start a worker of a stream; `ready` tells when it works."""
        root = str(Path(__file__).parents[2])
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROCESS),
            stream,
            bootstrap,
            str(directory),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": root},
        )
        return cls(process)

    async def ready(self) -> None:
        """Wait until it has partitions and has recovered its tables."""
        assert self._process.stdout is not None
        async with asyncio.timeout(180):
            assert await self._process.stdout.readline() == b"ready\n"

    async def terminate(self) -> int:
        """Stop it as a service manager does; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(180):
            return await self._process.wait()

    async def kill(self) -> None:
        """End it without a word."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def ended(workers: list[WorkerProcess]) -> AsyncIterator[list[WorkerProcess]]:
    """Kill whatever still runs at the end."""
    try:
        yield workers
    finally:
        await asyncio.gather(*(worker.kill() for worker in workers))


def names(prefix: str, count: int) -> Sequence[str]:
    """Distinct names for commands."""
    return [f"{prefix}-{number}" for number in range(count)]
