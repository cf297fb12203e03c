"""The pages for people and their static files: `/verify` and `/assets` (P1, P2, P6, G37).

A session's token is in the fragment, which no browser sends: the page is the same for every session.
"""

import gzip
from functools import cache
from typing import Final

from aiohttp import web

from app.http.endpoints import Call, Endpoint
from app.http.headers import language
from app.http.pages import CAMERA_HEADERS, HTML, compressible, page_endpoint
from app.web.assets import PREFIX
from app.web.site import CODES, site

VERIFY: Final = "/verify"
ASSET: Final = PREFIX + "{name}"
IMMUTABLE: Final = "public, max-age=31536000, immutable"


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
