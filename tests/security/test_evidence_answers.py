"""Point 15, S52: evidence is something to save, never a page of the service's own origin."""

from collections.abc import AsyncIterator

import pytest

from app.http.responses import standing_headers
from app.http.routes.evidence import download
from schemas.people import Role
from tests.http.support import PATH, Front, open_front
from tests.http.test_review_cases import open_case


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
