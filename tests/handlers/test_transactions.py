"""The use case of transactions over stores in memory: what is counted, what lasts, what a crash leaves."""

import asyncio
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.composition.transactions import PoliciesProbe
from schemas.enums import DecisionOutcome
from schemas.ids import KeyId, SubjectId
from schemas.policies import Metric, Window
from schemas.problems import Refused
from schemas.tenant_settings import Enforcement, TenantSettings
from schemas.transaction_decisions import (
    ExpireHold,
    ScreenTransaction,
    StoredTransaction,
    TransactionCommand,
)
from schemas.transactions import TransactionRequest
from streams.policies.compiling import compile_policy
from streams.policies.loading import load
from streams.ports.records import RecordKind
from streams.ports.stores import Stores
from streams.privacy.sealing import seal_subject_id
from streams.transactions.checks import Checks
from streams.transactions.counters import TransactionCounters
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.opening import open_counted, open_parts, open_shown, open_transaction
from streams.transactions.published import PublishedPolicy
from streams.transactions.records import parts_label, request_label, transaction_id
from streams.transactions.row import decode
from streams.transactions.scheduler import HoldScheduler
from tests.builders import ACME
from tests.http.support import Log, Memory, Silence, keyed_features, wallets_over
from tests.rules.test_velocity_row import value

START: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HASHES: Final = KeyedHashes(b"h" * 32)

POLICY: Final = """
policy: transactions
features:
  - {name: past_hour, metric: COUNT, window: 1h, key: subject_id}
  - {name: spent, metric: SUM, window: 24h, key: subject_id, field: amount}
  - {name: payees, metric: COUNT_DISTINCT, window: 24h, key: subject_id, field: counterparty.account}
checks: []
rules:
  - id: big
    mode: ACTIVE
    types: [TYPES]
    when: {field: amount, op: GTE, value: "1000.00"}
    then: {decision: DECISION, reason: {code: POLICY_BIG, message: "{amount} is much."}}
  - id: seen
    mode: SHADOW
    when:
      all:
        - {feature: past_hour, op: GTE, value: 1}
        - {feature: spent, op: GTE, value: "1"}
        - {feature: payees, op: GTE, value: 1}
    then: {decision: FLAG, reason: {code: POLICY_SEEN, message: "again"}}
hold: {expires_after: 1h, on_expiry: BLOCK}
"""


@dataclass
class Stage:
    """Stores, a table, a clock and a policy; what a worker that starts anew shares is the stores alone."""

    decision: str = "HOLD"
    settings: TenantSettings = field(default_factory=TenantSettings)
    stores: Stores = field(default_factory=lambda: open_memory_stores(RootKey(b"r" * 32), Shelves()))
    table: Memory = field(default_factory=Memory)
    keyed_table: Memory = field(default_factory=Memory)
    at: datetime = START
    loads: bool = True
    """Whether the published text loads."""
    counters: TransactionCounters = field(default_factory=TransactionCounters)
    readers: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(1))
    """Passed once the policy and the settings are both being read."""

    def handler(self) -> ScreenTransactions:
        """A worker's use case."""
        types = "STREAM_TICK" if self.decision == "END_STREAM" else "PAYMENT"
        text = POLICY.replace("DECISION", self.decision).replace("TYPES", types).encode()
        compiled = compile_policy(load(text), 3, "0" * 64)

        async def policy(tenant_id: str) -> PublishedPolicy:
            assert tenant_id == ACME
            await self.readers.wait()
            return PublishedPolicy(3, "0" * 64, compiled if self.loads else None)

        async def settings(_tenant_id: str) -> TenantSettings:
            await self.readers.wait()
            return self.settings

        return ScreenTransactions(
            self.stores,
            HASHES,
            policy,
            Checks(),
            wallets_over(self.stores.records),
            settings,
            lambda: self.at,
            self.table,
            Silence(),
            keyed_features(self.stores, HASHES, lambda: self.at, self.keyed_table),
            counters=self.counters,
        )

    async def command(self, key: str, subject: str = "user-1", /, **changes: Any) -> ScreenTransaction:
        """The command of a payment of now."""
        values = {
            "subject_id": subject,
            "type": "PAYMENT",
            "direction": "OUTBOUND",
            "amount": {"value": "10.00", "currency": "EUR"},
            "occurred_at": self.at,
        }
        body = TransactionRequest.model_validate(values | changes)
        about = transaction_id(ACME, key, livemode=True)
        subject_id, vault = SubjectId(subject), self.stores.vault
        return ScreenTransaction(
            tenant_id=ACME,
            subject_key=HASHES.subject_key(ACME, subject_id, livemode=True),
            livemode=True,
            requested_at=self.at,
            transaction_id=about,
            subject_id=await seal_subject_id(vault, ACME, subject_id),
            fingerprint=HASHES.of(ACME, "request", body.to_bytes().decode()).hex(),
            sealed_request=await vault.seal(ACME, subject_id, request_label(about), body.to_bytes()),
            key_id=KeyId("key_1"),
            request_id=f"req-{key}",
        )

    async def carry_out(self, command: ScreenTransaction | ExpireHold) -> None:
        """Carry a command out, in a worker of its own."""
        await self.handler()(TransactionCommand(command))

    async def pay(self, key: str, subject: str = "user-1", **changes: Any) -> StoredTransaction:
        """Decide a payment, a minute after the one before."""
        self.at += timedelta(minutes=1)
        command = await self.command(key, subject, **changes)
        await self.carry_out(command)
        return await self.stored(command)

    async def stored(self, command: ScreenTransaction | ExpireHold) -> StoredTransaction:
        """Return the transaction as it stands."""
        record = await self.stores.records.get(ACME, RecordKind.TRANSACTION, command.transaction_id)
        return StoredTransaction.from_bytes(record.body)

    def row(self, subject: str = "user-1") -> bytes:
        """Return the subject's row as the table has it."""
        found = self.table.get(HASHES.subject_key(ACME, SubjectId(subject), livemode=True))
        assert isinstance(found, bytes)
        return found


