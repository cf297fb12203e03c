"""The queue over HTTP: its order, its counts, and the next case for each of several reviewers (P19)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from schemas.people import Role
from schemas.tenant_settings import FourEyes
from streams.ports.records import RecordKind
from tests.builders import ACME
from tests.http.support import TEST, Front, SignedIn, build_body
from tests.http.test_review_cases import PATH, UNCERTAIN, conclude, set_up

CLAIM = f"{PATH}/claim-next"
SUMMARY = f"{PATH}/summary"
TEST_MODE = {"livemode": False}


async def open_cases(front: Front, number: int, subject: str = UNCERTAIN) -> list[str]:
    """Cases that wait, the oldest first; return their ids."""
    made = [await front.submit(build_body(f"{subject}@{n}"), TEST) for n in range(number)]
    return [str(one.json["review_case_id"]) for one in made]


async def listed(who: SignedIn, query: str = "") -> list[str]:
    """The ids of a page."""
    answer = await who.ask("GET", f"{PATH}?livemode=false{query}")
    assert answer.status == 200, answer.body
    return [str(case["review_case_id"]) for case in answer.json["review_cases"]]


async def counts(who: SignedIn) -> dict[str, int | None]:
    """The summary of test data."""
    answer = await who.ask("GET", f"{SUMMARY}?livemode=false")
    found: dict[str, int | None] = answer.json
    return found


def change(front: Front, case: str, before: str, after: str) -> None:
    """Change a time of a case as it is stored."""
    key = (ACME, RecordKind.REVIEW_CASE, case)
    record = front.shelves.records[key]
    changed = record.body.replace(before.encode(), after.encode())
    assert changed != record.body
    front.shelves.records[key] = replace(record, body=changed)


async def take(who: SignedIn, **said: Any) -> str | None:
    """Take the most urgent case."""
    answer = await who.ask("POST", CLAIM, json={**TEST_MODE, **said})
    assert answer.status in {200, 204}, answer.body
    return str(answer.json["review_case_id"]) if answer.status == 200 else None


async def test_the_most_urgent_case_comes_first_across_pages(front: Front) -> None:
    cases, who = await open_cases(front, 6), await front.sign_in()
    due = (await who.ask("GET", f"{PATH}/{cases[-1]}")).json["due_at"]
    change(front, cases[-1], due, f"2020{due[4:]}")
    dues = {
        one["review_case_id"]: (one["due_at"], one["review_case_id"])
        for one in (await who.ask("GET", f"{PATH}?livemode=false")).json["review_cases"]
    }
    wanted = sorted(cases, key=lambda case: dues[case])
    found: list[str] = []
    cursor = ""
    while True:
        page = (await who.ask("GET", f"{PATH}?livemode=false&order=due&limit=2{cursor}")).json
        found += [one["review_case_id"] for one in page["review_cases"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"

    assert found == wanted
    assert found[0] == cases[-1]


async def test_a_concluded_case_leaves_the_queue(front: Front) -> None:
    cases, who = await open_cases(front, 2), await front.sign_in()

    await conclude(who, f"{PATH}/{cases[0]}")

    assert await listed(who, "&order=due") == [cases[1]]
    assert await listed(who, "&order=due&status=CONCLUDED") == [cases[0]]
    assert len(await listed(who)) == 2


async def test_the_filters_hold_in_both_orders(front: Front) -> None:
    cases, who = await open_cases(front, 3), await front.sign_in()
    await who.ask("POST", f"{PATH}/{cases[1]}/claim", json={})
    due = (await who.ask("GET", f"{PATH}/{cases[1]}")).json["due_at"]

    for order in ("newest", "due"):
        assert await listed(who, f"&order={order}&kind=APPEAL") == []
        assert len(await listed(who, f"&order={order}&kind=VERIFICATION")) == 3
        assert await listed(who, f"&order={order}&assignee={who.member.reviewer_id}") == [cases[1]]
        assert await listed(who, f"&order={order}&due_before={due}") == [cases[0]]


@pytest.mark.parametrize("query", ["order=oldest", "kind=PERSON"])
async def test_an_unknown_order_or_kind_is_refused(front: Front, query: str) -> None:
    answer = await (await front.sign_in()).ask("GET", f"{PATH}?{query}")

    assert (answer.status, answer.code) == (422, "FILTER_INVALID")


async def test_a_cursor_of_another_order_is_refused(front: Front) -> None:
    await open_cases(front, 2)
    who = await front.sign_in()
    cursor = (await who.ask("GET", f"{PATH}?order=due&limit=1")).json["next_cursor"]

    answer = await who.ask("GET", f"{PATH}?limit=1&cursor={cursor}")

    assert (answer.status, answer.code) == (400, "CURSOR_INVALID")


async def test_the_summary_counts_what_waits(front: Front) -> None:
    cases, who, colleague = await open_cases(front, 4), await front.sign_in(), await front.sign_in()
    await set_up(front, four_eyes=FourEyes.ALWAYS)
    await who.ask("POST", f"{PATH}/{cases[0]}/claim", json={})
    await who.ask("POST", f"{PATH}/{cases[1]}/escalate", json={"note": "x"})
    await conclude(colleague, f"{PATH}/{cases[2]}")

    waiting = {"open": 4, "overdue": 0, "due_soon": 0, "awaiting_second": 1, "escalated": 1}
    assert await counts(who) == {**waiting, "mine": 1}
    assert await counts(colleague) == {**waiting, "mine": 0}
    assert (await who.ask("GET", f"{SUMMARY}?livemode=true")).json["open"] == 0


async def test_reviewers_who_take_at_once_get_different_cases(front: Front) -> None:
    cases = await open_cases(front, 3)
    several = [await front.sign_in(Role.REVIEWER) for _ in range(4)]

    taken = await asyncio.gather(*(take(who) for who in several))

    assert sorted(filter(None, taken)) == sorted(cases)
    assert taken.count(None) == 1
    for who, case in zip(several, taken, strict=True):
        if case is not None:
            assert (await who.ask("GET", f"{PATH}/{case}")).json["assignee"] == who.member.reviewer_id


async def test_the_most_urgent_case_is_taken_and_taken_again_by_its_holder(front: Front) -> None:
    cases, who = await open_cases(front, 2), await front.sign_in()

    assert [await take(who), await take(who)] == [cases[0], cases[0]]


async def test_a_case_that_a_colleague_was_given_is_not_taken(front: Front) -> None:
    cases, who, colleague = await open_cases(front, 2), await front.sign_in(), await front.sign_in()
    given = {"reviewer_id": colleague.member.reviewer_id}
    await who.ask("POST", f"{PATH}/{cases[0]}/assign", json=given)

    assert await take(who) == cases[1]
    assert await take(colleague) == cases[0]


async def test_nobody_takes_what_another_must_conclude(front: Front) -> None:
    cases = await open_cases(front, 2)
    first, lead = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.COMPLIANCE_LEAD)
    await set_up(front, four_eyes=FourEyes.ALWAYS)
    await conclude(first, f"{PATH}/{cases[0]}")
    await first.ask("POST", f"{PATH}/{cases[1]}/escalate", json={"note": "x"})

    assert await take(first) is None
    assert await take(lead) == cases[0]
    assert await take(await front.sign_in(Role.COMPLIANCE_LEAD)) == cases[1]


async def test_nobody_takes_a_case_about_themselves(front: Front) -> None:
    who = await front.sign_in()
    await front.submit(build_body(f"{UNCERTAIN}@{who.member.reviewer_id}"), TEST)

    assert await take(who) is None
    assert await take(await front.sign_in()) is not None


async def test_the_kind_and_the_mode_narrow_what_is_taken(front: Front) -> None:
    cases, who = await open_cases(front, 1), await front.sign_in()

    assert (await who.ask("POST", CLAIM, json={})).status == 204
    assert await take(who, kind="APPEAL") is None
    assert await take(who, kind="VERIFICATION") == cases[0]


async def test_a_case_is_taken_once_its_lease_is_over(front: Front) -> None:
    cases, who, colleague = await open_cases(front, 1), await front.sign_in(), await front.sign_in()
    await who.ask("POST", f"{PATH}/{cases[0]}/claim", json={})
    assert await take(colleague) is None
    lease = (await who.ask("GET", f"{PATH}/{cases[0]}")).json["lease_expires_at"]
    change(front, cases[0], lease, f"2020{lease[4:]}")

    assert await take(colleague) == cases[0]
