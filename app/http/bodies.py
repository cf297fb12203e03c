"""Read request bodies: bounded in bytes, time and memory, strict JSON, validated with a pointer per error."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.http import strict_json
from app.http.endpoints import Call
from app.http.problems import refused_fields
from schemas.ids import TenantId
from schemas.problems import FieldProblem, Overloaded, ProblemCode, Refused

THREAD_BYTES: Final = 128 * 1024
"""Bodies from here on are parsed in a thread (measured: a hop there and back 0.06 ms, 128 KiB 0.1 ms)."""

MAX_ERRORS: Final = 50
"""Places named in one answer."""

_MAX_POINTER: Final = 200
"""Characters; a pointer repeats the caller's own keys."""

_SAVED_PATIENCE: Final = 20
"""How many times longer a body that is written to a file may take."""

Body = TypeVar("Body", bound=BaseModel)


class BodyBudget:
    """Bound on the bytes of bodies in memory: of the whole front, and half of it for one tenant.

    Callers that nobody knows yet, such as at a sign-in, share one half.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes
        self._most_of_one = limit_bytes // 2
        self._in_memory: Counter[TenantId | None] = Counter()

    def take(self, call: Call, count: int) -> None:
        """Reserve bytes for a call.

        Raises:
            Overloaded: The others hold too much, or the tenant itself.
        """
        holder = call.holder
        if count > self._left or self._in_memory[holder] + count > self._most_of_one:
            raise Overloaded
        self._left -= count
        self._in_memory[holder] += count
        call.body_bytes += count

    def give_back(self, call: Call) -> None:
        """Release all that a call had reserved."""
        if not call.body_bytes:
            return
        holder = call.holder
        self._left += call.body_bytes
        self._in_memory[holder] -= call.body_bytes
        if not self._in_memory[holder]:
            del self._in_memory[holder]
        call.body_bytes = 0


class BodyReader:
    """Reads JSON bodies within their route's limit."""

    def __init__(self, budget: BodyBudget, timeout_s: float) -> None:
        self._budget = budget
        self._timeout_s = timeout_s

    async def read(self, call: Call, model: type[Body]) -> Body:
        """Return the body as the model; where every field is optional, no body means `{}`.

        Raises:
            Refused: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, MALFORMED_JSON (a body that does not arrive
                in time included: the closed list knows no 408), or what the model refuses, place by place.
            Overloaded: Too many bytes are in memory already.
        """
        if not (model.model_fields or call.request.can_read_body):
            return model()
        _require_json(call.request)
        raw = await self._receive(call)
        scale = call.endpoint.body_scale if call.endpoint else 1
        if len(raw) < THREAD_BYTES:
            return _validated(raw, model, scale)
        return await asyncio.to_thread(_validated, raw, model, scale)

    async def read_bytes(self, call: Call) -> bytes:
        """Return a body of whatever type as it arrives.

        Raises:
            Refused: PAYLOAD_TOO_LARGE, MALFORMED_JSON when it does not arrive in time.
            Overloaded: Too many bytes are in memory already.
        """
        return await self._receive(call)

    async def save(self, call: Call, path: Path) -> None:
        """Write a large body to a file as it arrives; it takes nothing of the memory for bodies.

        Raises:
            Refused: PAYLOAD_TOO_LARGE, MALFORMED_JSON when it does not arrive in time.
        """
        limit = call.endpoint.body_limit if call.endpoint else 0
        if (call.request.content_length or 0) > limit:
            raise _too_large(limit)
        await _invite(call.request)
        total = 0
        try:
            async with asyncio.timeout(_SAVED_PATIENCE * self._timeout_s):
                with path.open("wb") as file:
                    while part := await call.request.content.readany():
                        total += len(part)
                        if total > limit:
                            raise _too_large(limit)
                        await asyncio.to_thread(file.write, part)
        except TimeoutError:
            call.headers["Connection"] = "close"
            raise Refused.because(ProblemCode.MALFORMED_JSON, "The body did not arrive in time.") from None

    async def _receive(self, call: Call) -> bytes:
        request = call.request
        limit = call.endpoint.body_limit if call.endpoint else 0
        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        if request.content.is_eof():  # it came with its head, as nearly always: nothing is waited for
            return await self._collect(call, limit)
        await _invite(request)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._collect(call, limit)
        except TimeoutError:
            call.headers["Connection"] = "close"
            raise Refused.because(ProblemCode.MALFORMED_JSON, "The body did not arrive in time.") from None

    async def _collect(self, call: Call, limit: int) -> bytes:
        parts: list[bytes] = []
        total = 0
        while part := await call.request.content.readany():
            total += len(part)
            if total > limit:
                raise _too_large(limit)
            self._budget.take(call, len(part))
            parts.append(part)
        return b"".join(parts)


def _require_json(request: web.Request) -> None:
    charset = (request.charset or "utf-8").lower()
    if request.content_type != "application/json" or charset not in {"utf-8", "utf8"}:
        detail = "The body must be application/json in UTF-8."
        raise Refused.because(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)


async def _invite(request: web.Request) -> None:
    """Send `100 Continue` if the client waits for it."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def _too_large(limit: int) -> Refused:
    return Refused.because(ProblemCode.PAYLOAD_TOO_LARGE, f"The body has more than {limit} bytes.")


def _validated(raw: bytes, model: type[Body], scale: int = 1) -> Body:
    value = strict_json.parse(raw, scale)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise refused_fields([field_problem(one) for one in found[:MAX_ERRORS]]) from None


def field_problem(error: ErrorDetails | Mapping[str, Any]) -> FieldProblem:
    """Return one validation error as a place and a code, never the value that was given."""
    kind = str(error["type"])
    code = ProblemCode(kind) if kind in ProblemCode.__members__ else ProblemCode.VALIDATION_FAILED
    message = str(error["msg"]).removeprefix("Value error, ")
    return FieldProblem(code=code, message=message, pointer=pointer_to(error["loc"]))


def pointer_to(place: Iterable[str | int]) -> str:
    """Write a place as a JSON pointer (RFC 6901)."""
    parts = [str(part) for part in place if part != "[key]"]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)[:_MAX_POINTER]
