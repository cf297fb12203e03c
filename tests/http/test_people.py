"""Colleagues by name, and a reviewer's own preferences (P20, P21)."""

import pytest

from schemas.people import Role
from tests.builders import GLOBEX
from tests.http.support import Front

PEOPLE = "/v1/control/people"
PREFERENCES = "/v1/control/preferences"
FIRST = {"locale": None, "theme": "SYSTEM", "single_keys": True}


async def test_any_reviewer_knows_the_names_of_colleagues_and_no_address(front: Front) -> None:
    auditor, owner = await front.sign_in(Role.AUDITOR), await front.sign_in()
    await front.sign_in(tenant_id=GLOBEX)

    answer = await auditor.ask("GET", PEOPLE)

    assert answer.json == {
        "people": [
            {"reviewer_id": one.member.reviewer_id, "name": "A Reviewer", "role": role, "active": True}
            for one, role in ((owner, "OWNER"), (auditor, "AUDITOR"))
        ]
    }


async def test_preferences_are_of_one_person_and_change_one_by_one(front: Front) -> None:
    who, colleague = await front.sign_in(), await front.sign_in()
    assert (await who.ask("GET", PREFERENCES)).json == FIRST

    changed = await who.ask("PATCH", PREFERENCES, json={"theme": "DARK", "locale": "en-NG"})
    again = await who.ask("PATCH", PREFERENCES, json={"single_keys": False, "locale": None})

    assert changed.json == {"locale": "en-NG", "theme": "DARK", "single_keys": True}
    assert again.json == {"locale": None, "theme": "DARK", "single_keys": False}
    assert (await who.ask("GET", PREFERENCES)).json == again.json
    assert (await colleague.ask("GET", PREFERENCES)).json == FIRST


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"theme": "PINK"}, "/theme"),
        ({"theme": None}, "/theme"),
        ({"single_keys": "no"}, "/single_keys"),
        ({"locale": "<b>"}, "/locale"),
        ({"font": "Comic"}, "/font"),
    ],
)
async def test_what_is_no_preference_is_refused_at_its_place(
    front: Front, body: dict[str, object], pointer: str
) -> None:
    answer = await (await front.sign_in()).ask("PATCH", PREFERENCES, json=body)

    assert answer.status == 422
    assert pointer in answer.pointers