def big(value: str = "1000.00") -> dict[str, Any]:
    """The part of a payment that the policy's rule hits."""
    return {"amount": {"value": value, "currency": "EUR"}}


async def test_a_row_that_the_table_lost_is_rebuilt_from_the_store_to_the_byte() -> None:
    stage, chance = Stage(), random.Random(7)
    for number in range(70):
        account = {"kind": "PERSON", "account": f"NG{chance.randrange(9)}"}
        amount = {"value": f"{chance.randrange(1, 900)}.{chance.randrange(10)}", "currency": "EUR"}
        await stage.pay(f"order-{number}", counterparty=account, amount=amount)
    before = stage.row()
    stage.table = Memory()
    again = await stage.command("order-70", counterparty={"kind": "PERSON"})
    await stage.carry_out(again)
    rebuilt, stage.table = stage.row(), Memory()
    stage.table.put(again.subject_key, before)
    await stage.carry_out(again)

    assert stage.row() == rebuilt != before


async def test_parts_are_sealed_compressed_and_those_sealed_before_that_are_still_read() -> None:
    stage = Stage()
    stored = await stage.pay(
        "order-1", metadata={f"key_{number}": "again and again " * 20 for number in range(9)}
    )
    parts = await open_parts(stage.stores, ACME, stored)
    about, subject_id = stored.transaction.transaction_id, stored.transaction.subject_id
    plain = await stage.stores.vault.seal(ACME, subject_id, parts_label(about), parts.to_bytes())
    record = await stage.stores.records.get(ACME, RecordKind.TRANSACTION, about)
    earlier = stored.model_copy(update={"sealed_parts": plain})

    assert len(stored.sealed_parts) < len(plain) / 3
    assert await open_parts(stage.stores, ACME, earlier) == parts
    opened = await open_transaction(stage.stores, ACME, record)
    assert opened == await open_transaction(stage.stores, ACME, replace(record, body=earlier.to_bytes()))
    assert opened.request == parts.request
    counted = await open_counted(stage.stores, ACME, record)
    assert counted == (opened.request, opened.outcome)
    assert counted == await open_counted(stage.stores, ACME, replace(record, body=earlier.to_bytes()))
    shown = await open_shown(stage.stores, ACME, stored)
    assert shown == await open_shown(stage.stores, ACME, earlier)
    rules = json.loads(parts.to_bytes())["rules"]
    assert json.loads(bytes(shown.rules)) == rules
    assert [rule["result"] for rule in rules] == ["MISS", "MISS"]


