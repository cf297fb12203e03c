"""Transactions on the real path: front's intake, embedded broker, agent with its table, store and replies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import faust
import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.intake.transactions import TransactionIntake
from app.intake.verifications import RequestContext, SubmitResult
from app.kafka.request_reply import KeyRequests, RequestReply
from schemas.access import TenantCaller
from schemas.enums import ActorType, Scope
from schemas.ids import KeyId, SubjectId
from schemas.money import Money
from schemas.people import SentActor
from schemas.policy_records import DraftPolicy, PolicyCommand, PublishPolicy
from schemas.tenant_settings import TenantSettings
from schemas.topics import Topic
from schemas.transaction_decisions import StoredTransaction
from schemas.transactions import Device, Direction, TransactionRequest, TransactionType
from streams.policies.handler import ChangePolicy
from streams.ports.stores import Stores
from streams.runtime.app import GROUP, build_app
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from streams.runtime.topics import ensure_topics
from streams.transactions import agent
from streams.transactions.checks import Checks
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed.asking import KeyedFeatures
from streams.transactions.keyed.handler import KeyedVelocity
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.opening import open_parts
from streams.transactions.published import StoredPolicies
from tests.agents.support import ACME, KEYS, everything_in, now, quick_guard, quick_settings, until_settled
from tests.http.support import Silence, wallets_over

HASHES = KeyedHashes(b"h" * 32)
START = now() - timedelta(hours=1)
CALLER = TenantCaller(tenant_id=ACME, key_id=KeyId("key_1"), livemode=False, scopes=frozenset(Scope))


async def default_settings(_tenant_id: str) -> TenantSettings:
    """The settings of a tenant that set nothing."""
    return TenantSettings()


TABLES: Final = {agent.TABLE: Topic.TRANSACTION_COMMANDS, agent.KEYED_TABLE: Topic.TRANSACTION_KEYS}


def transactions_app(
    writer: LogWriter, address: str, directory: Path, stores: Stores, ask: KeyRequests
) -> faust.App:
    """An app with the agents of transactions."""
    settings = quick_settings(address, directory)
    app, guard = build_app(settings), quick_guard(writer, settings.access)
    agent.register(
        app,
        guard,
        lambda table: ScreenTransactions(
            stores,
            HASHES,
            StoredPolicies(stores.records),
            Checks(),
            wallets_over(stores.records),
            default_settings,
            now,
            table,
            Silence(),
            KeyedFeatures(HASHES, ask, writer.write, now),
        ),
    )
    agent.register_keyed(app, guard, lambda table: KeyedVelocity(stores, HASHES, now, table))
    return app


@pytest.fixture
def stores() -> Stores:
    """Stores that outlive a worker."""
    return open_memory_stores(RootKey(b"r" * 32), Shelves())


@asynccontextmanager
async def working(broker: Broker, writer: LogWriter, directory: Path, stores: Stores) -> AsyncIterator[None]:
    """Run a worker until the context ends."""
    access = LogAccess(broker.address)
    await ensure_topics(access, GROUP, TABLES)
    replies = partial(RequestReply, access, writer, KEYS, name="worker", now=now, instance=3)
    async with (
        KeyRequests(replies) as ask,
        running_worker(partial(transactions_app, writer, broker.address, directory, stores, ask)) as worker,
    ):
        async with asyncio.timeout(120):
            await worker.wait_ready()
        yield


async def pay(
    gateway: RequestReply, stores: Stores, subject: str, number: int, device: str | None = None
) -> SubmitResult:
    """Ask about the payment of that number, a second after the one before."""
    intake = TransactionIntake(gateway, stores.records, stores.vault, HASHES, now, answer_timeout_s=120)
    body = TransactionRequest(
        subject_id=SubjectId(subject),
        type=TransactionType.PAYMENT,
        direction=Direction.OUTBOUND,
        amount=Money(value="1.50", currency="EUR"),
        occurred_at=START + timedelta(seconds=number),
        device=None if device is None else Device(id=device, ip="192.0.2.1"),
    )
    key = f"{subject}-{number}"
    return await intake.submit(body, RequestContext(CALLER, f"req-{number}", key), key)


async def counted(stores: Stores, result: SubmitResult) -> int:
    """Return how many earlier payments the decision saw."""
    stored = StoredTransaction.from_bytes(result.record.body)
    parts = await open_parts(stores, ACME, stored)
    count = parts.rules[0].inputs["transactions_15m"].value
    assert isinstance(count, int)
    return count


async def test_each_payment_is_counted_once_across_subjects_replays_and_a_restart(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path, stores: Stores
) -> None:
    subjects = [f"user-{number}" for number in range(6)]

    async def round_of(number: int) -> list[int]:
        results = await asyncio.gather(*(pay(gateway, stores, one, number) for one in subjects))
        again = await asyncio.gather(*(pay(gateway, stores, one, number) for one in subjects))
        assert [one.record.first_body or one.record.body for one in again] == [
            one.record.first_body or one.record.body for one in results
        ]
        assert all(one.replayed for one in again)
        return [await counted(stores, one) for one in results]

    async with working(broker, writer, tmp_path / "first", stores):
        seen = [await round_of(number) for number in range(3)]
        await until_settled(broker.address, Topic.TRANSACTION_COMMANDS)
    async with working(broker, writer, tmp_path / "second", stores):
        seen += [await round_of(number) for number in range(3, 5)]

    assert seen == [[number] * len(subjects) for number in range(5)]


async def test_a_payment_that_is_repeated_before_its_decision_is_one_command(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path, stores: Stores
) -> None:
    """The worker comes when the payment has been asked about eight times."""
    await ensure_topics(LogAccess(broker.address), GROUP, TABLES)
    asking = [asyncio.create_task(pay(gateway, stores, "user-1", 1)) for _ in range(8)]
    async with asyncio.timeout(120):
        while not await everything_in(broker.address, Topic.TRANSACTION_COMMANDS):  # noqa: ASYNC110 - of the log
            await asyncio.sleep(0.05)
    async with working(broker, writer, tmp_path / "worker", stores):
        decided = await asyncio.gather(*asking)

    assert len(await everything_in(broker.address, Topic.TRANSACTION_COMMANDS)) == 1
    assert len({one.record.body for one in decided}) == 1


async def test_a_command_holds_neither_the_subject_nor_the_amount_in_the_clear(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path, stores: Stores
) -> None:
    async with working(broker, writer, tmp_path / "worker", stores):
        await pay(gateway, stores, "ada@example.org", 1)
        (command,) = await everything_in(broker.address, Topic.TRANSACTION_COMMANDS)

    written = command.key + command.value
    assert b"ada@" not in written
    assert b"1.50" not in written


BY_DEVICE = b"""
policy: transactions
features:
  - {name: on_device, metric: COUNT, window: 24h, key: device.id}
  - {name: from_address, metric: COUNT, window: 24h, key: device.ip, where: {outcome: GO}}
