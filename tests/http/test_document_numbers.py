"""The whole document number over HTTP: one look at a time, audited, and of nobody else's (P18, G11)."""

import pytest

from app.configuration.front import RateLimits
from schemas.people import Role
from tests.builders import ACME, GLOBEX
from tests.http.support import PATH, TEST, Front, Response, SignedIn, build_body, open_front

UNCERTAIN = "sim:review:FACE_MATCH_UNCERTAIN"
NUMBER = "SIM001234"


async def reveal(person: SignedIn, made: Response) -> Response:
    """Ask for the number of a verification."""
    return await person.ask("POST", f"{PATH}/{made.json['verification_id']}/reveal-number", json={})


async def views(front: Front) -> list[dict[str, object]]:
    """What the audit log says of looks at evidence."""
    response = await front.ask("GET", "/v1/audit?action=evidence.viewed")
    return [event["context"]["changes"] for event in response.json["events"]]


async def test_p18_a_reviewer_reveals_the_whole_number_and_the_look_is_audited(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    result = await reveal(await front.sign_in(Role.REVIEWER), made)

    assert (result.status, result.json) == (200, {"number": NUMBER})
    assert await views(front) == [
        {"field": "document_number", "verification_id": made.json["verification_id"]}
    ]
    assert NUMBER not in (await front.ask("GET", "/v1/audit")).body.decode()


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.DEVELOPER])
async def test_p18_who_may_not_see_evidence_reveals_no_number(front: Front, role: Role) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    result = await reveal(await front.sign_in(role), made)

    assert (result.status, result.code) == (403, "PERMISSION_DENIED")
    assert await views(front) == []


async def test_p18_no_key_and_no_other_tenant_reveals_a_number(front: Front) -> None:
    made = await front.submit(build_body(UNCERTAIN))
    path = f"{PATH}/{made.json['verification_id']}/reveal-number"
    by_key = await front.ask("POST", path, TEST, json={})
    by_foreigner = await reveal(await front.sign_in(tenant_id=GLOBEX), made)

    assert (by_key.status, by_key.code) == (403, "API_KEY_NOT_ALLOWED")
    assert (by_foreigner.status, by_foreigner.code) == (404, "NOT_FOUND")


async def test_p18_the_number_is_gone_with_the_evidence_and_with_the_subject(front: Front) -> None:
    person, made = await front.sign_in(), await front.submit(build_body(UNCERTAIN))
    await front.stores.evidence.discard(ACME, [one["id"] for one in made.json["document"]["evidence"]])
    expired = await reveal(person, made)
    other = await front.submit(build_body(f"{UNCERTAIN}@2"))
    await front.stores.vault.destroy(ACME, other.json["subject_id"])
    erased = await reveal(person, other)

    assert [(one.status, one.code) for one in (expired, erased)] == [(404, "NOT_FOUND")] * 2


async def test_p18_numbers_have_a_limit_of_their_own() -> None:
    async with open_front(rate_limits=RateLimits(reveal_number=1)) as front:
        person, made = await front.sign_in(), await front.submit(build_body(UNCERTAIN))
        results = [await reveal(person, made) for _ in range(2)]
        read = await person.ask("GET", f"{PATH}/{made.json['verification_id']}")

    assert [one.status for one in results] == [200, 429]
    assert read.status == 200
