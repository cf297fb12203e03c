"""`/problems/<code>`: what a problem's `type` leads to, for people and for programs (G67)."""

from html import escape
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint
from app.http.negotiation import wanted
from app.http.problem_texts import TEXT_OF, kebab
from app.http.responses import JSON, json_value
from schemas.problems import STATUS_OF, NotFound, ProblemCode

HTML: Final = "text/html"

_BY_NAME: Final = {kebab(code): code for code in ProblemCode}

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{code}</title>
<h1>{title}</h1>
<p><code>{code}</code>, answered with status {status}.</p>
<p>{advice}</p>
</html>
"""


async def explain(call: Call) -> web.Response:
    """Answer what a code means and what a caller can do."""
    code = _BY_NAME.get(call.path_value("code"))
    if code is None:
        raise NotFound
    title, advice = TEXT_OF[code]
    status = int(STATUS_OF[code])
    if wanted(call.request, (JSON, HTML)) == HTML:
        page = _PAGE.format(code=code, title=escape(title), status=status, advice=escape(advice))
        return web.Response(text=page, content_type=HTML)
    return json_value({"code": code, "title": title, "status": status, "advice": advice})


def problem_endpoints() -> tuple[Endpoint, ...]:
    """Return the route as data."""
    names = ("code", "title", "status", "advice")
    kinds = {name: {"type": "integer" if name == "status" else "string"} for name in names}
    schema = {"type": "object", "properties": kinds, "required": [*names]}
    return (
        Endpoint(
            method="GET",
            path="/problems/{code}",
            handler=explain,
            summary="Explain a problem code",
            family="Reference",
            answers={HTTPStatus.OK: Answer("What the code means.", schema, also=(HTML,))},
            path_forms={"code": "[a-z-]{1,64}"},
        ),
    )
