"""Payments of many subjects on few devices, each sent until it is answered, and what features must count."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import ClientError, ClientSession

from schemas.base import rfc3339
from schemas.lists import EntityKind, NameEntry

SUBJECTS: Final = 40
DEVICES: Final = 5
AT_ONCE: Final = 24
MOST_OVERTAKEN: Final = 1_000
"""A request that is sent again and again while so many payments are answered is lost."""
STILL_S: Final = 1_800
"""The load hangs when no payment is answered for so long; one on a busy machine is only slow."""
PROBES: Final = 30
"""How many payments may meet a key that does not answer in time, one after the other."""
LISTED: Final = "Zafar Qadoori"
NOBODY: Final = "Ada Okafor"

POLICY: Final = """
policy: transactions
features:
  - {name: own, metric: COUNT, window: 24h, key: subject_id}
  - {name: on_device, metric: COUNT, window: 24h, key: device.id}
  - {name: from_address, metric: COUNT, window: 24h, key: device.ip, where: {outcome: GO}}
checks:
  - {check: SANCTIONS, targets: [counterparty], match: 0.85, possible: 0.70,
     on_match: FLAG, on_possible: FLAG, on_error: WARN}
rules:
  - id: seen
    mode: SHADOW
    when:
      all:
        - {feature: own, op: GTE, value: 0}
        - {feature: on_device, op: GTE, value: 0}
        - {feature: from_address, op: GTE, value: 0}
    then: {decision: FLAG, reason: {code: POLICY_SEEN, message: seen}}
