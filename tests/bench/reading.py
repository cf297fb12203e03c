"""What a full verification costs in processor time against the bare engines on the same pictures.

Run it with `python -m tests.bench.reading`. Everything runs in this process, in turns: the product decodes
both pictures and runs every usual check, as its vision children do; bare rapidocr, with one thread, reads the
page whole, and the face engine turns both pictures into vectors. Pages are `WIDTH` pixels wide.
With `--rate` the service is loaded as well, and its verifications per second are compared with the pages per
second of as many bare page readers as there are cores.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from PIL import Image
from rapidocr import RapidOCR

from app.demo.specimens import draw_passport, to_jpeg
from app.vision import images
from app.vision.faces.engine import build_face_engine
from app.vision.ocr import RapidTextReader
from schemas.enums import CheckVerdict
from schemas.tenant_settings import USUAL_CHECKS
from schemas.verifications import DeclaredDocument
from streams.verification.checks import RequiredChecks
from streams.verification.document_reader import read_findings
from streams.verification.engines import Engines
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from tests.bench.load import load
from tests.bench.reuse_stage import RealDecoder
from tests.journeys.service import Service, encoded, hopper, running_service
from tests.specimens.people import passport

WIDTH: Final = 1600
CPUS: Final = 2
AT_ONCE: Final = 4
POSTED: Final = 6
"""Times each page is posted in a round: 60 verifications of 10 pages take 27 s, the bare readers 20 s."""
ONE_THREAD: Final = {
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    "Global.log_level": "error",
}
"""What is fair: the product's engines have one thread too."""

Answer = TypeVar("Answer")


def pages(count: int) -> list[bytes]:
    """Passports of one face, `WIDTH` pixels wide; the same for the same count."""
    return [to_jpeg(_page(seed), 88) for seed in range(count)]


def _page(seed: int) -> Image.Image:
    drawn = draw_passport(passport(random.Random(seed)), hopper().portrait)
    return drawn.resize((WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS)


class Clock:
    """Adds up processor seconds by what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(list)

    async def of(self, name: str, work: Callable[[bytes], Awaitable[Answer]], page: bytes) -> Answer:
        """Do something and remember what it took."""
        began = time.process_time()
        try:
            return await work(page)
        finally:
            self.spent[name].append(time.process_time() - began)

    def p50_ms(self, name: str) -> float:
        """The median, milliseconds."""
        return statistics.median(self.spent[name]) * 1e3


async def compare(count: int) -> None:
    """Measure in turns and print the medians and their ratio."""
    decoder, faces, text = RealDecoder(), build_face_engine(), RapidTextReader()
    text.warm()
    faces.warm()
    engines = Engines(decoder=decoder, text=text, read_document=read_findings, faces=faces)
    policy = VerificationPolicy().model_copy(update={"required_checks": tuple(USUAL_CHECKS)})
    checks, today = RequiredChecks(engines, policy), datetime.now(UTC).date()
    bare, clock, selfie = RapidOCR(params=ONE_THREAD), Clock(), to_jpeg(hopper().selfie)

    async def verified(page: bytes) -> Evaluation:
        shown, own = await decoder.decode(page), await decoder.decode(selfie)
        return await checks(shown, own, DeclaredDocument(), today)

    async def read(page: bytes) -> object:
        return bare(page)

    async def faced(page: bytes) -> None:
        for image in (page, selfie):
            picture = images.decode(image)
            await faces.embed(picture, (await faces.find(picture))[0])

    wrong = 0
    await read(pages(1)[0])
    for page in pages(count):
        found = await clock.of("verification", verified, page)
        await clock.of("bare page", read, page)
        await clock.of("bare faces", faced, page)
        wrong += any(result.verdict is not CheckVerdict.PASSED for result in found.results)
    whole, one, two = (clock.p50_ms(name) for name in ("verification", "bare page", "bare faces"))
    sys.stdout.write(
        f"verification {whole:.0f} ms of CPU, bare page {one:.0f} ms, two bare face vectors {two:.0f} ms "
        f"(p50 of {count}): ratio {whole / (one + two):.2f}; {wrong} did not pass all checks\n"
    )


def bare_reader(seconds: float, count: int) -> None:
    """Read pages for some time and print how many a second."""
    bare, made = RapidOCR(params=ONE_THREAD), pages(count)
    bare(made[0])
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        bare(made[done % count])
        done += 1
    sys.stdout.write(f"{done / (time.monotonic() - began)}\n")


def bare_per_second(seconds: float, count: int) -> float:
    """Pages a second of one bare page reader for each CPU, at the same time."""
    command = [sys.executable, "-m", "tests.bench.reading", "--bare", str(seconds), "--count", str(count)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CPUS)]  # noqa: S603
    return sum(float(one.communicate()[0]) for one in running)


async def served(service: Service, made: Sequence[bytes], selfie: str) -> float:
    """Return how many verifications end a second while `AT_ONCE` are under way, by a line through their ends.

    Left out is what is not that: the time in which the last ones end, while a core has nothing to do, and as
    many verifications at the start. The bare readers have no such end either. They end several at a time, so
    the time between two of them would depend on where in such a group they stand.
    """
    run = time.monotonic_ns()
    ended: list[float] = []

    async def one(number: int) -> int:
        document = {"image_base64": encoded(made[number])}
        body = {"subject_id": f"bench-{run}-{number}", "document": document, "selfie_image_base64": selfie}
        status = (await service.post(body))[0]
        ended.append(time.monotonic())
        return status

    measured = await load(one, len(made), AT_ONCE)
    assert set(measured.answers) == {201}, measured.answers
    if len(made) <= 2 * AT_ONCE:
        return measured.per_second
    counted = ended[AT_ONCE - 1 : 1 - AT_ONCE]
    return statistics.linear_regression(counted, range(len(counted))).slope


async def rates(count: int, rounds: int) -> None:
    """Load both in turns and print the rates and their median ratio."""
    made, selfie, ratios = pages(count), encoded(to_jpeg(hopper().selfie)), []
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service:
            await served(service, made[:4], selfie)
            for number in range(1, rounds + 1):
                alone = await asyncio.to_thread(bare_per_second, 20.0, count)
                whole = await served(service, made * POSTED, selfie)
                ratios.append(whole / alone)
                said = f"{whole:.2f} verifications/s, {alone:.2f} bare pages/s, {whole / alone:.2f}"
                sys.stdout.write(f"round {number}: {said}\n")
    sys.stdout.write(f"{statistics.median(ratios):.2f} verifications for each bare page\n")


def main() -> None:
    """Run what was asked for."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=12, help="pages")
    parser.add_argument("--rate", action="store_true", help="load the service as well")
    parser.add_argument("--rounds", type=int, default=3, help="of load")
    parser.add_argument("--bare", type=float, help=argparse.SUPPRESS)
    chosen: Any = parser.parse_args()
    if chosen.bare:
        bare_reader(chosen.bare, chosen.count)
        return
    asyncio.run(compare(chosen.count))
    if chosen.rate:
        asyncio.run(rates(chosen.count, chosen.rounds))


if __name__ == "__main__":
    main()
