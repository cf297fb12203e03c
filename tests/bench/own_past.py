"""A policy over the transactions it decided: nothing may change, here or on another machine.

`python -m tests.bench.own_past --transactions 100000`: payments of some weeks are decided by the worker's own
use case on a store in a file, without a front, without a log; then the backtest's process decides them again,
on the same folder and on a restored backup of it in a process of another environment, and the results are
compared. What HTTP and the log add is in `tests.bench.backtests`.
"""

import argparse
import asyncio
import hashlib
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog

from app.adapters.files.data_dir import ROOT_KEY_FILE, make_private
from app.adapters.security.crypto import Purpose
from app.composition.stores import Deployment, new_id, now, open_existing
from app.settings import Settings
from schemas.backtests import StoredBacktest
from schemas.base import to_milliseconds
from schemas.ids import BacktestId, KeyId, SubjectId, TenantId
from schemas.policy_records import CountedKeys
from schemas.tenant_settings import TenantSettings
from schemas.transaction_decisions import ScreenTransaction, TransactionCommand
from schemas.transactions import TransactionRequest
from streams.backtests.records import backtest_records
from streams.policies.compiling import compile_policy
from streams.policies.in_use import counting
from streams.policies.loading import digest, load
from streams.ports.records import Change
from streams.privacy.sealing import seal_subject_id
from streams.transactions.checks import Checks
from streams.transactions.counters import TransactionCounters
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.published import PublishedPolicy
from streams.transactions.records import request_label, transaction_id
from tests.chaos.transaction_kills import BACKTEST_MODULE
from tests.http.support import Memory, Silence, keyed_features, wallets_over
from tests.journeys.service import begin_deployment, make_tenant, veristream_json

SUBJECTS: Final = 3_000
DEVICES: Final = 900
ADDRESSES: Final = 400
AT_ONCE: Final = 64
"""Payments under way, each of another subject, device and address: a key's come one after the other."""

REPORT_EVERY_S: Final = 30.0
REVISION: Final = 2

OTHER_MACHINE: Final = {
    "PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0",
    "PYTHONUTF8": "0",
}  # fmt: skip
"""What may differ there: the order of sets, the day, and how text is written."""

POLICY: Final = b"""
policy: transactions
features:
  - {name: own_90d, metric: COUNT, window: 90d, key: subject_id}
  - {name: spent_7d, metric: SUM, window: 7d, key: subject_id, field: amount}
  - {name: mean_30d, metric: AVG, window: 30d, key: subject_id, field: amount}
  - {name: spread_90d, metric: STDDEV, window: 90d, key: subject_id, field: amount}
  - {name: most_24h, metric: MAX, window: 24h, key: subject_id, field: amount}
  - {name: devices_30d, metric: COUNT_DISTINCT, window: 30d, key: subject_id, field: device.id}
  - {name: last, metric: SECONDS_SINCE_LAST, window: 7d, key: subject_id}
  - {name: on_device_24h, metric: COUNT, window: 24h, key: device.id}
  - {name: by_device_7d, metric: SUM, window: 7d, key: device.id, field: amount, where: {outcome: GO}}
  - {name: from_address_15m, metric: COUNT, window: 15m, key: device.ip}
checks: []
rules:
  - id: many
    mode: ACTIVE
    when: {feature: own_90d, op: GT, value: 25}
    then: {score: 15, reason: {code: POLICY_MANY, message: "{own_90d} payments."}}
  - id: quick
    mode: ACTIVE
    when: {feature: last, op: LT, value: 7200}
    then: {decision: FLAG, reason: {code: POLICY_QUICK, message: "{last} s after the last."}}
  - id: unusual
    mode: ACTIVE
    when:
      all:
        - {field: amount, op: GT, value: {feature: mean_30d, times: 2}}
        - {feature: spread_90d, op: GT, value: "10"}
    then: {decision: WARN, score: 20, reason: {code: POLICY_UNUSUAL, message: "Twice {mean_30d}."}}
  - id: much
    mode: ACTIVE
    when: {any: [{feature: spent_7d, op: GT, value: "1500"}, {feature: most_24h, op: GT, value: "490"}]}
    then: {decision: HOLD, reason: {code: POLICY_MUCH, message: "{spent_7d} in a week."}}
  - id: shared
    mode: ACTIVE
    when: {feature: on_device_24h, op: GT, value: 5}
    then: {decision: BLOCK, reason: {code: POLICY_SHARED, message: "{on_device_24h} on the device."}}
  - id: devices
    mode: ACTIVE
    when: {feature: devices_30d, op: GT, value: 24}
    then: {decision: SUSPEND, reason: {code: POLICY_DEVICES, message: "{devices_30d} devices."}}
  - id: device_much
    mode: ACTIVE
    when: {feature: by_device_7d, op: GT, value: "4000"}
    then: {score: 40, reason: {code: POLICY_DEVICE_MUCH, message: "{by_device_7d} by the device."}}
  - id: crowded
    mode: SHADOW
    when: {feature: from_address_15m, op: GT, value: 0}
    then: {decision: FLAG, reason: {code: POLICY_CROWDED, message: "{from_address_15m} from there."}}
score: {FLAG: 30, REVIEW_REQUIRED: 60}
"""


