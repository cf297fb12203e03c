"""How right documents are read: rendered pages, damaged as cameras damage them, and what became of each.

Run it with `python -m tests.bench.documents SET --count N`, whole or in parts (`--part 2/5`) that add up in
one file (`--record FILE`), where a run goes on after the last. The same seed draws the same document,
whatever part it belongs to.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from PIL import Image

from app.demo.specimens import draw_card_slip, draw_long_slip, draw_passport
from app.vision.engines import EngineChoice, open_engines
from app.vision.images import decode
from app.vision.measures import measure_sharpness
from app.vision.ocr import RapidTextReader
from schemas.enums import CheckKind, ExtractionStatus, VerificationStatus
from schemas.verifications import DeclaredDocument
from streams.verification.checks import RequiredChecks
from streams.verification.document_reader import DocumentReading, findings_of, read_document
from streams.verification.engines import Engines
from streams.verification.observations import ENOUGH, Agreement, DocumentPicture, FacesSeen
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import decide
from streams.verification.verdicts import judge_authenticity, judge_consistency, judge_extraction
from tests.bench.altered_documents import altered
from tests.journeys.service import another_photograph_of_hopper, hopper
from tests.specimens.degrade import CAMERA, OUTDOORS, photographed
from tests.specimens.issuers import FIELDS, MANNERS, forged, issued_page
from tests.specimens.layouts import draw
from tests.specimens.people import TODAY, code, passport, portrait, slip

PAPER_ONLY: Final = VerificationPolicy(
    required_checks=(CheckKind.AUTHENTICITY, CheckKind.DOCUMENT_EXTRACTION, CheckKind.DOCUMENT_CONSISTENCY)
)
"""What a document can pass without its holder: whatever passes the usual checks passes these."""


class Outcome(StrEnum):
    """What became of a document."""

    RIGHT = "right"
    """EXTRACTED with every field right, or decided as it should be."""
    INCOMPLETE = "incomplete"
    """Not EXTRACTED, or left to a person."""
    WRONG = "wrong"
    """EXTRACTED with a wrong field, or APPROVED although altered."""


@dataclass(frozen=True, slots=True)
class Result:
    """One document."""

    set: str
    index: int
    how: str
    outcome: Outcome
    note: str = ""
    """What was wrong or missing; every holder is invented."""


Case = Callable[[int], Awaitable[Result]]
"""Draws, damages and reads the document of an index."""


def td3_pages(reader: RapidTextReader) -> Case:
    """Passports with every damage in turn."""

    async def read(index: int) -> Result:
        how = tuple(CAMERA)[index % len(CAMERA)]
        chance = random.Random(f"td3 {index}")
        holder = passport(chance)
        page = photographed(draw_passport(holder, portrait()), how, chance)
        reading = await read_document(reader, decode(page), TODAY)
        true = {
            "surname": holder.surname,
            "given_names": holder.given_names,
            "nationality": holder.nationality,
            "issuing_state": holder.issuer,
            "date_of_birth": holder.date_of_birth.isoformat(),
            "sex": holder.sex,
            "expiry_date": holder.expires.isoformat(),
        }
        return judged("td3", index, how, reading, true, holder.number)

    return read


def nin_slips(reader: RapidTextReader) -> Case:
    """Slips of both layouts with every damage in turn."""

    async def read(index: int) -> Result:
        how = tuple(CAMERA)[index // 2 % len(CAMERA)]
        chance = random.Random(f"slip {index}")
        holder = slip(chance)
        card = draw_card_slip(holder, portrait(), code(f"NIN: {holder.number}"))
        page = photographed(draw_long_slip(holder, portrait()) if index % 2 else card, how, chance)
        reading = await read_document(reader, decode(page), TODAY)
        true = {
            "surname": holder.surname,
            "first_name": holder.first_name,
            "middle_name": holder.middle_name,
            "gender": holder.gender,
        }
        return judged(
            "slips", index, f"{'long' if index % 2 else 'card'}, {how}", reading, true, holder.number
        )

    return read


def issued_pages(reader: RapidTextReader) -> Case:
    """Passports in the manner of every issuer, in every way that people photograph them."""

    async def read(index: int) -> Result:
        how = issued_way(index)
        chance = random.Random(f"issuers {index}")
        manner, layout = issued_page(index, chance)
        page = photographed(draw(layout, portrait()), how, chance)
        reading = await read_document(reader, decode(page), TODAY)
        return judged("issuers", index, f"{manner}, {how}", reading, dict(layout.true), layout.number)

    return read


def issued_way(index: int) -> str:
    """Return how the page of an index is photographed: another way for each page of a manner."""
    return tuple(OUTDOORS)[(index + index // len(MANNERS)) % len(OUTDOORS)]


def forged_pages(reader: RapidTextReader) -> Case:
    """Passports in the manner of every issuer whose print says something else than the zone in one field."""

    async def read(index: int) -> Result:
        what = altered_field(index)
        manner, page = forged(index, what, random.Random(f"forged {index}"))
        decided = await decided_on_paper(reader, draw(page, portrait()))
        outcome = Outcome.WRONG if decided is VerificationStatus.APPROVED else Outcome.RIGHT
        return Result("forged", index, f"{what}, {manner}", outcome, str(decided))

    return read


def altered_field(index: int) -> str:
    """Return the field that the page of an index prints otherwise: six pages of a manner alter all six."""
    return FIELDS[(index % len(MANNERS) + index // len(MANNERS)) % len(FIELDS)]


def judged(
    name: str, index: int, how: str, reading: DocumentReading, true: dict[str, str], number: str
) -> Result:
    """Compare a reading with what was drawn."""
    read = {field: reading.fields.get(field) for field in true} | {"number": reading.number}
    true = true | {"number": number}
    wrong = ", ".join(
        f"{field} {read[field]} for {true[field]}" for field in true if read[field] != true[field]
    )
    if reading.status is not ExtractionStatus.EXTRACTED:
        return Result(name, index, how, Outcome.INCOMPLETE, f"{_doubted(reading)}; {wrong}")
    contradicted = [field for field, said in reading.printed.items() if said is Agreement.MISMATCH]
    if contradicted and not wrong:
        return Result(name, index, how, Outcome.INCOMPLETE, f"printed otherwise: {', '.join(contradicted)}")
    return Result(name, index, how, Outcome.WRONG if wrong else Outcome.RIGHT, wrong)


def _doubted(reading: DocumentReading) -> str:
    doubted = [f"{field} {weight}" for field, weight in reading.confidence.items() if weight < ENOUGH]
    return f"{reading.status}: " + ", ".join(doubted)


def altered_documents(reader: RapidTextReader) -> Case:
    """Documents that contradict themselves in one field."""

    async def read(index: int) -> Result:
        chance = random.Random(f"altered {index}")
        what, page = altered(index, chance)
        decided = await decided_on_paper(reader, page)
        if decided is VerificationStatus.APPROVED:
            return Result("altered", index, what, Outcome.WRONG, "approved")
        return Result("altered", index, what, Outcome.RIGHT)

    return read


async def decided_on_paper(
    reader: RapidTextReader, page: Image.Image, how: str = "clean"
) -> VerificationStatus:
    """Decide a photograph of a page on the document's own checks only."""
    shown = decode(photographed(page, how, random.Random(1)))
    findings = findings_of(await read_document(reader, shown, TODAY))
    picture = DocumentPicture(measure_sharpness(shown), None, min(shown.width, shown.height))
    results = (
        judge_extraction(PAPER_ONLY, findings, picture),
        judge_authenticity(PAPER_ONLY, findings, FacesSeen(1, several_alike=False)),
        judge_consistency(PAPER_ONLY, findings, DeclaredDocument(), TODAY),
    )
    return decide(PAPER_ONLY, results).status


