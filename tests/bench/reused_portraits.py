"""Copies of a document's portrait offered as the selfie, and honest selfies, on the way a user's take.

Run it with `python -m tests.bench.reused_portraits`, with `--service` against a running service too; with
`--service-alone --minutes 6` as many pairs go over HTTP, in an order of chance, as there is time for.

First the measure alone: the parallax of every copy (two packaged portraits, every damage) and of other
photographs of the same two people (made by `tests.specimens.photographs`) against the portrait on a passport
as photographed in several ways; the threshold of the engine must lie between the two. Then the handler of
verifications with all real engines in this process: every copy as a live request and as an attempt of a live
session whose liveness is taken for passed, with a passport of a real issuer; and other photographs, of which
none may be called a copy. With `--service` the same over HTTP, which takes some two seconds of CPU a pair.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import structlog
from PIL import Image

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_engine import COPY_AT, load_core
from app.vision.faces.parallax import parallax
from app.vision.images import decode
from schemas.problems import Refused
from schemas.reasons import ReasonCode
from streams.verification.policy import FACE_FAIL_AT
from streams.vision_ports import Embedding, Face, Picture, Pixels
from tests.bench.reuse_stage import RealStage
from tests.journeys.people import sign_in
from tests.journeys.service import Service, encoded, running_service, veristream_json
from tests.journeys.test_sessions import ENDED, Page, open_page, publish_flow
from tests.specimens import degrade, photographs
from tests.specimens.photographs import DAMAGES, a_shot, another_photograph
from tests.vision import portraits

PAGES: Final = ("clean", "by a telephone", "much compressed", "700 px wide", "askew")
"""How the documents of the measure are photographed (`degrade.CHANGES`)."""
AT_ONCE: Final = 2
ATTEMPTS: Final = 3
PEOPLE: Final = {"Collins": portraits.astronaut, "Hopper": portraits.grace_hopper}


@dataclass(frozen=True, slots=True)
class Pair:
    """A document and a selfie that came with it."""

    person: str
    what: str
    document: bytes
    selfie: bytes
    copy: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """What the service made of a pair."""

    pair: Pair
    path: str
    status: str
    codes: tuple[str, ...]
    distance: float | None

    @property
    def noticed(self) -> bool:
        """Whether it was called a copy."""
        return ReasonCode.SELFIE_REUSED in self.codes


def passport(portrait: Image.Image, number: int) -> Image.Image:
    """Return a passport of an issuer that live mode accepts; each number gives another page."""
    holder = PassportSpecimen(issuer="NGA", nationality="NGA", number=f"A{number:08d}")
    return draw_passport(holder, portrait)


def framed(picture: Pixels, face: Face) -> Image.Image:
    """Return the picture as an office crops it: the face in the middle, some 40 % of the width."""
    left, top, right, bottom = face.box
    wide = min(2.4 * (right - left), picture.shape[1])
    middle, height = (left + right) / 2, (top + bottom) / 2
    box = (middle - wide / 2, height - 0.58 * wide, middle + wide / 2, height + 0.71 * wide)
    return Image.fromarray(picture).crop(tuple(map(round, box)))


def chip_of(core: FaceCore, picture: Picture) -> tuple[Pixels, Embedding] | None:
    """Return the aligned best face and its vector."""
    faces = core.find(picture)
    return (core.chip(picture, faces[0]), core.embed(picture, faces[0])) if faces else None


def cut_from(page: Image.Image) -> bytes:
    """Return the portrait cut from a page, enlarged."""
    cut = page.crop((60, 130, 400, 570))
    return to_jpeg(cut.resize((cut.width * 2, cut.height * 2)), 88)


OF_THE_PAGE: Final[Mapping[str, Callable[[Image.Image], bytes]]] = {
    "the page": lambda page: to_jpeg(page, 80),
    "the page by a telephone": lambda page: degrade.photographed(page, "by a telephone", random.Random(4)),
    "cut from the page": cut_from,
}
"""What else may be made of a document for a selfie."""


def measured(core: FaceCore, shots: int) -> None:
    """Print the parallax of copies and of other photographs, and what a threshold would make of them."""
    copies: list[tuple[float, str]] = []
    others: list[tuple[float, str]] = []
    far = 0
    for person, portrait in PEOPLE.items():
        picture = portrait().pixels
        face = core.find(portrait())[0]
        page = passport(framed(picture, face), 1)
        shown = {
            how: chip_of(core, decode(degrade.photographed(page, how, random.Random(3)))) for how in PAGES
        }
        chance = random.Random(f"{person} measured")
        offered = [
            *((name, True, photographs.to_jpeg(damage(picture))) for name, damage in DAMAGES.items()),
            *(
                (f"shot {n}", False, another_photograph(picture, face, a_shot(chance), chance))
                for n in range(shots)
            ),
        ]
        for name, is_copy, image in offered:
            own = chip_of(core, decode(image))
            for how, chip in shown.items():
                if own is None or chip is None or core.distance(own[1], chip[1]) > FACE_FAIL_AT:
                    far += 1  # no face, or another person's for the engine: rejected without a measure
                    continue
                (copies if is_copy else others).append(
                    (parallax(chip[0], own[0]), f"{person}, {how}, {name}")
                )
    for title, found in (("copies", copies), ("other photographs", others)):
        values = np.array([value for value, _ in found])
        shares = ", ".join(
            f"{share} % {np.percentile(values, share):.2f}" for share in (0, 1, 5, 50, 95, 99, 100)
        )
        print_line(f"parallax of {len(found)} pairs with {title}: {shares}")
    print_line(f"{far} pairs were not compared: no face, or a distance above {FACE_FAIL_AT}")
    noticed = np.mean([value <= COPY_AT for value, _ in copies])
    called = sum(value <= COPY_AT for value, _ in others)
    print_line(
        f"threshold {COPY_AT}: {noticed:.1%} of copies noticed, {called} other photographs called copies"
    )
    print_line(f"  between {max(v for v, _ in copies if v <= COPY_AT):.2f}, the widest copy below it, and")
    print_line(f"  {min(others)[0]:.2f}, the nearest other photograph ({min(others)[1]})")
    for value, name in sorted(copies, reverse=True)[: int((1 - noticed) * len(copies) + 0.5)]:
        print_line(f"  missed at {value:.2f}: {name}")


def pairs(core: FaceCore, shots: int) -> Iterator[Pair]:
    """Yield what is offered to the service; every document has a number of its own."""
    number = 0
    for person, portrait in PEOPLE.items():
        picture = portrait().pixels
        face = core.find(portrait())[0]
        chance = random.Random(f"{person} served")
        frame = framed(picture, face)
        for what in (*DAMAGES, *OF_THE_PAGE):
            number += 1
            page = passport(frame, number)
            made = (
                OF_THE_PAGE[what](page)
                if what in OF_THE_PAGE
                else photographs.to_jpeg(DAMAGES[what](picture))
            )
            yield Pair(person, what, to_jpeg(page), made, copy=True)
        for shot in range(shots):
            number += 1
            taken = another_photograph(picture, face, a_shot(chance), chance)
            yield Pair(person, f"shot {shot}", to_jpeg(passport(frame, number)), taken, copy=False)


async def requested(service: Service, pair: Pair, subject: str) -> Answered:
    """Offer a pair with a live key."""
    document = {"image_base64": encoded(pair.document)}
    body = {"subject_id": subject, "document": document, "selfie_image_base64": encoded(pair.selfie)}
    status, answer = 503, dict[str, Any]()
    while status == 503:  # a machine with other work: the same key finds the answer later
        status, answer, _ = await service.post(body, key=service.live_key, idempotency=subject)
    return answered(
        pair, "request", answer if status == 201 else {"status": f"{status} {answer.get('code')}"}
    )


async def in_session(service: Service, flow_id: str, pair: Pair, subject: str) -> Answered:
    """Offer a pair in a live session, again while it asks for better images."""
    page = await open_page(service, flow_id, subject, service.live_key)
    await page.consent()
    view: Any = {}
    for attempt in range(1, ATTEMPTS + 1):
        await page.ask("PUT", "/document", image=pair.document)
        await page.ask("PUT", "/selfie", image=pair.selfie)
        await page.ask("POST", "/submit", {})
        view = await settled(page, attempt)
        if view["status"] in ENDED:
            break
    path = f"/v1/verification-sessions/{page.opened['session_id']}"
    _, row = await service.get(path, key=service.live_key)
    if row.get("verification_id") is None:
        return answered(pair, "session", {"status": view["status"]})
    _, verification = await service.get(f"/v1/verifications/{row['verification_id']}", key=service.live_key)
    return answered(pair, "session", verification)


async def settled(page: Page, attempt: int) -> Any:
    """Return how the session stands once the attempt was decided."""
    async with asyncio.timeout(120):
        while True:
            _, view = await page.ask("GET")
            again = view["status"] == "STARTED" and view["attempts_left"] <= ATTEMPTS - attempt
            if view["status"] in ENDED or again:
                return view
            await asyncio.sleep(0.2)


def answered(pair: Pair, path: str, body: Mapping[str, Any]) -> Answered:
    """Read an answer."""
    codes = tuple(reason["code"] for reason in body.get("reasons", ()))
    return Answered(pair, path, body["status"], codes, body.get("distance"))


async def handle(core: FaceCore, shots: int) -> Sequence[Answered]:
    """Offer every pair to the handler, on both paths; each person has one passport and is one subject."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    stage, results, first = RealStage(), list[Answered](), dict[str, bytes]()
    for pair in pairs(core, shots):
        document = first.setdefault(pair.person, pair.document)
        for path in ("request", "session"):
            try:
                stored = await stage.verified(
                    document, pair.selfie, pair.person, in_session=path == "session"
                )
                found = answered(pair, path, stored.verification.model_dump(mode="json"))
            except Refused as refused:
                found = answered(pair, path, {"status": f"refused {refused.refusal.code}"})
            results.append(found)
            if found.noticed != pair.copy:
                print_line(f"  {line_of(found)}")
    return results