checks: []
rules:
  - id: shared
    mode: SHADOW
    when: {all: [{feature: on_device, op: GTE, value: 0}, {feature: from_address, op: GTE, value: 0}]}
    then: {decision: FLAG, reason: {code: POLICY_SHARED, message: shared}}
"""


async def publish_by_device(stores: Stores) -> None:
    """Publish a policy that counts by device and network address."""
    change = ChangePolicy(stores, stores.journal.commit, default_settings, now)
    actor = SentActor(actor_type=ActorType.API_KEY, actor_id="key_1", request_id="req-draft")
    about: dict[str, Any] = {"tenant_id": ACME, "policy": "transactions", "requested_at": now()}
    await change(PolicyCommand(DraftPolicy(**about, actor=actor, text=BY_DEVICE)))
    again = actor.model_copy(update={"request_id": "req-publish"})
    await change(PolicyCommand(PublishPolicy(**about, actor=again)))


async def test_a_device_counts_the_payments_of_all_subjects_before_and_after_the_policy_asks_for_it(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path, stores: Stores
) -> None:
    async def inputs(number: int) -> tuple[object, ...]:
        stored = await pay(gateway, stores, f"user-{number}", number, "phone")
        parts = await open_parts(stores, ACME, StoredTransaction.from_bytes(stored.record.body))
        return tuple(one.value for one in parts.rules[0].inputs.values())

    async with working(broker, writer, tmp_path / "first", stores):
        await pay(gateway, stores, "user-0", 0, "phone")
        await publish_by_device(stores)
        seen = [await inputs(number) for number in range(1, 4)]
        assert await inputs(3) == seen[-1]
        records = await everything_in(broker.address, Topic.TRANSACTION_KEYS)
    async with working(broker, writer, tmp_path / "second", stores):
        seen += [await inputs(number) for number in range(4, 6)]

    assert seen == [(number, number) for number in range(1, 6)]
    assert not any(word in one.key + one.value for one in records for word in (b"phone", b"192.0.2", b"user"))