def genuine_people(engines: Engines) -> Case:
    """A person with another photograph of herself and a clean passport, decided by the default policy."""
    policy = VerificationPolicy()
    check = RequiredChecks(engines, policy)

    async def read(index: int) -> Result:
        chance = random.Random(f"genuine {index}")
        page = photographed(draw_passport(passport(chance), hopper().portrait), "clean", chance)
        document, selfie = decode(page), decode(another_photograph_of_hopper(index))
        judgement = decide(policy, (await check(document, selfie, DeclaredDocument(), TODAY)).results)
        approved = judgement.status is VerificationStatus.APPROVED
        outcome = Outcome.RIGHT if approved else Outcome.INCOMPLETE
        return Result("genuine", index, "clean", outcome, " ".join(judgement.reasons))

    return read


READ: Final = {
    "td3": td3_pages,
    "slips": nin_slips,
    "altered": altered_documents,
    "issuers": issued_pages,
    "forged": forged_pages,
}
"""The sets of which only the paper is read."""


async def run(name: str, indices: Iterable[int], record: Path | None) -> list[Result]:
    """Read the documents of a set; each is recorded and, when it is not right, written out at once."""
    results = []
    async with AsyncExitStack() as stack:
        if name == "genuine":
            engines = await stack.enter_async_context(open_engines(EngineChoice(workers=1, waiting=8)))
            case = genuine_people(engines)
        else:
            reader = RapidTextReader()
            case = READ[name](reader)
        for index in indices:
            result = await case(index)
            results.append(result)
            if record:
                with record.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
            if result.outcome is not Outcome.RIGHT:
                sys.stdout.write(f"{result.index} {result.how}: {result.outcome}: {result.note}\n")
                sys.stdout.flush()
    return results


def add_up(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """Return the outcomes of each set; a document read twice counts as it was read last."""
    last = {(result.set, result.index): result for result in results}
    counts: dict[str, Counter[str]] = {}
    for result in last.values():
        counts.setdefault(result.set, Counter())[result.outcome] += 1
    return counts


def recorded(file: Path | None) -> list[Result]:
    """Return what earlier runs found."""
    rows = map(json.loads, file.read_text().splitlines()) if file and file.exists() else ()
    return [Result(**row | {"outcome": Outcome(row["outcome"])}) for row in rows]


def main() -> None:
    """Run the chosen part of a set and tell what became of its documents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=[*READ, "genuine"])
    parser.add_argument("--count", type=int, default=60, help="documents of the whole set")
    parser.add_argument("--part", default="1/1", help="k/n: every n-th document, from the k-th on")
    parser.add_argument("--record", type=Path, help="file in which parts add up")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    done = {(result.set, result.index) for result in recorded(chosen.record)}
    wanted = [index for index in range(part - 1, chosen.count, parts) if (chosen.set, index) not in done]
    results = asyncio.run(run(chosen.set, wanted, chosen.record))
    for name, counts in add_up([*recorded(chosen.record), *results]).items():
        share = counts[Outcome.RIGHT] / counts.total()
        text = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        sys.stdout.write(f"{name}: {text} of {counts.total()}, {share:.1%} right\n")


if __name__ == "__main__":
    main()
