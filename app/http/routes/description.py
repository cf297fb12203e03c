"""`/v1/openapi.json` and `/v1/asyncapi.json`: the descriptions of the interface and the decision topic."""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus

from aiohttp import web

from app.http.asyncapi import describe_decisions
from app.http.endpoints import Answer, Call, Endpoint
from app.http.openapi import describe
from app.http.responses import json_answer
from app.http.routes.documentation import DocumentationRoutes, documentation_endpoints


def with_description(endpoints: Sequence[Endpoint], base_url: str) -> tuple[Endpoint, ...]:
    """Return the routes, the one that describes them all, and the pages that show the description.

    The document is made when it is first asked for, in a thread: a start needs none.
    """

    @cache
    def document() -> bytes:
        described = [one for one in everything if one.described]
        return json.dumps(describe(described, base_url), ensure_ascii=False).encode()

    async def read(_: Call) -> web.Response:
        return json_answer(await asyncio.to_thread(document))

    endpoint = Endpoint(
        method="GET",
        path="/v1/openapi.json",
        handler=read,
        summary="Read this description",
        family="Reference",
        answers={HTTPStatus.OK: Answer("An OpenAPI 3.1 document.", {"type": "object"})},
    )
    everything = (*endpoints, endpoint)
    return (*documentation_endpoints(DocumentationRoutes(document)), *everything)


def asyncapi_endpoints() -> tuple[Endpoint, ...]:
    """Return the route as data; its answer never changes while the process lives."""

    async def read(_: Call) -> web.Response:
        return json_answer(await asyncio.to_thread(_document))

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
