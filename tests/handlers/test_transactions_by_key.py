"""Features by device and other keys, over stores in memory: each transaction counts once for each of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

import pytest
from typing_extensions import override

from schemas.enums import DecisionOutcome
from schemas.ids import SubjectId
from schemas.keyed_features import ComputeFeatures, CountTransaction, FeaturesComputed, KeyedCommand
from schemas.policies import FeatureKey
from schemas.policy_records import CountedKeys
from schemas.problems import DecisionPending, StoreUnavailable
from schemas.transaction_decisions import ImportHistory, ScreenTransaction, ShownRule, TransactionCommand
from schemas.transaction_history import HistoricTransaction, HistoryImported, SealedHistory
from streams.policies.compiling import CompiledPolicy, compile_policy
from streams.policies.in_use import counting
from streams.policies.loading import load
from streams.privacy.sealing import seal_subject_id
from streams.runtime.producer import Outgoing
from streams.transactions.checks import Checks
from streams.transactions.counters import TransactionCounters
from streams.transactions.handler import ScreenTransactions
from streams.transactions.importing import history_label
from streams.transactions.keyed.asking import KeyedFeatures
from streams.transactions.keyed.handler import KeyedVelocity
from streams.transactions.opening import open_parts
from streams.transactions.published import PublishedPolicy
from tests.builders import ACME
from tests.handlers.test_transactions import HASHES, Stage
from tests.http.support import Memory, Silence, wallets_over

POLICY: Final = """
policy: transactions
features:
  - {name: own, metric: COUNT, window: 24h, key: subject_id}
  - {name: on_device, metric: COUNT, window: 24h, key: device.id}
  - {name: sent, metric: SUM, window: 24h, key: device.id, field: amount, where: {outcome: GO}}
  - {name: payees, metric: COUNT_DISTINCT, window: 24h, key: device.ip, field: counterparty.account}
checks: []
rules:
  - id: big
    mode: ACTIVE
    when: {field: amount, op: GTE, value: "500"}
    then: {decision: BLOCK, reason: {code: POLICY_BIG, message: "much"}}
  - id: seen
    mode: ACTIVE
    when:
      all:
        - {feature: own, op: GTE, value: 999}
        - {feature: on_device, op: GTE, value: 999}
        - {feature: sent, op: GTE, value: "1"}
        - {feature: payees, op: GTE, value: 1}
    then: {decision: WARN, reason: {code: POLICY_SEEN, message: "again"}}
"""
OTHER: Final = POLICY.replace("device.id", "subject_id").replace("device.ip", "subject_id")


NAME_OF: Final = {key: key.replace(".", "_") for key in FeatureKey}
EVERY_KEY: Final = """
policy: transactions
features:
FEATURES
checks: []
rules:
  - id: seen
    mode: SHADOW
    when: {any: [CONDITIONS]}
    then: {decision: FLAG, reason: {code: POLICY_SEEN, message: "again"}}