async def test_what_a_decision_reads_is_asked_of_the_store_at_once() -> None:
    stage = Stage(readers=asyncio.Barrier(2))

    async with asyncio.timeout(60):
        decided = await stage.pay("order-1")

    assert decided.transaction.decision is DecisionOutcome.ALLOW


async def test_a_command_that_comes_again_after_a_crash_counts_the_transaction_that_the_row_missed() -> None:
    """The worker died between its commit and the table."""
    stage = Stage()
    await stage.pay("order-1")
    before, command = stage.row(), await stage.command("order-2")
    await stage.carry_out(command)
    after = stage.row()
    stage.table.put(command.subject_key, before)
    await stage.carry_out(command)
    repeated = stage.row()
    await stage.carry_out(command)

    assert stage.row() == repeated == after != before


async def test_clocks_that_run_back_between_workers_count_every_payment_once() -> None:
    """Each worker is another, and every second one's clock is ten minutes behind."""
    stage, at_ms = Stage(), round((START + timedelta(minutes=20)).timestamp() * 1000)
    for number in range(20):
        stage.at = START + timedelta(minutes=number - 10 * (number % 2))
        command = await stage.command(f"order-{number}", occurred_at=START + timedelta(minutes=number))
        await stage.carry_out(command)
        await stage.carry_out(command)
    live, stage.table = stage.row(), Memory()
    await stage.pay("order-20", occurred_at=START)  # upon a row that is rebuilt

    counted = [value(decode(row), Metric.COUNT, Window.HOUR_1, at_ms) for row in (live, stage.row())]
    assert counted == [(20, True), (21, True)]


async def test_any_order_of_different_subjects_gives_the_same_decisions() -> None:
    orders: Sequence[Sequence[int]] = list(itertools.permutations(range(3)))
    found = []
    for order in orders:
        stage = Stage()
        decided: dict[tuple[int, int], bytes] = {}
        for number in range(3):
            for subject in order:
                stage.at = START + timedelta(minutes=number)
                command = await stage.command(f"{subject}-{number}", f"user-{subject}")
                await stage.carry_out(command)
                decided[subject, number] = (await stage.stored(command)).transaction.to_bytes()
        found.append(decided)

    assert all(one == found[0] for one in found)


async def test_a_hold_ends_with_the_policys_choice_once_its_time_has_passed() -> None:
    stage = Stage("HOLD")
    waiting = await stage.pay("order-1", **big())
    expire = ExpireHold(
        tenant_id=ACME, subject_key=waiting.subject_key, livemode=True, requested_at=stage.at,
        transaction_id=waiting.transaction.transaction_id,
    )  # fmt: skip
    stage.at += timedelta(minutes=59)
    await stage.carry_out(expire)
    early = await stage.stored(expire)
    stage.at += timedelta(minutes=2)
    await stage.carry_out(expire)
    await stage.carry_out(expire)
    ended = await stage.stored(expire)

    assert (waiting.transaction.decision, early) == (DecisionOutcome.HOLD, waiting)
    assert ended.transaction.decision is DecisionOutcome.BLOCK
    assert [step.by for step in ended.decisions] == ["POLICY", "EXPIRY"]
    assert [reason.code for reason in ended.transaction.reasons] == ["HOLD_EXPIRED"]
    assert ended.transaction.hold_expires_at is None


async def test_the_sweep_ends_each_hold_once_when_its_time_has_passed() -> None:
    stage, log = Stage("HOLD"), Log()
    writer: Any = log
    waiting = [await stage.pay(f"order-{number}", f"user-{number}", **big()) for number in range(3)]
    quiet = await stage.pay("order-3", "user-3")

    async def ended_after(passed: timedelta) -> list[str]:
        stage.at = START + passed
        log.records.clear()
        await HoldScheduler(stage.stores.records, writer, lambda: stage.at).sweep()
        sent = [TransactionCommand.model_validate_json(one.value or b"") for one in log.records]
        for command in sent:
            await stage.handler()(command)
        return sorted(command.root.subject_key for command in sent)

    ended = [await ended_after(timedelta(minutes=minutes)) for minutes in (59, 62, 70, 80)]

    subjects = [HASHES.subject_key(ACME, SubjectId(f"user-{number}"), livemode=True) for number in range(3)]
    assert ended == [[], sorted(subjects[:2]), [subjects[2]], []]
    ids = [one.transaction.transaction_id for one in (*waiting, quiet)]
    records = [await stage.stores.records.get(ACME, RecordKind.TRANSACTION, one) for one in ids]
    decisions = [StoredTransaction.from_bytes(one.body).transaction.decision for one in records]
    assert decisions == ["BLOCK", "BLOCK", "BLOCK", "ALLOW"]


