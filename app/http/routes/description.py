"""`/v1/openapi.json`: the description of the interface as it is served (G67)."""

import json
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint
from app.http.openapi import describe
from app.http.responses import json_answer


def with_description(endpoints: Sequence[Endpoint], base_url: str) -> tuple[Endpoint, ...]:
    """Return the routes and the one that describes them all, itself included."""

    async def read(_: Call) -> web.Response:
        return json_answer(document)

    endpoint = Endpoint(
        method="GET",
        path="/v1/openapi.json",
        handler=read,
        summary="Read this description",
        family="Reference",
        answers={HTTPStatus.OK: Answer("An OpenAPI 3.1 document.", {"type": "object"})},
    )
    everything = (*endpoints, endpoint)
    described = [one for one in everything if one.described]
    document = json.dumps(describe(described, base_url), ensure_ascii=False).encode()
    return everything