class Deciding:
    """Decides payments of a tenant, at times of the past."""

    def __init__(self, deployment: Deployment, tenant_id: TenantId, spread: timedelta) -> None:
        self.spread = spread
        self.stores, self.tenant_id = deployment.stores, tenant_id
        self.hashes = KeyedHashes(deployment.keys.derive(Purpose.TRANSACTION_HASHES))
        self.counters = TransactionCounters()
        self.chance = random.Random(4)
        self.at = self.first = to_milliseconds(now() - spread)
        compiled = compile_policy(load(POLICY), REVISION, digest(POLICY))
        since = counting(CountedKeys(), compiled.features).since
        published = PublishedPolicy(REVISION, digest(POLICY), compiled, counted_since=since)

        async def policy(tenant_id: TenantId) -> PublishedPolicy:
            assert tenant_id == self.tenant_id
            return published

        async def settings(_: TenantId) -> TenantSettings:
            return TenantSettings()

        self.screen = ScreenTransactions(
            self.stores, self.hashes, policy, Checks(), wallets_over(self.stores.records), settings,
            lambda: self.at, Memory(), Silence(),
            keyed_features(self.stores, self.hashes, lambda: self.at), counters=self.counters,
        )  # fmt: skip

    async def run(self, count: int) -> None:
        """Decide so many, and say how far it is."""
        begun = reported = time.monotonic()
        for done in range(0, count, AT_ONCE):
            self.at = to_milliseconds(self.first + self.spread * (done / count))
            wanted = min(AT_ONCE, count - done)
            keys = (self.chance.sample(range(most), wanted) for most in (SUBJECTS, DEVICES, ADDRESSES))
            commands = [await self._command(*key) for key in zip(*keys, strict=True)]
            await asyncio.gather(*(self.screen(TransactionCommand(command)) for command in commands))
            if time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                say(f"{done + wanted:,} of {count:,} decided, {done / (reported - begun):.0f}/s")

    async def _command(self, subject: int, device: int, address: int) -> ScreenTransaction:
        """Return the command of a payment, as a front writes it; some occurred a while ago."""
        subject_id, vault = SubjectId(f"customer-{subject}"), self.stores.vault
        late = timedelta(minutes=self.chance.choice((0, 0, 0, 5, 300)))
        amount = {"value": f"{self.chance.uniform(1, 100) ** 1.35:.2f}"}
        request = TransactionRequest.model_validate(
            {
                "subject_id": subject_id,
                "type": self.chance.choice(("PAYMENT", "TRANSFER", "CARD")),
                "direction": "OUTBOUND",
                "amount": amount | {"currency": self.chance.choice(("EUR", "EUR", "USD"))},
                "occurred_at": self.at - late,
                "device": {"id": f"device-{device}", "ip": f"198.51.{address // 250}.{address % 250 + 1}"},
            }
        )
        name = new_id("req")
        about, body = transaction_id(self.tenant_id, name, livemode=True), request.to_bytes()
        return ScreenTransaction(
            tenant_id=self.tenant_id,
            subject_key=self.hashes.subject_key(self.tenant_id, subject_id, livemode=True),
            livemode=True,
            requested_at=self.at,
            transaction_id=about,
            subject_id=await seal_subject_id(vault, self.tenant_id, subject_id),
            fingerprint=self.hashes.of(self.tenant_id, "request", body.decode()).hex(),
            sealed_request=await vault.seal(self.tenant_id, subject_id, request_label(about), body),
            key_id=KeyId("key_1"),
            request_id=name,
        )

    async def ask_backtest(self) -> BacktestId:
        """Write down the backtest of everything."""
        about, at = BacktestId(new_id("bt")), to_milliseconds(now())
        stored = StoredBacktest(
            backtest_id=about, tenant_id=self.tenant_id, policy="transactions", revision=REVISION,
            sha256=digest(POLICY), since=self.first, until=at, subject_id=None, livemode=True, created_at=at,
        )  # fmt: skip
        records = backtest_records(stored, POLICY, "own past")
        await self.stores.journal.commit(Change(self.tenant_id, records))
        return about