async def test_after_a_suspension_every_transaction_of_the_subject_is_blocked() -> None:
    stage = Stage("SUSPEND")
    suspended = await stage.pay("order-1", **big())
    blocked, other = await stage.pay("order-2"), await stage.pay("order-3", "user-2")

    assert (suspended.transaction.decision, suspended.recommendation) == ("SUSPEND", "REJECTED")
    assert suspended.transaction.review_case_id is not None
    assert blocked.transaction.decision is DecisionOutcome.BLOCK
    assert [reason.code for reason in blocked.transaction.reasons] == ["SUBJECT_SUSPENDED"]
    assert other.transaction.decision is DecisionOutcome.ALLOW


@pytest.mark.parametrize("decision", ["BLOCK", "SUSPEND"])
async def test_an_advised_tenant_is_stopped_in_nothing(decision: str) -> None:
    stage = Stage(decision, settings=TenantSettings(enforcement=Enforcement.ADVISORY))
    advised, following = await stage.pay("order-1", **big()), await stage.pay("order-2")

    assert advised.transaction.decision is DecisionOutcome.BLOCK_RECOMMENDED
    assert advised.transaction.review_case_id is not None
    assert following.transaction.decision is DecisionOutcome.ALLOW


def tick(sequence: int, stream_id: str = "s-1") -> dict[str, Any]:
    """The part of a payment that makes it a tick."""
    stream = {"stream_id": stream_id, "sequence": sequence, "started_at": START, "rate_per_minute": "0.10"}
    return {"type": "STREAM_TICK", "stream": stream}


async def test_ticks_rise_and_belong_to_one_subject() -> None:
    stage = Stage()
    await stage.pay("tick-1", **tick(1))
    await stage.pay("tick-5", **tick(5))
    wrong = [("user-1", tick(5), "/stream/sequence"), ("user-1", tick(4), "/stream/sequence"),
             ("user-2", tick(6), "/stream/stream_id")]  # fmt: skip

    for number, (subject, changes, pointer) in enumerate(wrong):
        with pytest.raises(Refused) as refused:
            await stage.pay(f"wrong-{number}", subject, **changes)
        assert [error.pointer for error in refused.value.refusal.errors] == [pointer]
    assert (await stage.pay("tick-6", **tick(6))).transaction.decision is DecisionOutcome.ALLOW


async def test_an_ended_stream_stays_ended_and_others_go_on() -> None:
    stage = Stage("END_STREAM")
    ended = await stage.pay("tick-1", **tick(1), **big())
    later = await stage.pay("tick-2", **tick(2))
    other = await stage.pay("tick-3", **tick(1, "s-2"))

    assert ended.transaction.decision is DecisionOutcome.END_STREAM
    assert later.transaction.decision is DecisionOutcome.BLOCK
    assert [reason.code for reason in later.transaction.reasons] == ["STREAM_ENDED"]
    assert other.transaction.decision is DecisionOutcome.ALLOW


async def test_g111_a_policy_that_loads_no_more_holds_the_money_and_is_counted_on_readyz() -> None:
    stage = Stage(loads=False)
    probe = PoliciesProbe(stage.counters)
    command = await stage.command("one")
    await stage.carry_out(command)
    record = await stage.stores.records.get(ACME, RecordKind.TRANSACTION, command.transaction_id)
    transaction = StoredTransaction.from_bytes(record.body).transaction

    assert transaction.decision is DecisionOutcome.HOLD
    assert [reason.code for reason in transaction.reasons] == ["POLICY_UNAVAILABLE"]
    assert (await probe(), probe.shown()) == (None, {"unavailable": 1})
    stage.loads = True
    await stage.carry_out(await stage.command("two"))
    assert probe.shown() == {"unavailable": 0}
