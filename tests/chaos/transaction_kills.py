"""Kill worker, broker, names and backtest process at random under a load of transactions; all must fit.

`python -m tests.chaos.transaction_kills --count 20000 --kills 20` runs a broker, a front and a worker on the
embedded engines, with `--engines` on a Kafka and a Cassandra. At the end one more payment for every subject
and device must see each of the others once, no payment to a listed name may have been CLEAR, the published
policy must change no decision of its own past, and the deployment's own check of its invariants must find
nothing.
"""

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from tests.chaos.fleet import Embedded, Fleet, Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.payments import Payments
from tests.chaos.sizes import patience
from tests.chaos.verdict import check
from tests.journeys.service import Role

BACKTEST_MODULE: Final = "app.composition.backtest_child"
NAMES_MODULE: Final = "app.names.server"
CHILD_S: Final = 120.0
"""How long a worker may take to start one of its processes; it looks for backtests every 3 seconds."""


@dataclass
class KillRun:
    """One deployment under load, whose processes die."""

    fleet: Fleet
    payments: Payments
    worker: Role
    chance: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    backtests: list[str] = field(default_factory=list)
    """Those that lost their process, or their worker."""

    async def kill_worker(self) -> None:
        """End the worker, and start another."""
        await self.worker.kill()
        self.worker = await self.fleet.supervised_worker()

    async def kill_broker(self) -> None:
        """End the broker, and start it on what it wrote."""
        await self.fleet.profile.kill_broker()
        await self.fleet.profile.start_broker()

    async def kill_backtest(self) -> None:
        """End the process of a backtest, which its worker starts again."""
        _kill_process(await self._running_backtest())

    async def kill_worker_of_backtest(self) -> None:
        """End a worker that runs a backtest, which the next one takes up."""
        await self._running_backtest()
        await self.kill_worker()

    async def kill_names(self) -> None:
        """End the process that compares names, which its worker starts again."""
        _kill_process(await self._child(NAMES_MODULE))

    async def _running_backtest(self) -> Any:
        """Ask for a backtest, and return its process as soon as there is one."""
        self.backtests.append(await self.payments.ask_backtest(datetime.now(UTC)))
        return await self._child(BACKTEST_MODULE)

    async def _child(self, module: str) -> Any:
        """Return the worker's process that runs a module, as soon as there is one."""
        find: Any = psutil.Process  # untyped
        async with asyncio.timeout(patience(CHILD_S)):
            while True:
                for child in find(self.worker.process.pid).children():
                    with suppress(psutil.NoSuchProcess):
                        if module in child.cmdline():
                            return child
                await asyncio.sleep(0.05)

    async def check_backtests(self) -> list[str]:
        """Return the interrupted backtests that did not end as if nobody had killed them."""
        found = []
        for backtest_id in self.backtests:
            shown = await self.payments.backtest(backtest_id)
            again = await self.payments.ask_backtest(datetime.fromisoformat(shown["to"]))
            result = (await self.payments.backtest(again))["result"]
            if shown["status"] != "DONE" or shown["result"] != result or result["changed"]:
                found.append(f"{shown}, again: {result}")
        return found


Kill = Callable[[KillRun], Awaitable[None]]

VICTIMS: Final[Mapping[str, Kill]] = {
    "worker": KillRun.kill_worker,
    "broker": KillRun.kill_broker,
    "backtest": KillRun.kill_backtest,
    "worker of a backtest": KillRun.kill_worker_of_backtest,
    "names": KillRun.kill_names,
}
"""What dies, each with how: the first kills take one of each in this order, the others any."""


async def kill_under_load(
    folder: Path, profile: Profile, count: int, kills: int, chance: random.Random
) -> tuple[Counter[str], list[str]]:
    """Return what was killed, and what was counted or backtested otherwise than once."""
    async with running_fleet(folder, profile) as fleet, open_client() as client:
        front, worker = await fleet.front(), await fleet.worker()
        payments = Payments(client, front.url, fleet.live_key, chance)
        run = KillRun(fleet, payments, worker, chance)
        await payments.publish()
        verifications = Load(client, front.url, fleet.test_key, 4)
        await verifications.post_all()  # for what the check looks at beside transactions
        async with asyncio.TaskGroup() as group:  # a payment that is never answered ends the run
            group.create_task(payments.pay_often(0, count))
            for number in range(kills):
                await payments.until_paid(count * (number + 1) // (kills + 2))
                await _kill(run, number)
        await verifications.settle_all()
        wrong = [*await run.check_backtests(), *await payments.miscounted()]
        await check(fleet)
        return run.killed, wrong


def _kill_process(process: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


async def _kill(run: KillRun, number: int) -> None:
    names = list(VICTIMS)
    name = names[number] if number < len(names) else run.chance.choice(names)
    await VICTIMS[name](run)
    run.killed[name] += 1
    payments = run.payments
    said = f"killed {name}; {len(payments.ids)} answered, {dict(payments.answers)}, {dict(payments.screened)}"
    sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {said}\n")
    sys.stdout.flush()


async def main(count: int, kills: int, seed: int, *, engines: bool) -> int:
    """Run it once; the exit status says whether everything was counted once."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        profile: Profile = Embedded(folder / "data")
        if engines:
            from tests.chaos.engines_profile import Engines  # noqa: PLC0415 - needs Java
            from tests.engines.cassandra_server import CassandraServer  # noqa: PLC0415

            cassandra = await stack.enter_async_context(CassandraServer(folder / "cassandra"))
            profile = Engines(folder / "data", cassandra)
        killed, wrong = await kill_under_load(folder / "data", profile, count, kills, random.Random(seed))
    sys.stdout.write(f"transactions={count} killed={dict(killed)} wrong={len(wrong)}\n")
    sys.stdout.writelines(f"{one}\n" for one in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", action="store_true", help="on Kafka and Cassandra; needs Java")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.count, given.kills, given.seed, engines=given.engines)))
