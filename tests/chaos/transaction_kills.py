"""Kill a service under load of transactions, again and again, and compare every feature with what was sent.

`python -m tests.chaos.transaction_kills --count 20000 --kills 20` runs `veristream up`, sends payments of
many subjects on few devices, each until it is answered, and ends the service with SIGKILL in between. At the
end one more payment for every subject and device must see each of the others once, and the deployment's own
check of its invariants must find nothing.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from schemas.base import rfc3339
from tests.journeys.service import Role, environment, make_tenant

SUBJECTS: Final = 40
DEVICES: Final = 5
ANSWER_S: Final = 120
"""How long a payment is sent again until it is answered."""

POLICY: Final = """
policy: transactions
features:
  - {name: own, metric: COUNT, window: 24h, key: subject_id}
  - {name: on_device, metric: COUNT, window: 24h, key: device.id}
  - {name: from_address, metric: COUNT, window: 24h, key: device.ip, where: {outcome: GO}}
checks: []
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


@dataclass
class Run:
    """One deployment under load."""

    directory: Path
    client: ClientSession
    chance: random.Random
    role: Role | None = None
    key: str = ""
    sent: Counter[str] = field(default_factory=Counter)

    async def start(self) -> None:
        """Start the service, again after a kill."""
        self.role = await Role.start(self.directory, "up", "--port", "0")

    async def kill(self) -> None:
        """End the service at once."""
        role = self.role
        if role is not None:
            role.process.send_signal(signal.SIGKILL)
            await role.process.wait()

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Ask the service that runs now."""
        url = "" if self.role is None else self.role.url
        headers = {"Authorization": f"Bearer {self.key}", **more.pop("headers", {})}
        async with self.client.request(method, url + path, headers=headers, **more) as answer:
            return answer.status, await answer.json(content_type=None)

    async def pay(self, name: str, subject: int, device: int) -> dict[str, Any]:
        """Send a payment until it is answered."""
        body = {
            "subject_id": f"user-{subject}",
            "type": "PAYMENT",
            "direction": "OUTBOUND",
            "amount": {"value": "1.50", "currency": "EUR"},
            "occurred_at": rfc3339(datetime.now(UTC)),
            "device": {"id": f"device-{device}", "ip": f"192.0.2.{device}"},
        }
        async with asyncio.timeout(ANSWER_S):
            while True:
                try:
                    path, headers = "/v1/transactions", {"Idempotency-Key": name}
                    status, answer = await self.ask("POST", path, json=body, headers=headers)
                    if status in {200, 201}:
                        self.sent.update((f"user-{subject}", f"device-{device}"))
                        return dict(answer)
                    assert status in {429, 503}, answer
                except (ClientError, TimeoutError, OSError):
                    pass
                await asyncio.sleep(0.2)

    async def publish(self) -> None:
        """Publish the policy that counts by device."""
        headers = {"Content-Type": "application/yaml"}
        path = "/v1/policies/transactions"
        status, answer = await self.ask("PUT", f"{path}/draft", data=POLICY.encode(), headers=headers)
        assert status == 200, answer
        status, answer = await self.ask("POST", f"{path}/publish", json={})
        assert status == 200, answer

    async def load(self, first: int, count: int) -> None:
        """Send payments, 24 at a time."""
        places = asyncio.Semaphore(24)

        async def one(number: int) -> None:
            async with places:
                subject, device = self.chance.randrange(SUBJECTS), self.chance.randrange(DEVICES)
                await self.pay(f"order-{number}", subject, device)

        await asyncio.gather(*(one(number) for number in range(first, first + count)))

    async def wrong(self) -> list[str]:
        """Return what a further payment of every subject and device sees otherwise than it was sent."""
        found = []
        for number in range(max(SUBJECTS, DEVICES)):
            subject, device = number % SUBJECTS, number % DEVICES
            expected = self.sent[f"user-{subject}"], *(self.sent[f"device-{device}"],) * 2
            await asyncio.sleep(0.01)  # so that it occurs later than the others
            answer = await self.pay(f"probe-{number}", subject, device)
            inputs = answer["rules"][0]["inputs"]
            seen = tuple(inputs[name]["value"] for name in ("own", "on_device", "from_address"))
            if seen != expected:
                found.append(f"user-{subject} on device-{device}: {seen}, sent {expected}")
        return found

    async def violations(self) -> list[str]:
        """Return what the deployment's own check of its invariants finds."""
        url = "" if self.role is None else self.role.url
        doctor = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "doctor", "--invariants", "--json", "--url", url,
            "--data-dir", str(self.directory), stdout=asyncio.subprocess.PIPE, env=environment(),
        )  # fmt: skip
        printed, _ = await doctor.communicate()
        return [] if doctor.returncode == 0 else [printed.decode()]


@asynccontextmanager
async def running(seed: int) -> AsyncIterator[Run]:
    """Run a deployment in a folder of its own."""
    with TemporaryDirectory() as folder:
        async with ClientSession(timeout=ClientTimeout(total=30)) as client:
            run = Run(Path(folder) / "data", client, random.Random(seed))
            await run.start()
            try:
                _, run.key, _ = await make_tenant(run.directory)
                yield run
            finally:
                await run.kill()


async def kill_under_load(count: int, kills: int, seed: int) -> list[str]:
    """Return what was counted otherwise than once, and the violations of invariants."""
    async with running(seed) as run:
        await run.publish()
        for part in range(kills + 1):
            size = count // (kills + 1)
            load = asyncio.create_task(run.load(part * size, size))
            if part < kills:
                await asyncio.wait({load}, timeout=run.chance.uniform(0.5, 5))
                await run.kill()
                await run.start()
            await load
            print(f"part {part + 1} of {kills + 1}: {sum(run.sent.values()) // 2} answered", flush=True)  # noqa: T201
        wrong = await run.wrong()
        return [*wrong, *await run.violations()]


def main() -> int:
    """Run it once; the exit status says whether everything was counted once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wrong = asyncio.run(kill_under_load(given.count, given.kills, given.seed))
    print(f"transactions={given.count} kills={given.kills} wrong={len(wrong)}", *wrong, sep="\n")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