""".replace(
    "FEATURES",
    "\n".join(
        f"  - {{name: {name}, metric: COUNT, window: 24h, key: {key}}}" for key, name in NAME_OF.items()
    ),
).replace("CONDITIONS", ", ".join(f"{{feature: {name}, op: GT, value: 0}}" for name in NAME_OF.values()))
"""Counts by each kind of key."""


@cache
def compiled_of(text: str) -> CompiledPolicy:
    """The policy of a text."""
    return compile_policy(load(text.encode()), 3, "0" * 64)


@dataclass
class KeyedStage(Stage):
    """A stage whose keys may not answer, and whose log may take no record."""

    text: str = POLICY
    counted: CountedKeys = field(default_factory=CountedKeys)
    counters: TransactionCounters = field(default_factory=TransactionCounters)
    answering: bool = True
    writing: bool = True
    asked: list[ComputeFeatures] = field(default_factory=list)
    counted_by_keys: list[CountTransaction] = field(default_factory=list)

    @override
    def handler(self) -> ScreenTransactions:
        compiled = compiled_of(self.text)
        self.counted = counting(self.counted, compiled.features)

        async def policy(tenant_id: str) -> PublishedPolicy:
            assert tenant_id == ACME
            return PublishedPolicy(3, "0" * 64, compiled, counted_since=self.counted.since)

        async def settings(_tenant_id: str) -> Any:
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
            KeyedFeatures(HASHES, self._ask, self._write, lambda: self.at, self.counters.key_questions),
            counters=self.counters,
        )

    async def execute(self, *commands: ComputeFeatures | CountTransaction) -> FeaturesComputed | None:
        """Hand commands to the actor of their key; returns its last answer."""
        answer = None
        for command in commands:
            actor = KeyedVelocity(self.stores, HASHES, lambda: self.at, self.keyed_table)
            answer = await actor(KeyedCommand(command))
        return answer

    async def _ask(self, command: ComputeFeatures, _timeout_s: float, /) -> FeaturesComputed:
        if not self.answering:
            raise DecisionPending
        self.asked.append(command)
        answer = await self.execute(command)
        assert answer is not None
        return answer

    async def _write(self, *records: Outgoing) -> None:
        if not self.writing:
            raise StoreUnavailable("the log is away")
        for record in records:
            command = KeyedCommand.model_validate_json(record.value or b"").root
            assert isinstance(command, CountTransaction)
            self.counted_by_keys.append(command)
            await self.execute(command)

    async def rules(self, command: ScreenTransaction) -> Sequence[ShownRule]:
        """Decide, and return the rules with what they read."""
        await self.carry_out(command)
        return (await open_parts(self.stores, ACME, await self.stored(command))).rules

    async def inputs(self, command: ScreenTransaction) -> dict[str, Any]:
        """Decide, and return what the features were."""
        seen = next(one for one in await self.rules(command) if one.id == "seen")
        assert all(one.exact for one in seen.inputs.values())
        return {name: one.value for name, one in seen.inputs.items()}


def on(device: str, address: str = "192.0.2.1") -> dict[str, Any]:
    """The part of a payment that names its device."""
    return {"device": {"id": device, "ip": address}}


async def test_features_by_key_are_those_of_every_earlier_payment_whatever_was_lost_or_repeated() -> None:
    stage, chance = KeyedStage(), random.Random(11)
    earlier: list[tuple[str, str, str, str, Decimal]] = []
    commands: list[ScreenTransaction] = []
    for number in range(120):
        stage.at += timedelta(seconds=chance.choice((1, 30, 70)))
        subject, device = f"user-{chance.randrange(9)}", f"device-{chance.randrange(3)}"
        address, account = f"192.0.2.{chance.randrange(2)}", f"account-{chance.randrange(7)}"
        amount = Decimal(chance.choice(("10.00", "0.5", "700")))
        command = await stage.command(
            f"order-{number}",
            subject,
            amount={"value": str(amount), "currency": "EUR"},
            counterparty={"kind": "PERSON", "account": account},
            **on(device, address),
        )
        of_device = [one for one in earlier if one[1] == device]
        expected = {
            "own": sum(one[0] == subject for one in earlier),
            "on_device": len(of_device),
            "sent": sum((one[4] for one in of_device if one[4] < 500), Decimal(0)),
            "payees": len({one[3] for one in earlier if one[2] == address}),
        }

        found = await stage.inputs(command)

        assert found | {"sent": Decimal(found["sent"])} == expected, number
        earlier.append((subject, device, address, account, amount))
        commands.append(command)
        match chance.randrange(6):
            case 0:
                stage.keyed_table = Memory()
            case 1:
                await stage.carry_out(chance.choice(commands))
            case 2:
                await stage.execute(chance.choice(stage.counted_by_keys), chance.choice(stage.asked))
    assert 0 < sum(one[4] >= 500 for one in earlier) < len(earlier)


async def test_each_kind_of_key_counts_what_has_its_value_and_nothing_without_one() -> None:
    """The same texts stand for subjects, accounts, payees and devices: a kind never counts another's."""
    stage, chance = KeyedStage(text=EVERY_KEY), random.Random(5)
    earlier = list[dict[FeatureKey, str]]()
    for number in range(60):
        stage.at += timedelta(seconds=1)
        values = {key: chance.choice("abc") for key in FeatureKey}
        values[FeatureKey.DEVICE_IP] = f"192.0.2.{chance.randrange(3)}"
        values[FeatureKey.WALLET_ADDRESS] = f"wallet-{chance.randrange(3)}"
        for key in chance.sample([*FeatureKey][1:], 2):
            del values[key]

        found = await stage.inputs(await command_of(stage, f"order-{number}", values))

        assert found == {
            name: sum(one.get(key) == values[key] for one in earlier) if key in values else None
            for key, name in NAME_OF.items()
        }, number
        earlier.append(values)


async def command_of(stage: KeyedStage, name: str, values: dict[FeatureKey, str]) -> ScreenTransaction:
    """The command of a payment with these values of keys."""
    body: dict[str, dict[str, str]] = {
        "subject": {"kind": "PERSON"}, "counterparty": {"kind": "PERSON"}, "device": {},
    }  # fmt: skip
    if FeatureKey.WALLET_ADDRESS in values:
        body["wallet"] = {"chain": "OTHER", "role": "SOURCE"}
    for key, value in values.items():
        group, _, part = key.partition(".")
        if part:
            body[group][part] = value
    return await stage.command(name, values[FeatureKey.SUBJECT_ID], **body)


