"""Build JSON responses with the headers every response carries (S63)."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import LooseHeaders

from app.http.endpoints import Call

JSON: Final = "application/json"
YAML: Final = "application/yaml"

_ALWAYS: Final = {
    "Server": "veristream",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_HSTS: Final = ("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
"""One year, and only where the public address is https."""


def json_answer(
    body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: LooseHeaders | None = None
) -> web.Response:
    """Answer with a JSON text that is already written."""
    return web.Response(body=body, status=status, content_type=JSON, headers=headers)


def json_value(value: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer with a value made of the JSON types."""
    return json_answer(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), status)


def json_list(name: str, rows: Sequence[bytes], next_cursor: str | None) -> web.Response:
    """Answer with a list in its envelope (G88); `next_cursor` is null at the end."""
    cursor = b'"' + next_cursor.encode() + b'"' if next_cursor is not None else b"null"
    body = b'{"%b":[%b],"next_cursor":%b}' % (name.encode(), b",".join(rows), cursor)
    return json_answer(body)


def standing_headers(base_url: str) -> Mapping[str, str]:
    """Return the headers of every answer of a front with this public address."""
    return dict([*_ALWAYS.items(), _HSTS] if base_url.startswith("https://") else _ALWAYS)


def dress(response: web.StreamResponse, call: Call, standing: Mapping[str, str]) -> None:
    """Give an answer its request id, the headers collected by the call, and the standing headers it lacks."""
    headers = response.headers
    headers["X-Request-Id"] = call.request_id
    for name, value in call.headers.items():
        headers[name] = value
    for name, value in standing.items():
        if name not in headers:
            headers[name] = value
