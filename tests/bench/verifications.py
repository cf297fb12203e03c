"""Real verifications against the bare engines, in turns on the same cores.

Run it with `python -m tests.bench.verifications`.

Bare: as many vision children as the service has, with the same engines, which read the page and compare the
faces one step after the other and nothing else. Checks: all that a verification asks of them, sharpness,
print, parallax and portrait too, without HTTP, broker, store and audit: what the pipeline runs. Service: the
same images posted over HTTP, stored, evaluated, committed, audited, published. What is compared is finished
verifications per second while four are under way, and how long half of them take one at a time, as ratios;
memory is the service's own, at its end.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from app.vision.engines import EngineChoice, open_engines
from schemas.enums import CheckVerdict
from schemas.verifications import DeclaredDocument
from streams.verification.checks import RequiredChecks
from streams.verification.engines import Engines, both
from streams.verification.policy import VerificationPolicy
from tests.bench.load import Measured, load
from tests.bench.raw_client import RawClient
from tests.journeys.service import Person, Service, encoded, hopper, running_service

WORKERS = 2
AT_ONCE = 4
ALONE = 6
"""Verifications of a round that are done one at a time."""
MIB = 1 << 20
POLICY = VerificationPolicy()


def documents(person: Person, count: int) -> list[bytes]:
    """Passports of one person with different numbers, so that no two requests are the same."""
    return [
        to_jpeg(draw_passport(PassportSpecimen(number=f"L{n:08d}"), person.portrait)) for n in range(count)
    ]


async def bare(engines: Engines, pages: list[bytes], selfie: bytes, at_once: int = AT_ONCE) -> Measured:
    """What the engines alone do for a verification: read the page, find both faces, compare them."""
    today = datetime.now(UTC).date()

    async def one(number: int) -> int:
        page, face = await engines.decoder.decode(pages[number]), await engines.decoder.decode(selfie)
        await engines.read_document(engines.text, page, today)
        shown, own = (await engines.faces.find(page))[0], (await engines.faces.find(face))[0]
        engines.faces.distance(await engines.faces.embed(page, shown), await engines.faces.embed(face, own))
        return 201

    return await load(one, len(pages), at_once)


async def checked(engines: Engines, pages: list[bytes], selfie: bytes, at_once: int = AT_ONCE) -> Measured:
    """What the checks alone do for a verification: all its work on images, in the order of the service."""
    checks, today = RequiredChecks(engines, POLICY), datetime.now(UTC).date()

    async def one(number: int) -> int:
        page, face = await both(engines.decoder.decode(pages[number]), engines.decoder.decode(selfie))
        found = await checks(page, face, DeclaredDocument(), today)
        return 201 if all(result.verdict is CheckVerdict.PASSED for result in found.results) else 500

    return await load(one, len(pages), at_once)


Post = Callable[[bytes], Awaitable[int]]
"""Post the body of a verification; the status of its answer."""


async def served(post: Post, pages: list[bytes], selfie: str, at_once: int = AT_ONCE) -> Measured:
    """The same through the service; the bodies are made before."""
    run = time.monotonic_ns()

    def body(number: int, page: bytes) -> bytes:
        document = {"image_base64": encoded(page)}
        subject = f"bench-{run}-{number}"
        given = {"subject_id": subject, "document": document, "selfie_image_base64": selfie}
        return json.dumps(given).encode()

    bodies = [body(number, page) for number, page in enumerate(pages)]
    measured = await load(lambda number: post(bodies[number]), len(pages), at_once)
    if set(measured.answers) != {201}:
        raise RuntimeError(dict(measured.answers))
    return measured


def memory_mib(service: Service) -> float:
    """Resident memory of the service and its children."""
    parent: Any = psutil.Process  # untyped
    parent = parent(service.role.process.pid)
    return float(sum(one.memory_info().rss for one in (parent, *parent.children(recursive=True))) / MIB)


async def compare(count: int, rounds: int) -> None:
    """Run both in turns and print every round, the median ratio, and the service's memory."""
    person = hopper()
    selfie = to_jpeg(person.selfie)
    pages = documents(person, count)
    ratios, shares, waits = [], [], []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = await stack.enter_async_context(open_engines(EngineChoice(workers=WORKERS, waiting=64)))
        service = await stack.enter_async_context(running_service(folder))
        post = RawClient(f"{service.url}/v1/verifications", service.test_key).post
        await served(post, pages[:4], encoded(selfie))
        for number in range(1, rounds + 1):
            alone = await bare(engines, pages, selfie)
            checks = await checked(engines, pages, selfie)
            whole = await served(post, pages, encoded(selfie))
            ratios.append(whole.steady_per_second / alone.steady_per_second)
            shares.append(whole.steady_per_second / checks.steady_per_second)
            bare_one = await bare(engines, pages[:ALONE], selfie, at_once=1)
            one = await served(post, pages[:ALONE], encoded(selfie), at_once=1)
            waits.append(one.quantile(0.5) / bare_one.quantile(0.5))
            sys.stdout.write(
                f"{alone.steady_line(f'round {number} bare engines')}\n{checks.steady_line('  checks')}\n"
                f"{whole.steady_line('  service')}\n"
                f"{bare_one.line('  one at a time, bare')}\n{one.line('  one at a time, service')}\n"
            )
            sys.stdout.write(
                f"  service memory {memory_mib(service):.0f} MiB "
                f"after {number * (count + ALONE) + 4} verifications\n"
            )
    sys.stdout.write(
        f"the service reaches {statistics.median(ratios):.1%} of its bare engines, "
        f"{statistics.median(shares):.1%} of its checks without the pipeline; "
        f"one at a time a verification takes {statistics.median(waits):.0%} of their time\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=24, help="verifications per round")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    asyncio.run(compare(chosen.count, chosen.rounds))
