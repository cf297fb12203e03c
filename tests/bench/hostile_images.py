"""What hostile images cost a running service, and what they cost another tenant meanwhile.

Run it with `python -m tests.bench.hostile_images`; `--every 10` takes each tenth image.

One tenant posts every image of the corpus as a document, one after the other, beside an honest selfie.
Another posts sandbox verifications at a steady rate, first alone, then meanwhile. For each image are printed:
the answer, the processor seconds of all processes of the service, and the most memory they took beyond idle.
At the end: the other tenant's 95th percentiles, and how late the service's event loop ran.
"""

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.journeys.service import Service, encoded, hopper, make_tenant, running_service, small_request
from tests.specimens.hostile_corpus import corpus

CPU_S: Final = 10.0
MEMORY_MIB: Final = 300.0
P95_RATIO: Final = 2.0
LOOP_S: Final = 0.05
"""What is promised (issue 13)."""
ANSWERS: Final = frozenset({200, 201, 400, 413, 422})
"""How an image may be answered; 200 when the decision came after the first answer."""
PATIENCE_S: Final = 180.0
"""How long a decision is waited for."""
TOKEN: Final = secrets.token_urlsafe(32)
SETTINGS: Final = {"SERVICE_METRICS": "token", "SERVICE_PLATFORM_OPERATOR_TOKEN": TOKEN}
MIB: Final = 1 << 20


@dataclass(slots=True)
class Cost:
    """What one image cost."""

    name: str
    status: int
    said: str
    cpu_s: float
    memory_mib: float
    wall_s: float

    @property
    def dear(self) -> bool:
        """Whether it broke a promise."""
        return self.cpu_s > CPU_S or self.memory_mib > MEMORY_MIB or self.status not in ANSWERS


@dataclass(slots=True)
class Meter:
    """Processor time and memory of a service and everything it started."""

    pid: int
    idle_mib: float = 0.0
    most_mib: float = 0.0

    def family(self) -> list[Any]:
        """Its processes."""
        find: Any = psutil.Process  # untyped
        parent = find(self.pid)
        return [parent, *parent.children(recursive=True)]

    def cpu_s(self) -> float:
        """Seconds taken so far; children that ended are counted by who waited for them."""
        spent = 0.0
        for one in self.family():
            with suppress(psutil.Error):
                times = one.cpu_times()
                spent += times.user + times.system + times.children_user + times.children_system
        return spent

    def look(self) -> None:
        """Note the memory no other process shares, if it is the most so far."""
        total = 0
        for one in self.family():
            with suppress(psutil.Error):
                total += one.memory_full_info().uss
        self.most_mib = max(self.most_mib, total / MIB)


@asynccontextmanager
async def looking(meter: Meter) -> AsyncIterator[None]:
    """Look at the memory again and again."""

    async def look() -> None:
        while True:
            await asyncio.to_thread(meter.look)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()


async def post_image(service: Service, meter: Meter, name: str, image: bytes, selfie: str) -> Cost:
    """Post one image as a document and wait until it is decided.

    A vision process that rests for `serving.IDLE_S` gives memory back; the next image costs it again.
    """
    meter.idle_mib, meter.most_mib = 0.0, 0.0
    await asyncio.to_thread(meter.look)
    meter.idle_mib, spent, began = meter.most_mib, meter.cpu_s(), time.monotonic()
    key = f"hostile-{began}"
    body = {
        "subject_id": "hostile",
        "document": {"image_base64": encoded(image)},
        "selfie_image_base64": selfie,
    }
    async with looking(meter):
        status, answer, _ = await service.post(body, idempotency=key)
        while answer.get("code") == "DECISION_PENDING" and time.monotonic() < began + PATIENCE_S:
            await asyncio.sleep(0.5)
            status, answer, _ = await service.post(body, idempotency=key)
    took = time.monotonic() - began
    said = str(answer.get("code") or answer.get("status"))
    return Cost(name, status, said, meter.cpu_s() - spent, meter.most_mib - meter.idle_mib, took)


