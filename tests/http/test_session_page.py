"""Where a session's link leads, what comes back of what the tenant gave, and in which language it answers."""

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

from schemas.ids import SubjectId
from schemas.sessions import StoredSession
from streams.ports.records import RecordKind
from tests.builders import ACME
from tests.http.session_steps import PATH, open_page, open_session, publish_flow
from tests.http.support import Front

METADATA = {"order": "A-1", "total": 12.5, "vip": True, "x": None}
LANGUAGES = ("en", "fr", "pt", "es", "de")


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))


async def test_the_link_of_a_session_leads_to_a_page_that_says_what_to_do(front: Front) -> None:
    page = await open_page(front, await publish_flow(await front.sign_in()))
    address = urlsplit(page.opened["url"])

    response = await front.ask("GET", address.path, None)

    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "Go back to whoever sent you this link and tell them." in response.body.decode()
    assert address.fragment == page.opened["client_token"]
    assert (address.query, page.opened["client_token"] in response.body.decode()) == ("", False)


async def test_the_page_runs_nothing_loads_nothing_and_is_in_no_frame(front: Front) -> None:
    response = await front.ask("GET", "/verify", None)
    elements = Elements(response.body.decode()).found

    assert {tag for tag, _ in elements} <= {"html", "meta", "title", "main", "h1", "p", "small"}
    assert {name for _, attrs in elements for name in attrs} <= {"lang", "charset", "name", "content"}
    assert response.headers["Content-Security-Policy"] == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert response.headers["Permissions-Policy"].startswith("camera=(self), microphone=()")
    assert [response.headers[name] for name in ("Cache-Control", "Referrer-Policy", "X-Robots-Tag")] == [
        "no-store", "no-referrer", "noindex",
    ]  # fmt: skip
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (None, "en"), ("fr", "fr"), ("fr-CA, en;q=0.5", "fr"), ("en;q=0.2, de-AT;q=0.9", "de"),
        ("xx, pt;q=0.1", "pt"), ("xx", "en"), ("es;q=0", "en"), ("*", "en"), (";;q=x,,", "en"),
    ],
)  # fmt: skip
async def test_the_page_is_in_the_browsers_language_and_says_so(
    front: Front, wanted: str | None, given: str
) -> None:
    headers = {} if wanted is None else {"Accept-Language": wanted}
    response = await front.ask("GET", "/verify", None, headers=headers)

    assert (response.headers["Content-Language"], response.headers["Vary"]) == (given, "Accept-Language")
    assert f'<html lang="{given}">' in response.body.decode()


async def test_every_language_says_the_same_things(front: Front) -> None:
    pages = [
        (await front.ask("GET", "/verify", None, headers={"Accept-Language": one})).body.decode()
        for one in LANGUAGES
    ]

    assert len({len(re.findall("<p", page)) for page in pages}) == 1
    assert len(set(pages)) == len(LANGUAGES)


async def test_only_get_and_head_are_known(front: Front) -> None:
    assert (await front.ask("HEAD", "/verify", None)).status == 200
    assert (await front.ask("POST", "/verify", None)).status == 405
    assert (await front.ask("GET", "/verify/x", None)).status == 404


async def test_metadata_and_language_come_back_in_the_session(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    page = await open_page(front, flow_id, metadata=METADATA, locale="fr-CA")
    bare = await open_page(front, flow_id, "sim:approved@2")

    read = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    cancelled = (await front.ask("POST", f"{PATH}/{page.session_id}/cancel")).json
    other = (await front.ask("GET", f"{PATH}/{bare.session_id}")).json

    assert (read["metadata"], read["locale"]) == (METADATA, "fr-CA")
    assert (cancelled["metadata"], cancelled["locale"]) == (METADATA, "fr-CA")
    assert (other["metadata"], other["locale"]) == ({}, None)


async def test_metadata_is_gone_with_its_subject(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    page = await open_page(front, flow_id, metadata=METADATA)

    await front.stores.vault.destroy(ACME, SubjectId("sim:approved"))
    response = await front.ask("GET", f"{PATH}/{page.session_id}")

    assert (response.status, response.json["metadata"]) == (200, {})


async def test_the_capture_interface_says_which_language_it_answers_in(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    opened = await open_session(front, flow_id, locale="fr")
    page = await open_page(front, flow_id, "sim:approved@2", locale="yo")

    response = await page.ask("GET")
    consent = await page.consent()
    record = await front.stores.records.get(ACME, RecordKind.SESSION, page.session_id)
    stored = StoredSession.from_bytes(record.body).consent

    assert opened.status == 201
    assert (response.json["locale"], response.json["locales"]) == ("en", ["en"])
    assert [one.headers["Content-Language"] for one in (response, consent)] == ["en", "en"]
    assert stored is not None
    assert (stored.accepted, stored.locale) == (True, "en")
