"""`/v1/asyncapi.json`: the description of the decision topic (G73)."""

import json
from functools import cache
from http import HTTPStatus

from aiohttp import web

from app.http.asyncapi import describe_decisions
from app.http.endpoints import Answer, Call, Endpoint
from app.http.responses import json_answer


def asyncapi_endpoints() -> tuple[Endpoint, ...]:
    """Return the route as data; its answer never changes while the process lives."""
    document = _document()

    async def read(_: Call) -> web.Response:
        return json_answer(document)

    return (
        Endpoint(
            method="GET",
            path="/v1/asyncapi.json",
            handler=read,
            summary="Read the description of the decision topic",
            family="Reference",
            answers={HTTPStatus.OK: Answer("An AsyncAPI 3.0 document.", {"type": "object"})},
        ),
    )


@cache
def _document() -> bytes:
    return json.dumps(describe_decisions(), ensure_ascii=False).encode()
