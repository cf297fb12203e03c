"""The pages of flows and of sessions without a browser: what they show, escape and offer to a role."""

import re
from typing import Any

import pytest

from schemas.people import PERMISSIONS_OF, Permission, Role
from tests.builders import GLOBEX
from tests.http.console import HTML, enter, open_page
from tests.http.session_steps import FLOWS, draft_flow, open_session, publish_flow
from tests.http.session_steps import open_page as open_capture
from tests.http.support import Front, SignedIn

CANARY = "<img src=x onerror=alert(1)>"
SHOWN_CANARY = "&lt;img src=x onerror=alert(1)&gt;"
SESSIONS = "/console/sessions?livemode=false"


async def look(who: SignedIn, path: str) -> str:
    """A page."""
    answer = await open_page(who, path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, HTML), answer.body
    return answer.body.decode()


def rows(page: str) -> int:
    """How many rows a list shows."""
    return len(re.findall(r"data-(?:session|flow)=\"v[sf]_\w+\">", page))


def offered(page: str) -> set[str]:
    """The last words of the routes that a page offers to call."""
    return {path.rpartition("/")[2] for path in re.findall(r'data-act="([^"]+)"', page)}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 2), ("&status=CREATED", 2), ("&status=APPROVED", 0), ("&decision=BLOCK", 0),
        ("&subject=one", 1), ("&subject=%3Cb%3E", 0),
    ],
)  # fmt: skip
async def test_filters_narrow_the_sessions(front: Front, query: str, shown: int) -> None:
    flow_id = await publish_flow(await front.sign_in())
    for subject in ("sim:approved@one", "sim:approved@two"):
        assert (await open_session(front, flow_id, subject)).status == 201
    who = await enter(front, Role.AUDITOR)

    assert rows(await look(who, SESSIONS + query)) == shown
    assert rows(await look(who, "/console/sessions")) == 0


async def test_the_next_page_of_a_list_keeps_its_filters(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    for number in range(26):
        assert (await open_session(front, flow_id, f"sim:approved@n{number}")).status == 201
    who = await enter(front)

    first = await look(who, f"{SESSIONS}&status=CREATED")
    (onward,) = re.findall(r'href="(/console/sessions\?cursor=[^"]+)"', first)
    second = await look(who, onward.replace("&amp;", "&"))

    assert (rows(first), rows(second)) == (25, 1)
    assert "status=CREATED" in onward
    assert "livemode=false" in onward


async def test_a_session_shows_what_it_runs_under_and_what_the_tenant_said(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in(), return_url="https://shop.example/done")
    page = await open_capture(front, flow_id, metadata={CANARY: CANARY}, locale="fr")
    await page.hand_in()
    who = await enter(front, Role.REVIEWER)

    body = await look(who, f"/console/sessions/{page.session_id}")

    assert "https://shop.example/done" in body
    assert all(word in body for word in (flow_id, "Approved", "upload", "/console/verifications/ver_"))
    assert CANARY not in body
    assert body.count(SHOWN_CANARY) == 2


async def test_the_search_leads_to_a_session(front: Front) -> None:
    opened = await open_session(front, await publish_flow(await front.sign_in()))
    session_id = opened.json["session_id"]

    answer = await open_page(await enter(front), f"/console/search?q={session_id}")

    assert (answer.status, answer.headers["Location"]) == (303, f"/console/sessions/{session_id}")


async def test_pages_of_another_tenant_are_not_found(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    session_id = (await open_session(front, flow_id)).json["session_id"]
    foreign = await front.sign_in(tenant_id=GLOBEX)

    for path in (f"/console/flows/{flow_id}", f"/console/sessions/{session_id}"):
        assert (await open_page(foreign, path)).status == 404


async def test_a_flow_shows_its_draft_beside_what_is_published(front: Front) -> None:
    owner = await enter(front)
    flow_id = await draft_flow(owner, return_url="https://shop.example/a")
    drafted = await look(owner, f"/console/flows/{flow_id}")
    await owner.ask("POST", f"{FLOWS}/{flow_id}/publish")
    published = await look(owner, f"/console/flows/{flow_id}")
    changes = {"documents": [{"country": "NG", "capabilities": ["NG_PASSPORT"]}]}
    changed = await owner.ask("PATCH", f"{FLOWS}/{flow_id}", json=changes, headers={"If-Match": '"2"'})
    assert changed.status == 200, changed.body
    edited = await look(owner, f"/console/flows/{flow_id}")

    assert [page.count('class="differs"') for page in (drafted, published, edited)] == [0, 0, 1]
    assert "Never published" in drafted
    assert "The draft is what is published" in published
    differing = edited.partition('class="differs"')[2].partition("</tr>")[0]
    assert re.findall(r">(NG_\w+)<", differing) == ["NG_PASSPORT", "NG_NIN_SLIP", "NG_PASSPORT"]
    assert f'data-seen="{changed.headers["ETag"].replace(chr(34), "&#34;")}"' in edited
    assert chosen(edited) == ["NG_PASSPORT"]


def chosen(page: str) -> list[str]:
    """The documents that an editor shows as chosen."""
    return re.findall(r'name="capability" value="(\w+)" checked', page)


@pytest.mark.parametrize("role", Role)
async def test_a_role_is_offered_what_it_may_do_with_a_flow(front: Front, role: Role) -> None:
    flow_id = await publish_flow(await front.sign_in())
    who = await enter(front, role)
    may = Permission.VERIFICATION_FLOWS_MANAGE in PERMISSIONS_OF[role]

    page, listed = await look(who, f"/console/flows/{flow_id}"), await look(who, "/console/flows")

    assert offered(page) == ({"publish", "preview", "duplicate", "archive"} if may else set())
    assert ('data-form="flow"' in page, "/console/flows/new" in listed) == (may, may)


async def test_an_archived_flow_is_only_duplicated(front: Front) -> None:
    owner = await enter(front)
    flow_id = await publish_flow(owner)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/archive")

    page = await look(owner, f"/console/flows/{flow_id}")

    assert offered(page) == {"duplicate"}
    assert 'data-form="flow"' not in page


async def test_what_a_flow_is_called_is_text(front: Front) -> None:
    owner = await enter(front)
    said: dict[str, Any] = {"name": CANARY, "return_url": "https://shop.example/'\"><b>"}
    refused = await owner.ask("POST", FLOWS, json={"flow_type": "BIOMETRIC", **said})
    flow_id = await draft_flow(owner, name=CANARY)
    await owner.change_member(name=CANARY)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/publish")

    pages = await look(owner, "/console/flows") + await look(owner, f"/console/flows/{flow_id}")

    assert refused.status in {201, 422}
    assert CANARY not in pages
    assert pages.count(SHOWN_CANARY) >= 4


async def test_a_filter_of_flows_holds(front: Front) -> None:
    owner = await enter(front)
    await publish_flow(owner)
    await draft_flow(owner)

    shown = [rows(await look(owner, f"/console/flows{query}")) for query in ("", "?status=DRAFT")]

    assert shown == [2, 1]
    assert (await open_page(owner, "/console/flows?status=GONE")).status == 422
