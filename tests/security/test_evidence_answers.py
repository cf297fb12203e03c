"""Evidence over HTTP: something to save, never a page of the service, at an opaque place (S51, S52)."""

import re
from collections.abc import AsyncIterator

import pytest

from app.http.responses import standing_headers
from app.http.routes.evidence import download
from schemas.enums import EvidenceKind
from schemas.people import Role
from tests.http.furnished import open_furnished
from tests.http.support import PATH, TEST, Front, open_front
from tests.http.test_review_cases import open_case

OPAQUE = re.compile(r"evidence:/(evd_[0-9a-z]{26})")


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front that serves."""
    async with open_front() as opened:
        yield opened


async def test_s52_evidence_is_an_attachment_in_a_sandbox(front: Front) -> None:
    verification, _ = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)
    image = next(one["id"] for one in verification["evidence"] if one["kind"] == "IMAGE")

    answer = await reviewer.ask("GET", f"{PATH}/{verification['verification_id']}/evidence/{image}")

    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{image}.png"'
    assert answer.headers["Content-Security-Policy"].split("; ")[0] == "sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "media_type", ["text/html", "image/svg+xml", "application/xhtml+xml", "", "nonsense"]
)
def test_s52_a_type_that_could_run_is_not_repeated(media_type: str) -> None:
    answer = download(b"<svg onload=alert(1)>", media_type, "evd_0")

    assert answer.content_type == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="evd_0.bin"'
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert standing_headers("http://127.0.0.1")["X-Content-Type-Options"] == "nosniff"


async def test_s51_a_location_is_an_opaque_id() -> None:
    """In every form in which evidence is shown: alone, in a list, and in the decision's document."""
    async with open_furnished() as furnished:
        place = f"{PATH}/{furnished.ids['verification_id']}"
        shown = (await furnished.front.ask("GET", place, TEST)).json
        listed = (await furnished.front.ask("GET", PATH, TEST)).json["verifications"]

    evidence = [one for verification in (shown, *listed) for one in verification["evidence"]]
    assert {one["kind"] for one in evidence} >= {EvidenceKind.IMAGE, EvidenceKind.SELFIE}
    assert [one["location"] for one in evidence if not OPAQUE.fullmatch(one["location"])] == []
    assert all(one["location"] == f"evidence:/{one['id']}" for one in evidence)


async def test_s51_the_location_opens_nothing_by_itself() -> None:
    """It says no more than the id, and the id opens nothing without the verification and a credential."""
    async with open_furnished() as furnished:
        front, ids = furnished.front, furnished.ids
        image = f"{PATH}/{ids['verification_id']}/evidence/{ids['evidence_id']}"
        responses = {
            path: (await front.ask("GET", path, None)).status
            for path in (image, f"/evidence:/{ids['evidence_id']}", f"/{ids['evidence_id']}")
        }

    assert responses == {image: 401, f"/evidence:/{ids['evidence_id']}": 404, f"/{ids['evidence_id']}": 404}
