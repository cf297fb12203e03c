"""Where evidence is kept stays inside: its `location` is an opaque id, no path or address (S51)."""

import re

from schemas.enums import EvidenceKind
from tests.http.furnished import open_furnished
from tests.http.support import PATH, TEST

OPAQUE = re.compile(r"evidence:/(evd_[0-9a-z]{26})")


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
