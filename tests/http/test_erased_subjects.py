"""A subject whose key was destroyed: what is read lacks the values, what would be kept is refused.

Over SQLite, whose rows and remembered keys are those of a deployment.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.adapters.security.crypto import RootKey
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.ids import SubjectId
from tests.builders import ACME
from tests.http.furnished import SUBJECT, Furnished, open_furnished
from tests.http.session_steps import open_session
from tests.http.support import TEST, Response, build_body, draw_image
from tests.http.test_permissions import TABLE, TOKEN, Row

GONE = SubjectId(f"{SUBJECT}0")
PAGE = SubjectId("sim:approved@canary")
"""Of the session that waits for its pictures."""

NOTE = "Mrs Canary called."


@pytest.fixture
async def erased(tmp_path: Path) -> AsyncIterator[Furnished]:
    """A tenant with everything, two of whose subjects were erased after a note was written."""
    async with (
        open_sqlite_stores(tmp_path, RootKey(b"r" * 32), durable=False) as stores,
        open_furnished(stores=stores) as furnished,
    ):
        noted = await furnished.owner.ask("POST", f"{case_of(furnished)}/notes", json={"text": NOTE})
        assert noted.json["notes"][0]["text"] == NOTE
        for subject in (GONE, PAGE):
            await stores.vault.destroy(ACME, subject)
        yield furnished


def case_of(furnished: Furnished) -> str:
    """Where the erased subject's case is."""
    return f"/v1/control/review-cases/{furnished.ids['review_case_id']}"


def verification_of(furnished: Furnished) -> str:
    """Where the erased subject's verification is."""
    return f"/v1/verifications/{furnished.ids['verification_id']}"


async def ask_somebody(furnished: Furnished, row: Row) -> Response:
    """Ask as the first who may."""
    path, body = furnished.path(row), furnished.body(row)
    if "operator" in row.who:
        return await furnished.front.ask(row.method, path, TOKEN, **body)
    if "capture" in row.who:
        return await furnished.front.ask(row.method, path, furnished.page.opened["client_token"], **body)
    if "key" in row.who:
        return await furnished.front.ask(row.method, path, TEST, **body)
    return await furnished.owner.ask(row.method, path, **body)


async def test_no_route_breaks_over_an_erased_subject(erased: Furnished) -> None:
    rows = sorted((row for row in TABLE if "code" not in row.path), key=lambda row: row.method != "GET")
    result = {f"{row.method} {row.path}": (await ask_somebody(erased, row)).status for row in rows}

    assert {row: status for row, status in result.items() if status >= 500} == {}
    assert len(result) > 60


async def test_a_verification_is_read_without_its_values(erased: Furnished) -> None:
    one = await erased.front.ask("GET", verification_of(erased))
    listed = await erased.front.ask("GET", "/v1/verifications")

    assert (one.status, one.json["document"]["extracted_fields"]) == (200, {})
    assert one.json["status"] == "REVIEW_REQUIRED"
    assert one.json in listed.json["verifications"]


async def test_an_image_is_gone(erased: Furnished) -> None:
    path = f"{verification_of(erased)}/evidence/{erased.ids['evidence_id']}"
    response = await erased.owner.ask("GET", path)

    assert (response.status, response.code) == (404, "NOT_FOUND")
    assert "erased" in response.json["detail"]
    viewed = (await erased.owner.ask("GET", "/v1/audit?action=evidence.viewed")).json["events"]
    assert viewed == []


async def test_a_case_is_read_without_what_was_written(erased: Furnished) -> None:
    response = await erased.owner.ask("GET", case_of(erased))

    assert (response.status, [note["text"] for note in response.json["notes"]]) == (200, [""])
    assert NOTE.encode() not in (await erased.owner.ask("GET", "/v1/control/review-cases")).body


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "another"}])
async def test_a_new_verification_of_an_erased_subject_is_refused_at_its_place(
    erased: Furnished, headers: dict[str, str]
) -> None:
    asked = len(erased.front.gateway.asked)

    response = await erased.front.ask("POST", "/v1/verifications", json=build_body(GONE), headers=headers)

    assert (response.status, response.pointers) == (422, {"/subject_id": "VALIDATION_FAILED"})
    assert "erased" in response.json["detail"]
    assert len(erased.front.gateway.asked) == asked


async def test_a_new_session_of_an_erased_subject_is_refused_at_its_place(erased: Furnished) -> None:
    result = await open_session(erased.front, erased.ids["flow_id"], GONE)

    assert (result.status, result.pointers) == (422, {"/subject_id": "VALIDATION_FAILED"})


async def test_another_subject_is_verified_as_ever(erased: Furnished) -> None:
    assert (await erased.front.submit(build_body(f"{SUBJECT}-anew"), TEST)).status == 201


async def test_a_key_of_before_answers_the_first_result_without_its_values(tmp_path: Path) -> None:
    async with (
        open_sqlite_stores(tmp_path, RootKey(b"r" * 32), durable=False) as stores,
        open_furnished(stores=stores) as furnished,
    ):
        body = build_body("sim:approved@replayed")
        first = await furnished.front.submit(body, TEST, "key")
        await stores.vault.destroy(ACME, SubjectId("sim:approved@replayed"))

        again = await furnished.front.submit(body, TEST, "key")

    assert first.json["document"]["extracted_fields"] != {}
    assert (again.status, again.json["document"]["extracted_fields"]) == (200, {})
    assert again.json["verification_id"] == first.json["verification_id"]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("notes", {"text": "x"}), ("escalate", {"note": "x"}),
        ("conclude", {"outcome": "APPROVE", "note": "x"}), ("conclude", {"outcome": "REJECT", "note": "x"}),
    ],
)  # fmt: skip
async def test_nothing_more_is_written_about_an_erased_subject(
    erased: Furnished, verb: str, body: dict[str, str]
) -> None:
    response = await erased.owner.ask("POST", f"{case_of(erased)}/{verb}", json=body)

    assert (response.status, response.code) == (404, "NOT_FOUND")
    assert (await erased.owner.ask("GET", case_of(erased))).json["status"] == "OPEN"


async def test_an_erased_subject_is_not_asked_again(erased: Furnished) -> None:
    body = {"outcome": "REQUEST_INPUT", "note": "x", "flow_id": erased.ids["flow_id"]}
    response = await erased.owner.ask("POST", f"{case_of(erased)}/conclude", json=body)

    assert (response.status, response.code) == (404, "NOT_FOUND")
    assert (await erased.owner.ask("GET", case_of(erased))).json["status"] == "OPEN"


@pytest.mark.parametrize("verb", ["claim", "release"])
async def test_a_case_of_an_erased_subject_can_still_be_passed_on(erased: Furnished, verb: str) -> None:
    assert (await erased.owner.ask("POST", f"{case_of(erased)}/{verb}", json={})).status == 200


async def test_the_page_of_an_erased_subject_takes_nothing(erased: Furnished) -> None:
    seen = await erased.page.ask("GET")
    response = await erased.page.put("document", draw_image())

    assert seen.status == 200
    assert (response.status, response.code) == (404, "NOT_FOUND")