async def test_a_payment_that_is_being_decided_counts_for_another_subject_on_its_device() -> None:
    """Fifty cards tried at once on one device are fifty, not fifty times none."""
    stage = KeyedStage(writing=False)
    first = await stage.command("order-1", "user-1", **on("phone"))
    with pytest.raises(StoreUnavailable):
        await stage.carry_out(first)
    stage.writing = True
    stage.at += timedelta(seconds=1)
    beside = await stage.inputs(await stage.command("order-2", "user-2", **on("phone")))
    await stage.carry_out(first)
    stage.at += timedelta(seconds=1)
    after = await stage.inputs(await stage.command("order-3", "user-3", **on("phone")))

    assert (beside["on_device"], beside["sent"]) == (1, "0")
    assert (after["on_device"], after["sent"]) == (2, "20.00")


async def test_a_payment_that_was_never_decided_ends_to_count() -> None:
    stage = KeyedStage()
    await stage.inputs(await stage.command("order-1", "user-1", **on("phone")))
    asked = stage.asked[0].model_copy(update={"transaction_id": "txn_dead"})
    await stage.execute(asked)
    stage.at += timedelta(seconds=1)
    beside = await stage.inputs(await stage.command("order-2", "user-2", **on("phone")))
    stage.at += timedelta(minutes=2)
    later = await stage.inputs(await stage.command("order-3", "user-3", **on("phone")))

    assert (beside["on_device"], later["on_device"]) == (2, 2)


async def test_money_waits_when_a_key_does_not_answer_and_rules_that_do_not_need_it_are_evaluated() -> None:
    stage = KeyedStage(answering=False)
    waiting = await stage.pay("order-1", **on("phone"))
    big = await stage.pay("order-2", amount={"value": "500", "currency": "EUR"}, **on("phone"))
    without = await stage.pay("order-3")
    rules = (await open_parts(stage.stores, ACME, waiting)).rules
    stage.answering = True
    later = await stage.inputs(await stage.command("order-4", **on("phone")))

    assert waiting.transaction.decision is DecisionOutcome.HOLD
    assert [one.code for one in waiting.transaction.reasons] == ["CHECK_UNAVAILABLE"]
    assert {one.id: (one.result, one.missing) for one in rules} == {
        "big": ("MISS", ()),
        "seen": ("ERROR", ("on_device", "sent", "payees")),
    }
    assert big.transaction.decision is DecisionOutcome.BLOCK
    assert without.transaction.decision is DecisionOutcome.ALLOW
    assert later["on_device"] == 2
    assert stage.counters.key_questions == {"unavailable": 4, "answered": 2}
    assert stage.counters.decisions == {"HOLD": 1, "BLOCK": 1, "ALLOW": 2}


async def test_a_key_that_was_not_counted_for_a_while_knows_what_happened_meanwhile() -> None:
    stage = KeyedStage()
    await stage.pay("order-1", "user-1", **on("phone"))
    stage.text = OTHER
    await stage.pay("order-2", "user-2", **on("phone"))
    counted = len(stage.counted_by_keys)
    stage.text = POLICY
    stage.at += timedelta(seconds=1)
    found = await stage.inputs(await stage.command("order-3", "user-3", **on("phone")))

    assert counted == 2
    assert found["on_device"] == 2
    assert stage.counted.since == {FeatureKey.DEVICE_ID: 2, FeatureKey.DEVICE_IP: 2}


async def test_history_counts_once_for_subject_and_device_and_survives_the_loss_of_both_rows() -> None:
    stage, subject = KeyedStage(), SubjectId("user-1")
    past = tuple(
        HistoricTransaction.model_validate(
            {
                "subject_id": subject,
                "type": "PAYMENT",
                "direction": "OUTBOUND",
                "amount": {"value": "10.00", "currency": "EUR"},
                "occurred_at": stage.at - timedelta(hours=number),
                "reference": f"old-{number}",
                "outcome": "GO" if number % 2 else "STOP",
                **on("phone"),
            }
        )
        for number in range(1, 8)
    )
    label = history_label("imp_1", 0)
    sealed = SealedHistory(transactions=past).to_bytes()
    command = ImportHistory(
        tenant_id=ACME,
        subject_key=HASHES.subject_key(ACME, subject, livemode=True),
        livemode=True,
        requested_at=stage.at,
        import_id="imp_1",
        subject_id=await seal_subject_id(stage.stores.vault, ACME, subject),
        sealed_history=await stage.stores.vault.seal(ACME, subject, label, sealed),
        part=0,
    )

    answers = [await stage.handler()(TransactionCommand(command)) for _ in range(2)]
    first = await stage.inputs(await stage.command("order-1", **on("phone")))
    stage.table = stage.keyed_table = Memory()
    stage.at += timedelta(seconds=1)
    later = await stage.inputs(await stage.command("order-2", **on("phone")))

    assert answers == [HistoryImported(accepted=7, duplicates=0)] * 2
    assert (first["own"], first["on_device"], first["sent"]) == (7, 7, "40.00")
    assert (later["own"], later["on_device"], later["sent"]) == (8, 8, "50.00")