async def serve(core: FaceCore, shots: int, minutes: float) -> Sequence[Answered]:
    """Offer every pair to a service of its own, on both paths, in an order of chance until the time is up."""
    offered = await asyncio.to_thread(lambda: list(pairs(core, shots)))
    random.Random("served").shuffle(offered)
    late = 0
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service:

            async def command(*words: str) -> Any:
                return await veristream_json(service.data_dir, *words)

            admin = await sign_in(service.client, service.url, command, service.tenant_id, "ADMIN")
            flow_id = await publish_flow(admin, "FULL_IDENTITY")
            room, results = asyncio.Semaphore(AT_ONCE), list[Answered]()
            until = time.monotonic() + 60 * minutes

            async def offer(number: int, pair: Pair) -> None:
                nonlocal late
                async with room:
                    if time.monotonic() > until:
                        late += 1
                        return
                    subject = f"reuse-{number}"
                    for found in (
                        await requested(service, pair, subject),
                        await in_session(service, flow_id, pair, subject),
                    ):
                        results.append(found)
                        if found.noticed != pair.copy:
                            print_line(f"  {line_of(found)}")

            await asyncio.gather(*(offer(*one) for one in enumerate(offered)))
    print_line(f"{len(offered) - late} of {len(offered)} pairs were offered in the time")
    return results


