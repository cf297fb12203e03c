"""The frame of the console without a browser: redirects, headers, escaping, roles and texts."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from pydantic import SecretStr

from app.http.bodies import BodyBudget
from app.http.console import places
from app.http.routes import console as console_pages
from app.http.routes.console.administration import PLATFORM_PAGE
from app.http.server import endpoints_of
from app.web.site import console_language, site
from schemas.people import PERMISSIONS_OF, Permission, Role
from streams.sign_in.cookies import COOKIE
from tests.http.console import BROWSER, HTML, UnscriptedButtons, enter, open_page, open_unknown
from tests.http.support import Front, open_front
from tests.http.test_review_cases import UNCERTAIN, open_case

QUEUE = "/console/review-cases"
ACCOUNT = "/console/account"
TEST_MODE = f"{QUEUE}?livemode=false"


@pytest.mark.parametrize("path", ["/", "/console"])
async def test_the_first_page_is_the_queue(front: Front, path: str) -> None:
    answer = await open_unknown(front, path)

    assert (answer.status, answer.headers["Location"]) == (303, QUEUE)


@pytest.mark.parametrize(
    ("path", "back"),
    [
        (QUEUE, "/console/sign-in?next=/console/review-cases"),
        (TEST_MODE, "/console/sign-in?next=/console/review-cases?livemode%3Dfalse"),
        (f"{QUEUE}?x=//evil.example", "/console/sign-in"),
    ],
)
async def test_without_a_session_a_page_leads_to_sign_in_and_back(front: Front, path: str, back: str) -> None:
    answer = await open_unknown(front, path)
    stale = await open_unknown(front, path, Cookie=f"{COOKIE}=rs_gone")

    assert [(one.status, one.headers["Location"]) for one in (answer, stale)] == [(303, back)] * 2
    assert answer.headers["Cache-Control"] == "no-store"


async def test_who_may_not_see_the_queue_begins_elsewhere(front: Front) -> None:
    developer, reviewer = await enter(front, Role.DEVELOPER), await enter(front, Role.REVIEWER)
    granted = PERMISSIONS_OF[Role.DEVELOPER]
    first = next(one.path for one in places() if one.permission is None or one.permission in granted)

    assert first != QUEUE
    assert (await open_page(developer, "/console")).headers["Location"] == first
    assert (await open_page(reviewer, "/console")).headers["Location"] == QUEUE


async def test_before_the_factor_a_page_leads_to_it(front: Front) -> None:
    answer = await open_page(await enter(front, satisfied=False), QUEUE)

    assert (answer.status, answer.headers["Location"]) == (303, "/console/factor?next=/console/review-cases")


async def test_a_page_has_its_headers_and_runs_nothing_inline(front: Front) -> None:
    answer = await open_page(await enter(front), QUEUE)
    body, headers = answer.body.decode(), answer.headers

    assert (answer.status, headers["Content-Type"]) == (200, HTML)
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", body) == []
    assert "script-src 'self'; style-src 'self'" in headers["Content-Security-Policy"]
    assert "trusted-types 'none'" in headers["Content-Security-Policy"]
    assert headers["Permissions-Policy"].startswith("camera=(), microphone=()")
    assert [headers[name] for name in ("Cache-Control", "Referrer-Policy", "X-Robots-Tag")] == [
        "no-store", "same-origin", "noindex",
    ]  # fmt: skip
    assert "Set-Cookie" not in headers


async def test_a_page_shows_the_mode_it_is_asked_for(front: Front) -> None:
    verification, _ = await open_case(front)
    who = await enter(front)

    live, test = await open_page(who, QUEUE), await open_page(who, TEST_MODE)

    assert verification["subject_id"] not in live.body.decode()
    assert verification["subject_id"] in test.body.decode()
    assert 'aria-current="true">Live' in live.body.decode()
    assert 'aria-current="true">Test' in test.body.decode()


async def test_a_page_counts_and_is_refused_as_its_route(front: Front) -> None:
    developer = await enter(front, Role.DEVELOPER)

    page = await open_page(developer, QUEUE)
    answer = await developer.ask("GET", "/v1/control/review-cases")

    assert (page.status, answer.status, answer.code) == (403, 403, "PERMISSION_DENIED")
    assert (page.headers["Content-Type"], page.headers["X-Request-Id"] in page.body.decode()) == (HTML, True)
    assert "CASES_READ" in page.body.decode()
    assert 'href="/console"' in page.body.decode()


async def test_what_a_page_shows_is_text(front: Front) -> None:
    who = await enter(front)
    canary = '<img src=x onerror="alert(1)">'
    await who.change_member(name=canary)

    body = (await open_page(who, QUEUE)).body.decode()

    assert "<img src=x" not in body
    assert "&lt;img src=x onerror" in body


async def test_only_get_and_head_are_known(front: Front) -> None:
    who = await enter(front)

    assert (await who.ask("HEAD", QUEUE, headers={"Accept": BROWSER})).status == 200
    assert (await who.ask("POST", QUEUE)).status == 405
    assert (await open_page(who, f"{QUEUE}/x")).status == 404


PAGES: dict[str, tuple[int, Permission | None]] = {
    "/": (303, None),
    "/console": (303, None),
    QUEUE: (200, Permission.CASES_READ),
    "/console/api-keys": (200, Permission.API_KEYS_MANAGE),
    "/console/members": (200, Permission.MEMBERS_MANAGE),
    "/console/settings": (200, Permission.SETTINGS_MANAGE),
    "/console/webhooks": (200, Permission.WEBHOOKS_MANAGE),
    "/console/audit": (200, Permission.AUDIT_READ),
    "/console/audit/export": (200, Permission.AUDIT_READ),
    "/console/audit/chain": (200, Permission.AUDIT_READ),
    ACCOUNT: (200, None),
    "/console/sessions": (200, Permission.VERIFICATIONS_READ),
    "/console/flows": (200, Permission.VERIFICATION_FLOWS_READ),
    "/console/flows/new": (200, Permission.VERIFICATION_FLOWS_MANAGE),
    "/console/verifications": (200, Permission.VERIFICATIONS_READ),
    "/console/transactions": (200, Permission.TRANSACTIONS_READ),
    "/console/subjects": (303, None),
    "/console/search": (303, None),
    "/console/sign-in": (200, None),
    "/console/factor": (303, None),
    "/console/reset": (200, None),
    PLATFORM_PAGE: (404, None),
}
"""Every page that needs no id: its status for a signed-in person, and what a role needs to see it."""


async def test_every_page_is_in_the_table(front: Front) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))

    assert {one.path for one in endpoints if one.family == "Console" and "{" not in one.path} == set(PAGES)


@pytest.mark.parametrize("role", Role)
async def test_a_role_is_offered_and_shown_what_its_permissions_say(front: Front, role: Role) -> None:
    who = await enter(front, role)
    granted = PERMISSIONS_OF[role]

    for path, (status, needed) in PAGES.items():
        allowed = needed is None or needed in granted
        assert (await open_page(who, path)).status == (status if allowed else 403), path
    offered = {one.path for one in places() if one.permission is None or one.permission in granted}
    page = await open_page(who, ACCOUNT)
    assert {path for path in PAGES if f'<li><a href="{path}"' in page.body.decode()} == offered


async def test_what_needs_scripts_cannot_be_pressed_before_they_have_begun(front: Front) -> None:
    who = await enter(front)
    _, case = await open_case(front)
    pages = [path for path, (status, _) in PAGES.items() if status == 200 and not path.endswith("export")]
    one = case.replace("/v1/control", "/console")

    for page in [*pages, one]:
        assert UnscriptedButtons((await open_page(who, page)).body.decode()).found == [], page
    fresh = await enter(front, satisfied=False)
    assert UnscriptedButtons((await open_page(fresh, "/console/factor")).body.decode()).found == []


async def test_the_operators_page_is_there_as_its_routes_are_and_comes_empty(
    front: Front,
) -> None:
    absent = await open_unknown(front, PLATFORM_PAGE)
    async with open_front(operator_token=SecretStr("o" * 32)) as configured:
        answer = await open_unknown(configured, PLATFORM_PAGE)

    page = answer.body.decode()
    assert (absent.status, answer.status, "o" * 32 in page) == (404, 200, False)
    assert UnscriptedButtons(page).found == []
    assert 'data-form="token"' in page


async def test_only_who_may_conclude_is_offered_the_next_case(front: Front) -> None:
    lead, auditor = await enter(front, Role.COMPLIANCE_LEAD), await enter(front, Role.AUDITOR)

    assert b'data-action="take"' in (await open_page(lead, QUEUE)).body
    assert b'data-action="take"' not in (await open_page(auditor, QUEUE)).body


@pytest.mark.parametrize(
    ("given", "onward"),
    [
        ("/console/account", "/console/account"),
        ("/console/review-cases?livemode=false", "/console/review-cases?livemode=false"),
        ("https://evil.example/console", "/console"),
        ("//evil.example/console", "/console"),
        ("/console/../v1/audit", "/console"),
        ("/console/%2e%2e/v1/audit", "/console"),
        ("/console\\evil", "/console"),
        ("/consolex", "/console"),
        ("javascript:alert(1)", "/console"),
        ("", "/console"),
    ],
)
async def test_the_way_on_is_a_page_of_the_console(front: Front, given: str, onward: str) -> None:
    who = await enter(front)
    query = urlencode({"next": given})

    answer = await open_page(who, f"/console/factor?{query}")
    page = await open_unknown(front, f"/console/sign-in?{query}")

    assert (answer.status, answer.headers["Location"]) == (303, onward)
    found = re.search(r'data-onward="([^"]*)"', page.body.decode())
    assert found is not None
    assert parse_qs(urlsplit(unescape(found[1])).query).get("next", ["/console"]) == [onward]


async def test_before_the_factor_the_page_asks_for_it_or_enrols_one(front: Front) -> None:
    who = await enter(front, satisfied=False)

    body = (await open_page(who, "/console/factor")).body.decode()

    assert 'data-form="confirm"' in body
    assert 'data-form="code"' not in body


async def test_the_search_knows_ids_and_takes_the_rest_for_a_subject(front: Front) -> None:
    who, ident = await enter(front), "0" * 26
    ways = {
        f"rc_{ident}": f"/console/review-cases/rc_{ident}",
        f"ver_{ident}": f"/console/verifications/ver_{ident}",
        f"txn_{ident}": f"/console/transactions/txn_{ident}",
        "customer-1": "/console/verifications?subject_id=customer-1",
        "<b>&x=1": "/console/verifications?subject_id=%3Cb%3E%26x%3D1",
    }

    for sought, to in ways.items():
        answer = await open_page(who, f"/console/search?{urlencode({'q': sought})}")
        assert (answer.status, answer.headers["Location"]) == (303, to)
    test = await open_page(who, f"/console/search?livemode=false&q=rc_{ident}")
    assert test.headers["Location"] == f"/console/review-cases/rc_{ident}?livemode=false"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 2), ("view=mine", 1), ("view=overdue", 0), ("view=escalated", 1), ("risk_level=LOW", 0),
        ("risk_level=MEDIUM", 2), ("kind=APPEAL", 0), ("assignee=me", 1), ("assignee=none", 1),
        ("view=nothing", 2),
    ],
)  # fmt: skip
async def test_counts_and_filters_narrow_the_queue(front: Front, query: str, shown: int) -> None:
    who = await enter(front)
    for name, verb in (("a", "claim"), ("b", "escalate")):
        _, case = await open_case(front, f"{UNCERTAIN}@{name}")
        await who.ask("POST", f"{case}/{verb}", json={} if verb == "claim" else {"note": "x"})

    page = await open_page(who, f"{QUEUE}?livemode=false&{query}")

    assert page.status == 200
    assert page.body.decode().count("data-case=") == shown


async def test_a_filter_that_does_not_exist_is_refused_as_a_page(front: Front) -> None:
    page = await open_page(await enter(front), f"{QUEUE}?risk_level=GRAVE")

    assert (page.status, page.headers["Content-Type"]) == (422, HTML)


async def test_preferences_are_in_the_page(front: Front) -> None:
    who = await enter(front)
    await who.ask("PATCH", "/v1/control/preferences", json={"theme": "DARK", "single_keys": False})

    body = (await open_page(who, QUEUE)).body.decode()

    assert '<html lang="en" dir="ltr" data-theme="dark">' in body
    assert 'data-single-keys="false"' in body


def _sources() -> str:
    environment = site().templates
    assert environment.loader is not None
    templates = [name for name in environment.list_templates() if name.startswith("console/")]
    drawn = [environment.loader.get_source(environment, name)[0] for name in templates]
    scripts = [one.content.decode() for one in site().assets.by_name.values() if one.name.endswith(".js")]
    pages = [path.read_text(encoding="utf-8") for path in Path(console_pages.__path__[0]).glob("*.py")]
    return "\n".join([*drawn, *scripts, *pages])


SAID = re.compile(r'\bsay\("([a-z_]+(?:\.\w+)*)"[,)]')
FAMILY = re.compile(r'["`]([a-z_]+\.)(?:"|\$\{)')
"""Texts whose last part comes from the interface."""


def test_every_text_of_the_console_is_used_and_every_used_one_exists() -> None:
    source, known = _sources(), set(console_language().texts)
    families = tuple({one for one in FAMILY.findall(source) if any(key.startswith(one) for key in known)})

    assert set(SAID.findall(source)) - known == set()
    assert {key for key in known if f'"{key}"' not in source and not key.startswith(families)} == set()


def test_a_text_that_is_missing_stops_the_page() -> None:
    values: dict[str, Any] = {"say": lambda key: console_language().texts[key]}

    with pytest.raises(KeyError):
        site().templates.from_string('{{ say("no.such") }}').render(**values)
