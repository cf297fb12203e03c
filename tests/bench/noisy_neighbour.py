"""One tenant offers ten times what the service can decide; another one must hardly notice.

Run it with `python -m tests.bench.noisy_neighbour --minutes 10`; its status is 1 when a limit is broken.

The capacity is measured first. Then the quiet tenant asks alone, one request after the other, and beside the
busy tenant at a share of the capacity, in turns on the same cores. Every request needs the models and has a
key of its own. What is compared is the quiet tenant's 95th percentile, as a ratio.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image

from app.demo.specimens import to_jpeg
from tests.bench.load import OpenLoad, load
from tests.bench.verifications import documents
from tests.journeys.service import Service, encoded, hopper, make_tenant, running_service

MOST_RATIO: Final = 2.0
SETTLED_WITHIN_S: Final = 60.0

WIDTH: Final = 640
"""Pixels of a page from left to right: half as many as the demonstration's, so that more rounds fit in."""

ALONE: Final = 8
"""Requests of the quiet tenant alone, before each round beside the busy one and after the last."""


def bodies(count: int = 4, width: int = WIDTH) -> list[bytes]:
    """Requests that need the models, as they go over the wire; a narrow page takes the models less time."""
    person = hopper()
    selfie = encoded(to_jpeg(person.selfie.resize((240, 260))))
    pages = [encoded(to_jpeg(narrow(page, width))) for page in documents(person, count)]
    return [
        json.dumps(
            {
                "subject_id": f"neighbour-{n}",
                "document": {"image_base64": page},
                "selfie_image_base64": selfie,
            }
        ).encode()
        for n, page in enumerate(pages)
    ]


