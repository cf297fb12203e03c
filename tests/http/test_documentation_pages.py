"""The documentation as pages: every page, link, route and code is there, and the search finds them."""

import json
import re
from html.parser import HTMLParser

import pytest
from markupsafe import escape
from typing_extensions import override

from app.web.documentation.pages import DRAWN, FIRST, address_of, names, navigation, page, source
from app.web.documentation.search import MAX_BYTES
from schemas.problems import ProblemCode
from schemas.reason_catalogue import CATALOGUE
from tests.documentation import DOCS
from tests.http.support import Front, Response

PLAIN = {"Accept-Encoding": "identity"}
RAW = {"/v1/openapi.json", "/v1/asyncapi.json"}


class Seen(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.forms: set[tuple[str | None, str | None]] = set()
        self.index = ""

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links, ids, forms, and what the policy of the pages would refuse."""
        given = dict(attrs)
        if "data-path" in given:
            self.forms.add((given["data-method"], given["data-path"]))
        self.index = given.get("data-index") or self.index
        for name, value in attrs:
            if name == "href" and value and tag == "a":
                self.links.add(value)
            elif name == "id" and value:
                self.ids.append(value)
            elif name == "style" or name.startswith("on"):
                self.inline.append(f"{tag} {name}")


def seen(response: Response) -> Seen:
    """Return what is in a page."""
    found = Seen()
    found.feed(response.body.decode())
    return found


async def read(front: Front, address: str) -> Response:
    """Return a page that exists."""
    response = await front.ask("GET", address, None, headers=PLAIN)
    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8"), address
    return response


async def test_every_page_is_whole_and_every_link_and_find_leads_to_its_place(front: Front) -> None:
    waiting, pages = ["/docs"], dict[str, Seen]()
    while waiting:
        address = waiting.pop()
        if address not in pages:
            pages[address] = seen(await read(front, address))
            waiting += [one.partition("#")[0] for one in pages[address].links if one.startswith("/docs")]

    def missing(address: str, link: str) -> bool:
        path, _, anchor = link.partition("#")
        path = path or address
        return path not in pages or bool(anchor and anchor not in pages[path].ids)

    inner = [(address, link) for address, page in pages.items() for link in page.links if "://" not in link]
    assert [(address, link) for address, link in inner if missing(address, link) and link not in RAW] == []
    assert [(address, page.inline) for address, page in pages.items() if page.inline] == []
    assert [address for address, page in pages.items() if len(page.ids) != len(set(page.ids))] == []
    assert {*map(address_of, (*names(), *DRAWN))} <= pages.keys()

    operations = [
        one["operationId"]
        for methods in (await front.ask("GET", "/v1/openapi.json", None)).json["paths"].values()
        for one in methods.values()
    ]
    listed = {link.partition("#")[2] for link in pages["/docs/reference"].links}
    assert ({*operations} - listed, len(operations) > 100) == (set(), True)
    assert {*map(str, ProblemCode)} <= {*pages["/docs/problems"].ids}
    assert {*map(str, CATALOGUE)} <= {*pages["/docs/reasons"].ids}
    assert ("POST", "/v1/verifications") in pages["/docs/reference/verifications"].forms
    assert pages["/docs/reference/members"].forms == set()

    response = await front.ask("GET", pages["/docs"].index, None, headers=PLAIN)
    found = json.loads(response.body)
    places = [
        (found["pages"][number][0], rest[0] if rest else heading)
        for number, heading, _, *rest in found["sections"]
    ]
    assert len(response.body) < MAX_BYTES
    assert response.headers["Cache-Control"].endswith("immutable")
    assert [(page, anchor) for page, anchor in places if missing(page, f"#{anchor}" if anchor else "")] == []
    assert any({"rotate", "root"} <= {*words.split()} for _, _, words, *_ in found["sections"])


def test_every_packaged_page_is_shown_and_the_readme_is_the_first() -> None:
    assert {*names()} == {path.stem for path in DOCS.glob("*.md")} | {"start"}
    assert {entry.address for entries in navigation().values() for entry in entries} >= {
        "/docs",
        "/docs/reference",
    }


def test_the_first_page_is_the_readme_with_both_commands() -> None:
    commands = re.findall(r"```bash\n(.*?)```", source(FIRST), re.DOTALL)[:2]

    assert len(commands) == 2
    assert all(str(escape(command)) in page(FIRST).body for command in commands)
    assert "&lt;!-- " not in page(FIRST).body


@pytest.mark.parametrize(
    "address", ["/docs/nothing", "/docs/reference/nothing", "/docs/start/x", "/docs/frame"]
)
async def test_a_page_that_does_not_exist_is_not_found(front: Front, address: str) -> None:
    assert (await front.ask("GET", address, None)).status == 404


async def test_the_pages_have_the_headers_of_pages_and_no_camera(front: Front) -> None:
    response = await read(front, "/docs/webhooks")
    missing = await front.ask("GET", "/assets/docs-index.0123456789.json", None)

    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert response.headers["Permissions-Policy"].startswith("camera=(),")
    assert (response.headers["Cache-Control"], response.headers["X-Robots-Tag"]) == ("no-store", "noindex")
    assert (await front.ask("HEAD", "/docs/webhooks", None)).status == 200
    assert (await front.ask("POST", "/docs", None)).status == 405
    assert missing.status == 404
