"""The pages for people: `/docs`, of packaged pages and what the service knows of itself, and `/verify` (P1).

A session's token is in the fragment, which no browser sends: the capture page is the same for every session.
"""

import asyncio
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web

from app.http.asyncapi import describe_decisions
from app.http.endpoints import Call, Endpoint
from app.http.headers import language
from app.http.pages import CAMERA_HEADERS, HTML, PAGE_HEADERS, compressible, page_endpoint
from app.http.problem_texts import TEXT_OF
from app.http.responses import JSON
from app.web.assets import HASH_LENGTH, PREFIX
from app.web.documentation.markdown import block
from app.web.documentation.pages import DRAWN, FIRST, HOME, address_of, names, navigation, page
from app.web.documentation.reference import Family, families, shapes
from app.web.documentation.search import Section, index
from app.web.site import CODES, site
from schemas.problems import STATUS_OF, ProblemCode
from schemas.reason_catalogue import CATALOGUE

REFERENCE: Final = f"{HOME}/reference"
LANGUAGE: Final = "en"

Page = tuple[bytes, bytes]
"""As it is, and compressed with gzip."""

VERIFY: Final = "/verify"

ASSET: Final = PREFIX + "{name}"

IMMUTABLE: Final = "public, max-age=31536000, immutable"


