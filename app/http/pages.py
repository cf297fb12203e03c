"""Answer with a page for people: its headers, and problems as pages (P2, P4)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.endpoints import Answer, Endpoint, Handler
from app.http.headers import wanted
from app.http.problem_texts import TEXT_OF
from app.web.site import site
from schemas.problems import STATUS_OF, ProblemCode

HTML: Final = "text/html"
PROBLEM: Final = "application/problem+json"

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No nonce, no hash, nothing inline."""

PAGE_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), display-capture=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}

CAMERA_HEADERS: Final = {
    **PAGE_HEADERS,
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), display-capture=()",
}
"""Of the page that takes pictures."""


def page_endpoint(
    path: str,
    handler: Handler,
    summary: str,
    path_forms: Mapping[str, str] | None = None,
    *,
    family: str = "Pages",
    media_type: str = HTML,
) -> Endpoint:
    """Return the route of a page, or of a file a page needs, which the interface does not describe."""
    return Endpoint(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        family=family,
        answers={HTTPStatus.OK: Answer("The page.", media_type=media_type)},
        path_forms=path_forms or {},
        described=False,
    )


def is_for_people(request: web.Request) -> bool:
    """Return whether a problem is to be answered as a page: a browser asks for one before JSON."""
    return request.method in {"GET", "HEAD"} and wanted(request, (PROBLEM, HTML)) == HTML


CONSOLE: Final = "/console"


def as_page(
    problem: web.Response, code: ProblemCode, detail: str, request_id: str, path: str
) -> web.Response:
    """Return the page that says what a problem says, with the same status."""
    title, advice = TEXT_OF[code]
    way_on = (
        (CONSOLE, "Go to the console") if path.startswith(CONSOLE) else ("/verify", "Continue a verification")
    )
    body = site().draw(
        "problem.html", "en", title=title, advice=advice, detail=detail, request_id=request_id, way_on=way_on
    )
    page = web.Response(
        body=body, status=problem.status, content_type=HTML, charset="utf-8", headers=PAGE_HEADERS
    )
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in problem.headers:
            page.headers[name] = problem.headers[name]
    return page


def explained(code: ProblemCode) -> web.Response:
    """Return the page that says what a problem code means, and leads to what can answer it."""
    title, advice = TEXT_OF[code]
    body = site().draw(
        "problem.html", "en", title=title, advice=advice, named=code, status=int(STATUS_OF[code]),
        way_on=(f"/docs/problems#{code}", "See what answers it"),
    )  # fmt: skip
    return web.Response(body=body, content_type=HTML, charset="utf-8", headers=PAGE_HEADERS)


def accepts_gzip(request: web.Request) -> bool:
    """Return whether the answer may be compressed with gzip."""
    given = ",".join(request.headers.getall("Accept-Encoding", ()))
    names = [one.partition(";") for one in given.split(",")]
    return any(name.strip().lower() == "gzip" and "q=0" not in rest.split() for name, _, rest in names)


def compressible(
    request: web.Request, content: bytes, gzipped: bytes, media_type: str, headers: dict[str, str]
) -> web.Response:
    """Answer with a text or its gzip copy."""
    headers = {**headers, "Vary": ", ".join(filter(None, (headers.get("Vary"), "Accept-Encoding")))}
    body = content
    if accepts_gzip(request):
        body, headers["Content-Encoding"] = gzipped, "gzip"
    return web.Response(
        body=body, status=HTTPStatus.OK, content_type=media_type, charset="utf-8", headers=headers
    )