def narrow(page: bytes, width: int) -> Image.Image:
    """Return the page with so many pixels from left to right."""
    whole = Image.open(BytesIO(page))
    return whole.resize((width, whole.height * width // whole.width))


@dataclass(frozen=True, slots=True)
class Answered:
    """One request and its answer."""

    name: str
    status: int
    code: str | None
    retry_after: str | None
    at: float
    """When the answer came, monotonic seconds."""
    took_s: float


@dataclass(slots=True)
class Tenant:
    """A tenant that posts; it remembers every answer."""

    service: Service
    key: str
    wire: list[bytes]
    name: str
    answers: list[Answered] = field(default_factory=list)

    async def post(self, number: int) -> int:
        """Post one request under a key of its own and return the status."""
        return (await self.send(f"{self.name}-{number}", number)).status

    async def send(self, key: str, number: int) -> Answered:
        """Post one request under a key."""
        headers = {
            "Authorization": f"Bearer {self.key}", "Idempotency-Key": key, "Content-Type": "application/json",
        }  # fmt: skip
        url, began = f"{self.service.url}/v1/verifications", time.monotonic()
        wire = self.wire[number % len(self.wire)]
        async with self.service.client.post(url, data=wire, headers=headers) as answer:
            body = await answer.json(content_type=None)
            now = time.monotonic()
            after = answer.headers.get("Retry-After")
            one = Answered(key, answer.status, body.get("code"), after, now, now - began)
        self.answers.append(one)
        return one

    def with_code(self, code: str) -> list[Answered]:
        """Return the answers with a problem code."""
        return [one for one in self.answers if one.code == code]

    async def settle(self) -> None:
        """Ask again under the keys of decisions that were pending, until each is there."""
        for one in self.with_code("DECISION_PENDING"):
            number = int(one.name.rpartition("-")[2])
            while (await self.send(one.name, number)).status not in {200, 201}:  # noqa: ASYNC110
                await asyncio.sleep(0.5)


def meanwhile(one: Answered, others: list[Answered]) -> int:
    """Return how many of the others were answered while one waited for its answer."""
    return sum(one.at - one.took_s < other.at < one.at for other in others)


def quantile(seconds: list[float], share: float) -> float:
    """Return the value that this share stayed under or at."""
    ordered = sorted(seconds) or [float("nan")]
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@dataclass(slots=True)
class Findings:
    """What the rounds showed."""

    alone_s: list[float] = field(default_factory=list)
    beside_s: list[float] = field(default_factory=list)
    meanwhile: list[int] = field(default_factory=list)
    """How many decisions the busy tenant got during each of those; that hangs less on the machine."""
    failures: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    unhinted: int = 0
    """503 answers without `Retry-After`."""
    settled_s: float = 0.0

    @property
    def ratio(self) -> float:
        """The quiet tenant's 95th percentile beside the busy one, over that alone."""
        return quantile(self.beside_s, 0.95) / quantile(self.alone_s, 0.95)

    def broken(self) -> list[str]:
        """Return the limits that do not hold."""
        limits = {
            f"p95 grew to {self.ratio:.2f} of its own": not self.ratio <= MOST_RATIO,
            f"the quiet tenant failed: {dict(self.failures)}": bool(self.failures),
            "the busy tenant was never refused": not self.busy["OVERLOADED"],
            f"{self.unhinted} refusals without Retry-After": bool(self.unhinted),
            f"decided {self.settled_s:.0f} s after the end": self.settled_s > SETTLED_WITHIN_S,
        }
        return [said for said, is_broken in limits.items() if is_broken]


async def alone(quiet: Tenant, found: Findings, run: str) -> None:
    """Let the quiet tenant ask one request after the other."""
    for number in range(ALONE):
        one = await quiet.send(f"alone-{run}-{number}", number)
        found.alone_s.append(one.took_s)
        if one.status != 201:
            found.failures[one.code or str(one.status)] += 1


async def beside(busy: Tenant, quiet: Tenant, capacity: float, seconds: float, share: float) -> Findings:
    """Let both ask at their rates, then wait until everything accepted is decided."""
    noise = OpenLoad(busy.post, 10 * capacity, random.Random(1))
    voice = OpenLoad(quiet.post, share * capacity, random.Random(2))
    busy.answers, quiet.answers = [], []
    noisy, end = asyncio.create_task(noise.run(seconds)), time.monotonic() + seconds
    await voice.run(seconds)
    await noisy
    await busy.settle()
    found = Findings(settled_s=max(0.0, time.monotonic() - end))
    found.beside_s = [one.took_s for one in quiet.answers]
    decided = [one for one in busy.answers if one.status == 201]
    found.meanwhile = [meanwhile(one, decided) for one in quiet.answers]
    found.failures.update(one.code or str(one.status) for one in quiet.answers if one.status != 201)
    found.busy.update(one.code or str(one.status) for one in busy.answers)
    found.unhinted = sum(1 for one in busy.answers if one.status == 503 and one.retry_after is None)
    return found


async def compare(minutes: float, rounds: int, share: float, width: int) -> Findings:
    """Run the rounds and print what they show."""
    found, wire = Findings(), bodies(width=width)
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service:
            _, other_key, _ = await make_tenant(Path(folder), "Globex")
            busy = Tenant(service, service.live_key, wire, "busy")
            quiet = Tenant(service, other_key, wire, "quiet")
            await load(busy.post, 4, 2)
            measured = await load(lambda n: busy.post(100 + n), 24, 4)
            if set(measured.answers) != {201}:
                sys.exit(f"the requests are not decided: {dict(measured.answers)}")
            capacity = measured.per_second
            say(f"capacity {capacity:.2f}/s; the busy tenant offers {10 * capacity:.1f}/s")
            for number in range(rounds):
                await alone(quiet, found, str(number))
                busy.name, quiet.name = f"busy-{number}", f"quiet-{number}"
                one = await beside(busy, quiet, capacity, minutes * 60 / rounds, share)
                found.beside_s += one.beside_s
                found.meanwhile += one.meanwhile
                found.failures += one.failures
                found.busy += one.busy
                found.unhinted += one.unhinted
                found.settled_s = max(found.settled_s, one.settled_s)
                say(f"round {number + 1}: {describe(one)}, load {os.getloadavg()[0]:.1f}")
            await alone(quiet, found, "last")
    return found


def describe(found: Findings) -> str:
    """Return one line about both tenants."""
    times = ", ".join(f"{one:.1f}" for one in found.beside_s)
    return f"quiet [{times}] s, busy {dict(found.busy)}, decided {found.settled_s:.0f} s after the end"


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def report(found: Findings) -> int:
    """Print the comparison; return 1 when a limit is broken."""
    for name, times in (("alone", found.alone_s), ("beside", found.beside_s)):
        p50, p95 = quantile(times, 0.5), quantile(times, 0.95)
        say(f"quiet tenant {name}: {len(times)} requests, p50 {p50:.2f} s, p95 {p95:.2f} s")
    say(f"busy tenant's decisions during one of those: {dict(sorted(Counter(found.meanwhile).items()))}")
    refused = found.busy["OVERLOADED"] / max(1, sum(found.busy.values()))
    say(f"ratio of p95 {found.ratio:.2f}; failures {dict(found.failures)}; busy refused {refused:.0%}")
    say(f"everything decided within {found.settled_s:.0f} s after the busy tenant stopped")
    for said in found.broken():
        say(f"LIMIT BROKEN: {said}")
    return 1 if found.broken() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="of overload, all rounds together")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.05, help="of the capacity, for the quiet tenant")
    parser.add_argument("--width", type=int, default=WIDTH, help="pixels of a page from left to right")
    chosen = parser.parse_args()
    sys.exit(report(asyncio.run(compare(chosen.minutes, chosen.rounds, chosen.share, chosen.width))))
