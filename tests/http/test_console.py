"""The frame of the console without a browser: redirects, headers, escaping, roles and texts."""

import re
from typing import Any

import pytest

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from app.web.places import places
from app.web.site import site
from app.web.texts import console_language
from schemas.people import PERMISSIONS_OF, Permission, Role
from streams.sign_in.session_cookies import COOKIE
from tests.http.console import BROWSER, HTML, enter, open_page, open_unknown
from tests.http.support import Front
from tests.http.test_review_cases import open_case

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


PAGES: dict[str, Permission | None] = {
    "/": None,
    "/console": None,
    QUEUE: Permission.CASES_READ,
    ACCOUNT: None,
}
"""Every page that needs no id, and what a role needs to see it."""


async def test_every_page_is_in_the_table(front: Front) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))

    assert {one.path for one in endpoints if one.family == "Console" and "{" not in one.path} == set(PAGES)


@pytest.mark.parametrize("role", Role)
async def test_a_role_is_offered_and_shown_what_its_permissions_say(front: Front, role: Role) -> None:
    who = await enter(front, role)
    granted = PERMISSIONS_OF[role]

    for path, needed in PAGES.items():
        answer = await who.ask("GET", path, headers={"Accept": BROWSER, "Origin": None})
        allowed = needed is None or needed in granted
        if path not in {"/", "/console"}:
            assert answer.status == (200 if allowed else 403), path
    offered = {one.path for one in places() if one.permission is None or one.permission in granted}
    page = await open_page(who, ACCOUNT)
    assert {path for path in PAGES if f'<li><a href="{path}"' in page.body.decode()} == offered


def _sources() -> str:
    environment = site().templates
    assert environment.loader is not None
    templates = [name for name in environment.list_templates() if name.startswith("console/")]
    drawn = [environment.loader.get_source(environment, name)[0] for name in templates]
    scripts = [one.content.decode() for one in site().assets.by_name.values() if one.name.endswith(".js")]
    return "\n".join([*drawn, *scripts])


SAID = re.compile(r'\bsay\("([a-z_]+(?:\.\w+)*)"')
FAMILY = re.compile(r'\bsay\("([a-z_]+\.)" \+')


def test_every_text_of_the_console_is_used_and_every_used_one_exists() -> None:
    source, known = _sources(), set(console_language().texts)
    families = tuple(set(FAMILY.findall(source)))

    used = set(SAID.findall(source))

    assert used - known == set()
    assert {key for key in known - used if not key.startswith(families)} == set()
    assert [one for one in families if not any(key.startswith(one) for key in known)] == []


def test_a_text_that_is_missing_stops_the_page() -> None:
    values: dict[str, Any] = {"say": lambda key: console_language().texts[key]}

    with pytest.raises(KeyError):
        site().templates.from_string('{{ say("no.such") }}').render(**values)