async def main(transactions: int, spread: timedelta) -> int:
    """Decide and backtest; 1 when anything is decided otherwise."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        here, elsewhere = Path(name, "here"), Path(name, "elsewhere")
        begin_deployment(here)
        tenant_id = TenantId((await make_tenant(here))[0])
        async with open_existing(Settings(data_dir=here)) as deployment:
            deciding, begun = Deciding(deployment, tenant_id, spread), time.process_time()
            await deciding.run(transactions)
            backtest_id = await deciding.ask_backtest()
        spent_s = time.process_time() - begun
        say(f"decided {transactions:,} in {spent_s:.0f} s of CPU: {dict(deciding.counters.decisions)}")
        await restored(here, elsewhere, Path(name, "backup"))
        words = tenant_id, backtest_id
        results = [await replayed(here, *words), await replayed(elsewhere, *words, OTHER_MACHINE)]
    digests = [digest_of(result) for result in results]
    for where, result, said in zip(("here", "elsewhere"), results, digests, strict=True):
        counts = {name: result[name] for name in ("evaluated", "changed", "unknown")}
        say(f"row: {where} {counts}, sha256 {said}")
    say(f"matrix: {results[0]['matrix']}")
    say(f"hits: { {rule['id']: (rule['hits'], rule['hits_before']) for rule in results[0]['rules']} }")
    as_it_was = all(
        result["evaluated"] == transactions and result["changed"] == result["unknown"] == 0
        for result in results
    )
    return 0 if as_it_was and len(set(digests)) == 1 else 1


async def restored(here: Path, elsewhere: Path, backup: Path) -> None:
    """Move the deployment to another machine, as an operator does."""
    await veristream_json(here, "backup", "create", str(backup))
    make_private(elsewhere)
    shutil.copy(here / ROOT_KEY_FILE, elsewhere)
    await veristream_json(elsewhere, "restore", "--activate", str(backup))


async def replayed(
    data_dir: Path, tenant_id: str, backtest_id: str, given: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the result of a backtest of a folder in a process of its own, as its worker runs it."""
    command = (sys.executable, "-m", BACKTEST_MODULE, str(data_dir), tenant_id, backtest_id)
    child = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env={**os.environ, **(given or {})}
    )
    assert child.stdout is not None
    try:
        async for line in child.stdout:
            if "result" in (said := json.loads(line)):
                return dict(said["result"])
        raise RuntimeError(said)
    finally:
        child.kill()
        await child.wait()


def digest_of(result: Mapping[str, Any]) -> str:
    """Return the sha256 of a result."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--days", type=float, default=80, help="how long ago the first was")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.transactions, timedelta(days=given.days))))
