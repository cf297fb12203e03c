"""What a reviewer is notified of a real reading: where each field stands, and what is printed there (P17)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest
import pytest_asyncio
from PIL import Image, ImageChops

from app.demo.specimens import Alterations, PassportSpecimen, draw_passport
from tests.journeys.people import Person, sign_in
from tests.journeys.service import Service, encoded, hopper, request_for, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SPECIMEN: Final = PassportSpecimen()
PRINTED: Final = {"surname": "JOHANSSON", "expires": "15 APR 2039"}
"""What the page says otherwise than the zone."""
SURNAME_LETTERS: Final = slice(5, 13)
EXPIRY_LETTERS: Final = slice(21, 27)
"""Where both stand in their line of the zone (ICAO Doc 9303 part 4 section 4.2.2)."""
MARGIN_PX: Final = 14
"""Less than a letter of the zone: text is found with a little paper around it."""
TURNS: Final = {
    "upright": None,
    "on its left side": Image.Transpose.ROTATE_90,
    "upside down": Image.Transpose.ROTATE_180,
}

Box = tuple[float, float, float, float]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reviewer(service: Service) -> Person:
    """A reviewer, who may see evidence."""
    return await member(service, "REVIEWER")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def auditor(service: Service) -> Person:
    """An auditor, who may see cases and no evidence."""
    return await member(service, "AUDITOR")


async def member(service: Service, role: str) -> Person:
    """Sign a member of a role in."""
    command = partial(veristream_json, service.data_dir)
    return await sign_in(service.client, service.url, command, service.tenant_id, role)


def altered_page(turn: Image.Transpose | None, **more: Any) -> Image.Image:
    """Return the page whose print contradicts its zone, as it lies on the picture."""
    alterations = Alterations(**{"printed": PRINTED, **more})
    page = draw_passport(SPECIMEN, hopper().portrait, alterations)
    return page if turn is None else page.transpose(turn)


def drawn(turn: Image.Transpose | None, **without: Any) -> Box:
    """Return the box in pixels of what is on the page and is not with these alterations."""
    box = ImageChops.difference(altered_page(turn), altered_page(turn, **without)).getbbox()
    assert box is not None
    return box


def without_letters(row: int, letters: slice) -> tuple[str, str]:
    """Return the lines of the zone with blanks in place of letters of one."""
    lines = list(SPECIMEN.lines())
    blank = " " * (letters.stop - letters.start)
    lines[row] = lines[row][: letters.start] + blank + lines[row][letters.stop :]
    return lines[0], lines[1]


def boxes_of(field: dict[str, Any], size: tuple[int, int]) -> Iterator[tuple[str, Box]]:
    """Yield which part of the document each place of a field is in, and its box in pixels."""
    for quad in field["quads"]:
        assert all(0 <= share <= 1 for corner in quad["corners"] for share in corner)
        across = [x * size[0] for x, _ in quad["corners"]]
        down = [y * size[1] for _, y in quad["corners"]]
        yield quad["source"], (min(across), min(down), max(across), max(down))


def assert_near(found: Box, expected: Box) -> None:
    """Check that the edges of a box are those that were drawn, but for a margin."""
    assert found == pytest.approx(expected, abs=MARGIN_PX)


@dataclass(frozen=True, slots=True)
class Verified:
    """A verification by the page whose print contradicts its zone, and how the page lay."""

    turn: Image.Transpose | None
    verification: dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=TURNS.values(), ids=TURNS.keys())
async def verified(service: Service, request: pytest.FixtureRequest) -> Verified:
    """Verify somebody once by each of the pages; everyone looks at the same verification."""
    body = request_for(hopper(), subject_id="explained-1")
    body["document"]["image_base64"] = encoded(altered_page(request.param))
    status, verification, _ = await service.post(body)
    assert status == 201, verification
    return Verified(request.param, verification)


async def explained(person: Person, verification: dict[str, Any]) -> dict[str, Any]:
    """Return the explanation as a person is given it."""
    path = f"/v1/verifications/{verification['verification_id']}/explanation"
    status, explanation = await person.ask("GET", path)
    assert status == 200, explanation
    return dict(explanation)


def fields_of(explanation: dict[str, Any]) -> dict[str, Any]:
    """Return the fields by their keys."""
    return {field["key"]: field for field in explanation["fields"]}


async def test_a_reviewer_is_shown_where_print_and_zone_contradict_each_other(
    verified: Verified, reviewer: Person
) -> None:
    turn, verification = verified.turn, verified.verification

    fields = fields_of(await explained(reviewer, verification))

    size = altered_page(turn).size
    places = {key: dict(boxes_of(field, size)) for key, field in fields.items() if "quads" in field}
    surname, expiry = fields["surname"], fields["expiry_date"]
    assert "MRZ_VISUAL_MISMATCH" in {reason["code"] for reason in verification["reasons"]}
    assert (surname["zone"], surname["page"], surname["state"]) == ("ERIKSSON", "JOHANSSON", "DIFFERS")
    assert (expiry["zone"], expiry["state"]) == ("2032-04-15", "DIFFERS")
    assert expiry["page"].replace(" ", "") == "15APR2039"
    assert_near(places["surname"]["PAGE"], drawn(turn, printed={**PRINTED, "surname": ""}))
    assert_near(places["expiry_date"]["PAGE"], drawn(turn, printed={**PRINTED, "expires": ""}))
    assert_near(places["surname"]["ZONE"], drawn(turn, lines=without_letters(0, SURNAME_LETTERS)))
    assert_near(places["expiry_date"]["ZONE"], drawn(turn, lines=without_letters(1, EXPIRY_LETTERS)))


async def test_without_the_right_to_see_evidence_nothing_of_the_page_is_shown(
    service: Service, verified: Verified, auditor: Person
) -> None:
    path = f"/v1/verifications/{verified.verification['verification_id']}/explanation"

    explanation = await explained(auditor, verified.verification)
    status, refusal = await service.get(path)

    fields = fields_of(explanation)
    assert fields["surname"]["state"] == fields["expiry_date"]["state"] == "DIFFERS"
    assert {key for field in fields.values() for key in field} == {"key", "state", "confidence"}
    assert not {"ERIKSSON", "JOHANSSON", "2039"} & set(str(explanation).replace("'", " ").split())
    assert (status, refusal["code"]) == (403, "API_KEY_NOT_ALLOWED")