class DocumentationRoutes:
    """Draws each page when it is first asked for, and keeps it."""

    def __init__(self, description: Callable[[], bytes]) -> None:
        """`description` returns the interface's description as JSON; it may take a second the first time."""
        self._description = description
        self._drawn: dict[str, Page] = {}

    async def show_home(self, call: Call) -> web.Response:
        """Answer the first page."""
        return await self._show(call, HOME)

    async def show(self, call: Call) -> web.Response:
        """Answer a page by its name."""
        return await self._show(call, f"{HOME}/{call.path_value('name')}")

    async def show_family(self, call: Call) -> web.Response:
        """Answer the operations of one family."""
        return await self._show(call, f"{REFERENCE}/{call.path_value('family')}")

    async def show_index(self, call: Call) -> web.Response:
        """Answer the index of the search, under the name of its content."""
        content, gzipped = await asyncio.to_thread(lambda: self._index)
        if call.path_value("digest") != _digest(content):
            raise web.HTTPNotFound
        return compressible(call.request, content, gzipped, JSON, {"Cache-Control": IMMUTABLE})

    async def _show(self, call: Call, address: str) -> web.Response:
        if address not in self._drawn:
            self._drawn[address] = await asyncio.to_thread(self._draw, address)
        headers = {**PAGE_HEADERS, "Content-Language": LANGUAGE}
        return compressible(call.request, *self._drawn[address], HTML, headers)

    def _draw(self, address: str) -> Page:
        template, values = self._content(address.removeprefix(HOME).removeprefix("/") or FIRST)
        body = site().draw(
            f"docs/{template}.html",
            LANGUAGE,
            address=address,
            navigation=navigation(),
            index=f"{PREFIX}docs-index.{_digest(self._index[0])}.json",
            version=version("veristream"),
            **values,
        )
        return body, gzip.compress(body, 9, mtime=0)

    def _content(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the template of a page and what it shows.

        Raises:
            web.HTTPNotFound: No page has this name.
        """
        if name in names():
            return "page", {"title": page(name).title, "article": page(name)}
        if name.startswith("reference/") and (family := self._families.get(name.removeprefix("reference/"))):
            return "family", {"title": family.name, "family": family}
        drawn = {
            "reference": self._reference,
            "problems": self._problems,
            "reasons": reasons,
            "events": events,
        }
        if name not in drawn:
            raise web.HTTPNotFound
        return name, {"title": DRAWN[name], **drawn[name]()}

    def _reference(self) -> Mapping[str, Any]:
        return {"families": self._families.values()}

    def _problems(self) -> Mapping[str, Any]:
        """Return every problem code with the operations that can answer it."""
        operations = defaultdict[str, list[Mapping[str, str]]](list)
        for family in self._families.values():
            for one in family.operations:
                link = {"title": one.summary, "address": f"{REFERENCE}/{family.slug}#{one.anchor}"}
                for code in {code for outcome in one.outcomes for code in outcome.codes}:
                    operations[code].append(link)
        return {
            "problems": [
                {
                    "code": code,
                    "status": int(STATUS_OF[code]),
                    "title": TEXT_OF[code][0],
                    "advice": TEXT_OF[code][1],
                    "operations": operations[code],
                }
                for code in ProblemCode
            ]
        }

    @cached_property
    def _families(self) -> Mapping[str, Family]:
        return {one.slug: one for one in families(json.loads(self._description()))}

    @cached_property
    def _index(self) -> Page:
        operations = (
            Section(
                title=family.name,
                heading=f"{one.method} {one.path}",
                page=f"{REFERENCE}/{family.slug}",
                anchor=one.anchor,
                words=one.summary.lower(),
            )
            for family in self._families.values()
            for one in family.operations
        )
        codes = (
            Section(title=DRAWN[name], heading=code, page=address_of(name), anchor=code, words="")
            for name, listed in (("problems", ProblemCode), ("reasons", CATALOGUE))
            for code in listed
        )
        content = index([*operations, *codes])
        return content, gzip.compress(content, 9, mtime=0)


def reasons() -> Mapping[str, Any]:
    """Return every reason by its category."""
    categories = defaultdict[str, list[Any]](list)
    for one in CATALOGUE.values():
        categories[one.category].append(one)
    return {"categories": categories}


def events() -> Mapping[str, Any]:
    """Return what is published, and its form."""
    document = describe_decisions()
    models = document["components"]["schemas"]
    return {
        "about": block(document["info"]["description"]),
        "topic": document["channels"]["decisions"]["address"],
        "shapes": shapes(("EventType", "DecisionEvent", "EventData"), models),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:HASH_LENGTH]


def documentation_endpoints(routes: DocumentationRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    family, name = {"family": "[a-z-]{1,40}"}, {"name": "[a-z-]{1,40}"}
    digest = {"digest": "[0-9a-f]{10}"}
    index = PREFIX + "docs-index.{digest}.json"
    return (
        page_endpoint(HOME, routes.show_home, "Show the first page of the documentation"),
        page_endpoint(REFERENCE + "/{family}", routes.show_family, "Show the operations of a family", family),
        page_endpoint(HOME + "/{name}", routes.show, "Show a page of the documentation", name),
        page_endpoint(
            index, routes.show_index, "Read the index of the documentation's search", digest, media_type=JSON
        ),
    )


async def show_verify(call: Call) -> web.Response:
    """Answer the capture page in the language the browser likes best among those there are."""
    code = language(call.request, CODES)
    page = _verify(code)
    headers = {**CAMERA_HEADERS, "Content-Language": code, "Vary": "Accept-Language"}
    return compressible(call.request, *page, HTML, headers)


@cache
def _verify(code: str) -> tuple[bytes, bytes]:
    page = site().draw("verify.html", code)
    return page, gzip.compress(page, 9, mtime=0)


async def show_asset(call: Call) -> web.Response:
    """Answer a static file; its name changes with its content, so it may be kept for good."""
    asset = site().assets.by_name.get(call.path_value("name"))
    if asset is None:
        raise web.HTTPNotFound
    headers = {"Cache-Control": IMMUTABLE}
    return compressible(call.request, asset.content, asset.gzipped, asset.media_type, headers)


def page_endpoints() -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    name = {"name": r"[a-z-]{1,40}\.[0-9a-f]{10}\.[a-z]{2,4}"}
    return (
        page_endpoint(VERIFY, show_verify, "Show the capture page"),
        page_endpoint(ASSET, show_asset, "Read a static file of the pages", name, media_type="text/css"),
    )