"""
LIST: Final = "/v1/lists/payees?kind=NAMES&check=SANCTIONS"
POLICIES: Final = "/v1/policies/transactions"
BACKTESTS: Final = f"{POLICIES}/backtests"


@dataclass
class Payments:
    """The load of one tenant, and how often each subject and device was paid by."""

    client: ClientSession
    url: str
    key: str
    chance: random.Random
    sent: Counter[str] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)
    """The transaction of each Idempotency-Key."""
    answers: Counter[int] = field(default_factory=Counter)
    """Requests by the status of their answer."""
    answered_at: float = field(default_factory=time.monotonic)
    """When a payment was answered last."""
    screened: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the name of a payee was found to be what."""

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Ask the service."""
        headers = {"Authorization": f"Bearer {self.key}", **more.pop("headers", {})}
        async with self.client.request(method, self.url + path, headers=headers, **more) as answer:
            self.answers[answer.status] += 1
            return answer.status, await answer.json(content_type=None)

    async def until_answered(self, method: str, path: str, **more: Any) -> Any:
        """Ask until the service answers with what was asked for; it is lost by what others get meanwhile."""
        before = len(self.ids)
        while True:
            answer: Any = None
            try:
                status, answer = await self.ask(method, path, **more)
                if status < 300:
                    return answer
                assert status in {429, 503}, answer
            except (ClientError, TimeoutError, OSError):
                pass
            assert len(self.ids) - before < MOST_OVERTAKEN, f"overtaken by {MOST_OVERTAKEN}: {path}, {answer}"
            assert time.monotonic() - self.answered_at < STILL_S, f"nothing is answered: {path}, {answer}"
            await asyncio.sleep(0.2)

    async def publish(self) -> None:
        """Load a list of one name, and publish the policy that counts by device and screens the payee."""
        entry = NameEntry(entity_id="1", kind=EntityKind.PERSON, names=(LISTED,)).to_bytes()
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "payees"}
        await self.until_answered("PUT", LIST, data=entry, headers=headers)
        headers = {"Content-Type": "application/yaml"}
        await self.until_answered("PUT", f"{POLICIES}/draft", data=POLICY.encode(), headers=headers)
        await self.until_answered("POST", f"{POLICIES}/publish", json={})

    async def pay(self, name: str, subject: int, device: int) -> dict[str, Any]:
        """Send a payment until it is answered."""
        payee = self.chance.choice((LISTED, NOBODY))
        body = {
            "subject_id": f"user-{subject}",
            "type": "PAYMENT",
            "direction": "OUTBOUND",
            "amount": {"value": "1.50", "currency": "EUR"},
            "occurred_at": rfc3339(datetime.now(UTC)),
            "counterparty": {"kind": "PERSON", "name": payee},
            "device": {"id": f"device-{device}", "ip": f"192.0.2.{device}"},
        }
        headers = {"Idempotency-Key": name}
        answer = await self.until_answered("POST", "/v1/transactions", json=body, headers=headers)
        self.sent.update((f"user-{subject}", f"device-{device}"))
        self.ids[name] = answer["transaction_id"]
        self.screened.update((payee, check["result"]) for check in answer["checks"])
        self.answered_at = time.monotonic()
        return dict(answer)

    async def pay_often(self, first: int, count: int) -> None:
        """Send so many payments, some at a time."""
        numbers = iter(range(first, first + count))

        async def one() -> None:
            for number in numbers:
                subject, device = self.chance.randrange(SUBJECTS), self.chance.randrange(DEVICES)
                await self.pay(f"order-{number}", subject, device)

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    async def until_paid(self, count: int) -> None:
        """Return once so many payments were answered."""
        while len(self.ids) < count:  # noqa: ASYNC110 - others send
            await asyncio.sleep(0.05)

    async def miscounted(self) -> list[str]:
        """Return what a further payment of every subject and device sees otherwise than it was sent."""
        found = []
        for number in range(max(SUBJECTS, DEVICES)):
            subject, device = number % SUBJECTS, number % DEVICES
            seen, expected = await self._probe(number, subject, device)
            if seen != expected:
                found.append(f"user-{subject} on device-{device}: {seen}, sent {expected}")
        return [*found, *self._repeated(), *self._misjudged()]

    async def _probe(self, number: int, subject: int, device: int) -> tuple[list[Any], list[int]]:
        """Return what a payment counts before it, and what was sent; again if a key was late.

        A feature that is not available is said to be so and makes its rule an ERROR: that is no wrong count.
        """
        for attempt in range(PROBES):
            expected = [self.sent[f"user-{subject}"], *[self.sent[f"device-{device}"]] * 2]
            await asyncio.sleep(0.01)  # so that it occurs later than the others
            answer = await self.pay(f"probe-{number}-{attempt}", subject, device)
            rule = answer["rules"][0]
            if rule["result"] != "ERROR":
                break
        return [rule["inputs"][name]["value"] for name in ("own", "on_device", "from_address")], expected

    def _repeated(self) -> Iterator[str]:
        if len(set(self.ids.values())) < len(self.ids):
            yield "two payments share a transaction"

    def _misjudged(self) -> Iterator[str]:
        """Yield what names were found to be otherwise than right; an ERROR says that nobody looked."""
        right = {(LISTED, "POSSIBLE"), (NOBODY, "CLEAR")}
        errors = {(LISTED, "ERROR"), (NOBODY, "ERROR")}
        if not right <= set(self.screened) <= right | errors:
            yield f"names were found to be {dict(self.screened)}"

    async def ask_backtest(self, until: datetime) -> str:
        """Ask for the published policy to be tried on what was accepted before; return the backtest's id."""
        body = {"revision": 2, "from": "2020-01-01T00:00:00Z", "to": rfc3339(until)}
        return str((await self.until_answered("POST", BACKTESTS, json=body))["backtest_id"])

    async def backtest(self, backtest_id: str) -> Any:
        """Return a backtest once it is over."""
        async with asyncio.timeout(STILL_S):
            while True:
                shown = await self.until_answered("GET", f"{BACKTESTS}/{backtest_id}")
                if shown["status"] not in {"QUEUED", "RUNNING"}:
                    return shown
                await asyncio.sleep(0.5)