def line_of(found: Answered) -> str:
    """Word one answer."""
    pair = found.pair
    distance = "none" if found.distance is None else f"{found.distance:.2f}"
    codes = " ".join(found.codes)
    return f"{pair.person}, {pair.what}, {found.path}: {found.status} {codes} (distance {distance})"


def report(results: Sequence[Answered]) -> bool:
    """Print what is asked of the product; False when it is not met."""
    copies = [one for one in results if one.pair.copy]
    others = [one for one in results if not one.pair.copy]
    approved = sum(one.status == "APPROVED" for one in copies)
    noticed = sum(one.noticed for one in copies)
    called = sum(one.noticed for one in others)
    for path in ("request", "session"):
        here = [one for one in copies if one.path == path]
        print_line(f"{path}: {len(here)} copies, {sum(one.noticed for one in here)} noticed")
    honest = sum(one.status == "APPROVED" for one in others if one.path == "request")
    asked = sum(one.path == "request" for one in others)
    print_line(f"false approvals {approved} of {len(copies)} (asked 0)")
    print_line(f"copies noticed {noticed / max(1, len(copies)):.1%} (asked 95 %)")
    print_line(f"other photographs called copies {called} of {len(others)} (asked 0)")
    print_line(f"other photographs approved on request {honest} of {asked}")
    return approved == 0 and called == 0 and noticed >= 0.95 * len(copies)


def print_line(line: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shots", type=int, default=20, help="other photographs of each person")
    parser.add_argument("--service", action="store_true", help="offer every pair over HTTP too")
    parser.add_argument("--service-alone", action="store_true", help="offer every pair over HTTP, no more")
    parser.add_argument("--minutes", type=float, default=60, help="how long pairs are offered over HTTP")
    chosen = parser.parse_args()
    core, met = load_core(), True
    if not chosen.service_alone:
        measured(core, chosen.shots)
        print_line("the handler:")
        met = report(asyncio.run(handle(core, chosen.shots)))
    if chosen.service or chosen.service_alone:
        print_line("the service:")
        met = report(asyncio.run(serve(core, chosen.shots, chosen.minutes))) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