async def neighbour(service: Service, key: str, every_s: float, stop: asyncio.Event) -> list[float]:
    """Post sandbox verifications of another tenant until asked to stop; seconds each, inf for a failure."""
    took, number = [], 0
    while not stop.is_set():
        number += 1
        began = time.monotonic()
        status, _, _ = await service.post(small_request(f"sim:approved@{began}"), key=key)
        took.append(time.monotonic() - began if status in (200, 201) else float("inf"))
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await stop.wait()
    return took


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


async def loop_late_s(service: Service) -> str:
    """How late the service's loop ran: beats by the bound they stayed under."""
    _, text = await service.get("/metrics", key=TOKEN)
    beats = [
        line for line in str(text).splitlines() if line.startswith("veristream_loop_late_seconds_bucket")
    ]
    return ", ".join(line.partition("{")[2].replace("} ", " ") for line in beats)


async def attack(every: int, seconds: float, alone_s: float, rate_s: float) -> list[Cost]:
    """Post the corpus; print each cost and the summary."""
    chosen = list(corpus().items())[::every]
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder), SETTINGS) as service:
            selfie = encoded(hopper().selfie)
            _, _, other = await make_tenant(service.data_dir, "Globex")
            meter = Meter(service.role.process.pid)
            await post_image(service, meter, "warm-up", dict(chosen)[chosen[0][0]](), selfie)
            stop = asyncio.Event()
            quiet = asyncio.create_task(neighbour(service, other, rate_s, stop))
            await asyncio.sleep(alone_s)
            stop.set()
            alone = await quiet
            stop = asyncio.Event()
            beside = asyncio.create_task(neighbour(service, other, rate_s, stop))
            ends = time.monotonic() + seconds
            for name, make in chosen:
                image = await asyncio.to_thread(make)
                costs.append(await post_image(service, meter, name, image, selfie))
                _print(costs[-1])
                if time.monotonic() > ends:
                    break
            stop.set()
            meanwhile = await beside
            _, ready = await service.get("/readyz")
            _summarise(costs, alone, meanwhile)
            sys.stdout.write(f"loop: {await loop_late_s(service)}\nreadyz: {ready}\n")
    return costs


def _print(cost: Cost) -> None:
    mark = "DEAR " if cost.dear else ""
    sys.stdout.write(
        f"{mark}{cost.name}: {cost.status} {cost.said}, {cost.cpu_s:.2f} s CPU, "
        f"{cost.memory_mib:+.0f} MiB, {cost.wall_s:.1f} s\n"
    )
    sys.stdout.flush()


def _summarise(costs: list[Cost], alone: list[float], meanwhile: list[float]) -> None:
    spent, failures = [cost.cpu_s for cost in costs], meanwhile.count(float("inf"))
    answers = Counter((cost.status, cost.said) for cost in costs)
    sys.stdout.write(
        f"{len(costs)} images: {dict(answers)}\n"
        f"CPU seconds: median {statistics.median(spent):.2f}, most {max(spent):.2f}\n"
        f"memory beyond idle: most {max(c.memory_mib for c in costs):.0f} MiB\n"
        f"over a bound: {[c.name for c in costs if c.dear]}\n"
        f"the other tenant's p95: {p95(alone):.3f} s alone, {p95(meanwhile):.3f} s meanwhile, "
        f"{p95(meanwhile) / p95(alone):.2f} times; {failures} of {len(meanwhile)} failed\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="take each n-th image")
    parser.add_argument("--seconds", type=float, default=7200, help="stop after so long")
    parser.add_argument("--alone", type=float, default=30, help="seconds the other tenant is measured alone")
    parser.add_argument("--rate", type=float, default=0.5, help="seconds between the other tenant's requests")
    options = parser.parse_args()
    asyncio.run(attack(options.every, options.seconds, options.alone, options.rate))
