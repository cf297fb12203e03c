"""The page of a subject: what a role sees of it, and what it may ask for."""

import re
from typing import Any

import pytest

from app.web.site import console_language
from schemas.dispositions import DispositionStatus
from schemas.people import Role
from schemas.privacy import ErasureStatus
from tests.http.console import enter, open_page
from tests.http.support import Front, SignedIn, build_body
from tests.http.test_console_case import CANARY, SHOWN_CANARY
from tests.http.test_dispositions import judged
from tests.http.test_name_screenings import SUBJECT
from tests.http.test_transaction_cases import SUSPEND, case_of
from tests.http.test_transactions import payment, publish_suspending, screen

PAGE = "/console/subjects"


async def look(who: SignedIn, subject_id: str) -> str:
    """A subject's page, of test data."""
    answer = await open_page(who, f"{PAGE}?subject_id={subject_id}&livemode=false")
    assert answer.status == 200, answer.body
    return answer.body.decode()


def offered(page: str) -> set[str]:
    """The last words of the routes that a page offers to call."""
    ways = re.findall(r'data-post="([^"]+)"|href="(/v1/[^"?]+)', page)
    return {(post or get).rpartition("/")[2] for post, get in ways}


async def test_a_suspended_subject_is_shown_with_its_lists_and_can_be_reinstated(front: Front) -> None:
    made, _ = await case_of(front, **SUSPEND)
    who = await enter(front, Role.REVIEWER)
    page = await look(who, "user-1")

    assert "Suspended" in page
    assert page.count(f"/console/transactions/{made['transaction_id']}") == 2
    assert offered(page) == {"reinstate"}
    assert 'name="livemode" value="false"' in page
    done = await who.ask(
        "POST", "/v1/control/subjects/user-1/reinstate", json={"note": "x", "livemode": False}
    )
    assert done.status == 200
    assert "Not suspended" in await look(who, "user-1")


@pytest.mark.parametrize(
    ("role", "routes"),
    [
        (Role.OWNER, {"reinstate", "export", "erase"}), (Role.ADMIN, {"export", "erase"}),
        (Role.COMPLIANCE_LEAD, {"reinstate", "export", "erase"}), (Role.REVIEWER, {"reinstate"}),
        (Role.AUDITOR, set()),
    ],
)  # fmt: skip
async def test_a_role_is_offered_what_it_may_ask_for_and_refused_the_rest(
    front: Front, role: Role, routes: set[str]
) -> None:
    await publish_suspending(front)
    await screen(front, "one", payment(**SUSPEND))
    who = await enter(front, role)
    page = await look(who, "user-1")
    asked = {
        "reinstate": await who.ask("POST", "/v1/control/subjects/user-1/reinstate", json={}),
        "erase": await who.ask("POST", "/v1/subjects/user-1/erase", json={}),
        "export": await who.ask("HEAD", "/v1/subjects/user-1/export"),
    }

    assert offered(page) == routes
    assert {name for name, answer in asked.items() if answer.status == 403} == set(asked) - routes


async def test_who_asked_for_an_erasure_does_not_approve_it(front: Front) -> None:
    await front.submit(build_body("sim:approved"))
    first, second = await enter(front), await front.sign_in(Role.COMPLIANCE_LEAD)
    await first.ask("PATCH", "/v1/control/settings", json={"four_eyes": "ALWAYS"})
    asked = await first.ask("POST", "/v1/subjects/sim:approved/erase", json={"reason": CANARY})
    pages = [await look(one, "sim:approved") for one in (first, second)]

    assert asked.json["status"] == "REQUESTED"
    assert [offered(page) for page in pages] == [{"export"}, {"export", "approve"}]
    assert all(SHOWN_CANARY in page and CANARY not in page for page in pages)


async def test_judgements_are_listed_ended_and_agreed_to(front: Front) -> None:
    who = await enter(front)
    made: dict[str, Any] = await judged(who, note=CANARY)
    page = await look(who, SUBJECT)
    seen = await look(await enter(front, Role.AUDITOR), SUBJECT)

    assert f'data-post="/v1/control/dispositions/{made["disposition_id"]}" data-method="DELETE"' in page
    assert (SHOWN_CANARY in page, CANARY in page) == (True, False)
    assert ("in force" in seen, offered(seen)) == (True, set())


async def test_developers_see_no_subject_and_an_unknown_one_has_nothing(front: Front) -> None:
    developer, auditor = await enter(front, Role.DEVELOPER), await enter(front, Role.AUDITOR)

    assert (await open_page(developer, f"{PAGE}?subject_id=user-1")).status == 403
    assert (await open_page(auditor, f"{PAGE}?subject_id=%3Cb%3E")).status == 422
    assert (await look(auditor, "nobody")).count("None.") == 3


def test_every_word_of_a_subject_has_a_text() -> None:
    families = {"disposition": DispositionStatus, "erasure": ErasureStatus}
    wanted = {f"{name}.{one}" for name, every in families.items() for one in every}

    assert wanted - set(console_language().texts) == set()
