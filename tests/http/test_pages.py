"""Pages for people without a browser: headers, static files, problems as pages."""

import gzip
import re
import unicodedata
from urllib.parse import urlsplit

import pytest

from app.web.assets import Asset
from app.web.site import CODES, languages, site
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import Front

PLAIN = {"Accept-Encoding": "identity"}
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_the_link_of_a_session_leads_to_the_capture_page(front: Front) -> None:
    page = await open_page(front, await publish_flow(await front.sign_in()))
    address = urlsplit(page.opened["url"])

    response = await front.ask("GET", address.path, None, headers=PLAIN)

    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert address.fragment == page.opened["client_token"]
    assert (address.query, page.opened["client_token"] in response.body.decode()) == ("", False)


async def test_the_page_runs_nothing_inline_and_may_use_the_camera(front: Front) -> None:
    response = await front.ask("GET", "/verify", None, headers=PLAIN)
    body, headers = response.body.decode(), response.headers

    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", body) == []
    assert headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert headers["Permissions-Policy"].startswith("camera=(self), microphone=()")
    assert [headers[name] for name in ("Cache-Control", "Referrer-Policy", "X-Robots-Tag")] == [
        "no-store", "no-referrer", "noindex",
    ]  # fmt: skip
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Set-Cookie" not in headers
    assert all(f" {name}" in body for name in ("playsinline", "muted"))


async def test_every_static_file_is_there_for_good_under_the_name_of_its_content(front: Front) -> None:
    for asset in site().assets.by_name.values():
        plain = await front.ask("GET", f"/assets/{asset.name}", None, headers=PLAIN)
        zipped = await front.ask("GET", f"/assets/{asset.name}", None, headers={"Accept-Encoding": "gzip"})

        assert plain.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "Content-Encoding" not in plain.headers
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert plain.body == gzip.decompress(zipped.body) == asset.content
        assert plain.headers["Content-Type"].startswith(asset.media_type)


async def test_every_file_that_pages_and_modules_name_exists(front: Front) -> None:
    named = {
        *re.findall(
            r"/assets/([\w.-]+)", (await front.ask("GET", "/verify", None, headers=PLAIN)).body.decode()
        )
    }
    for asset in site().assets.by_name.values():
        if asset.name.endswith(".js"):
            named |= {*re.findall(r'(?:from |await import\()"\./([^"]+)"', asset.content.decode())}

    assert named - set(site().assets.by_name) == set()
    assert (await front.ask("GET", "/assets/capture.0123456789.js", None)).status == 404
    assert (await front.ask("GET", "/assets/../app.js", None)).status == 404


IMPORTED = re.compile(r'(?:from |await import\()"\./([^"]+)"')


def capture_scripts() -> list[Asset]:
    """The scripts that the capture page loads, sooner or later."""
    named = site().assets.by_name
    found, rest = set[str](), {site().assets.by_plain_name["capture.js"].name}
    while rest:
        found |= rest
        rest = {one for name in rest for one in IMPORTED.findall(named[name].content.decode())} - found
    return [named[name] for name in found]


def test_the_scripts_are_small() -> None:
    scripts = [one for one in site().assets.by_name.values() if one.name.endswith(".js")]

    assert sum(len(one.gzipped) for one in capture_scripts()) <= 25_000
    assert [one.name for one in scripts if one.content.count(b"\n") > 200] == []


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (None, "en"), ("fr", "fr"), ("ar-EG", "ar"), ("yo-NG, en;q=0.9", "yo"),
        ("fr-CA, en;q=0.5", "fr"), ("en;q=0.2, de-AT;q=0.9", "de"),
        ("xx, pt;q=0.1", "pt"), ("xx", "en"), ("es;q=0", "en"), ("*", "en"), (";;q=x,,", "en"),
    ],
)  # fmt: skip
async def test_the_page_is_in_the_browsers_language_and_says_so(
    front: Front, wanted: str | None, given: str
) -> None:
    headers = PLAIN if wanted is None else {**PLAIN, "Accept-Language": wanted}
    response = await front.ask("GET", "/verify", None, headers=headers)

    assert response.headers["Content-Language"] == given
    assert response.headers["Vary"] == "Accept-Language, Accept-Encoding"
    direction = languages()[given].dir
    assert f'<html lang="{given}" dir="{direction}">' in response.body.decode()


