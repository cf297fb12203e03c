"""The outermost middleware: request id, problem responses, access log without personal data, metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from uuid import UUID

import structlog
from aiohttp import web

from app.http.bodies import BodyBudget
from app.http.denials import Denials
from app.http.endpoints import CALL, Call
from app.http.headers import address_of
from app.http.pages import as_page, is_for_people
from app.http.ports import FrontSettings
from app.http.problems import problem_response, refusal_of
from app.http.responses import dress
from app.observability.metrics import Metrics
from schemas.ids import encode_id
from schemas.problems import DecisionPending, Overloaded, ProblemCode, Refusal

UNMATCHED: Final = "(none)"
"""Stands in logs and metrics for a route that does not exist; what was asked for is not repeated."""

UNFORESEEN: Final = Refusal(
    code=ProblemCode.STORE_FAILED, detail="Something failed that should not have; the request id names it."
)

_QUIET_ROUTES: Final = frozenset({"/livez", "/readyz", "/metrics"})
"""Asked every few seconds by machines; they are logged at debug."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Watch:
    """The outermost middleware: log, count and answer every request."""

    settings: FrontSettings
    standing: Mapping[str, str]
    metrics: Metrics
    budget: BodyBudget
    fresh_uuid: Callable[[], UUID]
    now: Callable[[], float]
    """Monotonic, seconds."""
    denials: Denials

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer the request whatever happens, and log it."""
        call = Call(
            request=request,
            request_id=encode_id("req", self.fresh_uuid()),
            started=self.now(),
            address=address_of(request, self.settings.trusted_proxies),
        )
        request[CALL] = call
        self.metrics.in_flight.inc()
        try:
            response = await self._answer(call, handler)
            if not response.prepared:
                dress(response, call, self.standing)
            self._tell(call, response.status)
        except (ConnectionError, asyncio.CancelledError):
            self._tell(call, 0)  # nobody is there to be answered
            raise
        finally:
            self.metrics.in_flight.dec()
            self.budget.give_back(call)
        return response

    async def _answer(self, call: Call, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(call.request)
        except ConnectionError:
            raise
        except web.HTTPMethodNotAllowed as error:
            return self._other_method(call, error)
        except Exception as error:  # noqa: BLE001 - the outermost place: nobody else would answer
            return self._problem(call, error)

    def _other_method(self, call: Call, error: web.HTTPMethodNotAllowed) -> web.StreamResponse:
        """Answer OPTIONS with the methods there are, anything else with 405 and the same list (S66)."""
        call.headers["Allow"] = ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
        if call.request.method == "OPTIONS":
            return web.Response(status=HTTPStatus.NO_CONTENT)
        return self._problem(call, error)

    def _problem(self, call: Call, error: Exception) -> web.StreamResponse:
        refusal = refusal_of(error, call.store_failure, keyed=call.replayable)
        self._tell_failure(call, error, refusal)
        if call.begun:
            raise ConnectionError("the answer was cut short") from error
        refusal = refusal or UNFORESEEN
        if isinstance(error, Overloaded) and error.retry_after_s is not None:
            call.headers["Retry-After"] = str(error.retry_after_s)
        self.metrics.problems.labels(refusal.code.value).inc()
        self.denials.note(call, error, refusal.code)
        awaited = error.verification_id if isinstance(error, DecisionPending) else None
        problem = problem_response(refusal, self.settings.base_url, call, awaited)
        if is_for_people(call.request):
            return as_page(problem, refusal.code, refusal.detail, call.request_id, call.request.path)
        return problem

    def _tell_failure(self, call: Call, error: Exception, refusal: Refusal | None) -> None:
        if refusal is None:
            _log.error(
                "http.failed", request_id=call.request_id, route=_route(call), **_whose(call), exc_info=error
            )
        elif refusal.code in {ProblemCode.STORE_FAILED, ProblemCode.STORE_UNAVAILABLE}:
            _log.warning("http.store_failed", request_id=call.request_id, **_whose(call), exc_info=error)

    def _tell(self, call: Call, status: int) -> None:
        took_s = self.now() - call.started
        route, method = _route(call), call.request.method
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.request_seconds.labels(route).observe(took_s)
        tell = _log.debug if route in _QUIET_ROUTES else _log.info
        tell(
            "http.answered",
            method=method,
            route=route,
            status=status,
            duration_ms=round(took_s * 1000, 2),
            request_id=call.request_id,
            key_id=call.key_id,
            **_whose(call),
            **({} if call.reviewer is None else {"reviewer_id": call.reviewer.reviewer_id}),
        )


def _whose(call: Call) -> dict[str, str]:
    return {} if call.holder is None else {"tenant_id": call.holder}


def _route(call: Call) -> str:
    return call.endpoint.path if call.endpoint is not None else UNMATCHED