async def test_only_get_and_head_are_known(front: Front) -> None:
    assert (await front.ask("HEAD", "/verify", None)).status == 200
    assert (await front.ask("POST", "/verify", None)).status == 405
    assert (await front.ask("GET", "/verify/x", None)).status == 404


async def test_a_browser_gets_a_problem_as_a_page_and_a_machine_as_json(front: Front) -> None:
    page = await front.ask("GET", "/v1/verifications", None, headers={"Accept": BROWSER})
    machine = await front.ask("GET", "/v1/verifications", None, headers={"Accept": "*/*"})
    written = await front.ask("POST", "/v1/verifications", None, headers={"Accept": BROWSER})

    assert (page.status, page.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert page.headers["X-Request-Id"] in page.body.decode()
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert (machine.status, machine.code, written.code) == (401, "UNAUTHENTICATED", "UNAUTHENTICATED")


def test_what_a_problem_says_is_text() -> None:
    body = site().draw(
        "problem.html",
        "en",
        title="a",
        advice="b",
        detail="<img onerror=x>",
        request_id="r",
        way_on=("/", "c"),
    )

    assert b"<img" not in body
    assert b"&lt;img onerror=x&gt;" in body


KEY = re.compile(r'(?:words\("\w+", |button\(language, |texts\[|data-text=)"([a-z_]+(?:\.\w+)?)"')
SAID = re.compile(r'"((?:camera|guide|check|number|picture|hand|kept|result|retry)\.[a-z_]+)"')
FAMILIES = re.compile(r"`(\w+)\.\$\{")
SAID_BY_NAME = (
    "api.",
    "reason.",
    "blocked.",
    "result.",
    "kept.",
    "step.",
    "picture.",
    "network.",
    "camera.",
    "hint.",
    "movements.",
)
"""Families of keys whose last part comes from the server or from a name in a script."""


def test_every_text_is_used_and_every_used_one_exists() -> None:
    source = site().templates.loader
    assert source is not None
    page = source.get_source(site().templates, "verify.html")[0]
    scripts = "".join(one.content.decode() for one in capture_scripts())
    used = {*KEY.findall(page), *SAID.findall(scripts), *re.findall(r'say\([^,]+, "(\w+)"', scripts)}
    known = set(languages()["en"].texts)

    assert used - known == set()
    unused = {key for key in known - used if not key.startswith(SAID_BY_NAME)}
    assert unused == set()
    assert {f"{one}." for one in FAMILIES.findall(scripts)} <= {*SAID_BY_NAME}


@pytest.mark.parametrize("code", CODES)
def test_a_language_says_everything_with_the_same_names_in_it(code: str) -> None:
    english, texts = languages()["en"].texts, languages()[code].texts

    assert set(texts) == set(english)
    names = {key: sorted(re.findall(r"\{\w+\}", text)) for key, text in english.items()}
    assert {key: sorted(re.findall(r"\{\w+\}", text)) for key, text in texts.items()} == names
    assert all(text.strip() == text != "" for text in texts.values())
    assert languages()[code].state


LINE = 40
"""Characters of a line on a screen of 320 px."""


@pytest.mark.parametrize("code", CODES)
def test_no_text_needs_more_room_than_a_fifth_above_the_english_one(code: str) -> None:
    english, texts = languages()["en"].texts, languages()[code].texts

    over_long = [
        key for key, text in texts.items() if _letters(text) > max(LINE, 1.2 * _letters(english[key]))
    ]

    assert over_long == []


def _letters(text: str) -> int:
    """Return how many letters wide a text is; marks above and below a letter take no room."""
    return sum(not unicodedata.combining(one) for one in unicodedata.normalize("NFD", text))
