"""Map error kinds to problem codes, and codes to problem responses (G58, G86)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from app.http.endpoints import Call
from app.http.problem_texts import TEXT_OF, problem_type
from schemas.base import Frozen
from schemas.ids import VerificationId
from schemas.problems import (
    STATUS_OF,
    DecisionPending,
    FieldProblem,
    ImageNotEvaluable,
    ImageUndecodable,
    NotFound,
    Overloaded,
    ProblemCode,
    Refusal,
    Refused,
    StoreUnavailable,
    Unauthenticated,
)
from streams.ports.errors import Conflict, Damaged, Erased

MEDIA_TYPE: Final = "application/problem+json"

Code = ProblemCode

_KINDS: Final[tuple[tuple[type[Exception], Code, str], ...]] = (
    (NotFound, Code.NOT_FOUND, "No such thing for this caller."),
    (Erased, Code.NOT_FOUND, "The subject was erased; what was stored of it is gone."),
    (Unauthenticated, Code.UNAUTHENTICATED, "No usable credentials were presented."),
    (Overloaded, Code.OVERLOADED, "Too much is under way; ask again in a moment."),
    (ImageUndecodable, Code.IMAGE_UNDECODABLE, "An image cannot be decoded."),
    (ImageNotEvaluable, Code.IMAGE_NOT_EVALUABLE, "An image cannot be evaluated."),
    (Damaged, Code.STORE_FAILED, "Something that is stored cannot be read."),
    (Conflict, Code.STORE_FAILED, "Something was changed by somebody else at the same time."),
    (HttpProcessingError, Code.MALFORMED_JSON, "The request is not well-formed HTTP."),
    (ClientPayloadError, Code.MALFORMED_JSON, "The body cannot be decoded as its headers say."),
    (web.RequestPayloadError, Code.MALFORMED_JSON, "The body cannot be decoded as its headers say."),
    (web.HTTPUnauthorized, Code.UNAUTHENTICATED, "No usable credentials were presented."),
    (web.HTTPNotFound, Code.NOT_FOUND, "No such route."),
    (web.HTTPMethodNotAllowed, Code.METHOD_NOT_ALLOWED, "The route does not know this method."),
    (web.HTTPRequestEntityTooLarge, Code.PAYLOAD_TOO_LARGE, "The body is too large for this route."),
    (web.HTTPUnsupportedMediaType, Code.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json."),
    (web.HTTPClientError, Code.MALFORMED_JSON, "The request is not usable."),
)
"""The first kind that fits decides; `StoreUnavailable` is the route's own, all else is STORE_FAILED."""

_RETRY_AFTER_S: Final = {
    Code.STORE_UNAVAILABLE: 5,
    Code.DECISION_PENDING: 2,
    Code.OVERLOADED: 1,
    Code.RATE_LIMITED: 1,
}
"""When nothing better is known."""


class Problem(Frozen):
    """An answer that says no (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: ProblemCode
    request_id: str
    errors: tuple[FieldProblem, ...] | None = None
    verification_id: VerificationId | None = None
    """With DECISION_PENDING: the verification to read once it is decided."""


def refusal_of(error: Exception, store_failure: ProblemCode, *, keyed: bool = False) -> Refusal | None:
    """Return the problem for an error; None when the error is unexpected.

    `keyed` means that the request may be sent again: its Idempotency-Key finds the first answer.
    """
    if isinstance(error, Refused):
        return error.refusal
    if isinstance(error, DecisionPending):
        return Refusal(code=Code.DECISION_PENDING, detail=_advice(error, keyed=keyed))
    for kind, code, detail in _KINDS:
        if isinstance(error, kind):
            return Refusal(code=code, detail=detail)
    if isinstance(error, StoreUnavailable):
        return Refusal(code=store_failure, detail="A store cannot be reached for now.")
    return None


def _advice(pending: DecisionPending, *, keyed: bool) -> str:
    """Return the advice to the caller: only a request with a key may be sent again (R8)."""
    if keyed:
        return "The decision is not there yet; send it again with the same Idempotency-Key."
    if pending.verification_id is not None:
        where = f"/v1/verifications/{pending.verification_id}"
        return f"The decision is not there yet; read it at {where} instead of sending it again."
    return "The answer is not there yet; read what the request is about before sending it again."


def refused_fields(errors: Sequence[FieldProblem]) -> Refused:
    """Build the error of several fields: their common code, else VALIDATION_FAILED (G86)."""
    codes = {error.code for error in errors}
    code = codes.pop() if len(codes) == 1 else ProblemCode.VALIDATION_FAILED
    detail = errors[0].message if len(errors) == 1 else f"{len(errors)} places of the request are not valid."
    return Refused.because(code, detail, *errors)


def problem_response(
    refusal: Refusal, base_url: str, call: Call, verification_id: VerificationId | None = None
) -> web.Response:
    """Write a refusal as a problem; a verification that is decided later is named."""
    return render(refusal, base_url, call.request.rel_url.raw_path, call.request_id, verification_id)


def _places(refusal: Refusal, status: HTTPStatus) -> tuple[FieldProblem, ...] | None:
    """Return the places of the fault; a 422 always has one, "" for the state of the resource (R11)."""
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and not refusal.errors:
        return (FieldProblem(code=refusal.code, message=refusal.detail, pointer=""),)
    return refusal.errors or None


def render(
    refusal: Refusal,
    base_url: str,
    instance: str,
    request_id: str,
    verification_id: VerificationId | None = None,
) -> web.Response:
    """Write a refusal as a problem for an address and a request id."""
    status: HTTPStatus = STATUS_OF[refusal.code]
    problem = problem_of(refusal, base_url, instance, request_id, verification_id)
    response = web.Response(status=status, body=problem.to_bytes(), content_type=MEDIA_TYPE)
    if refusal.code in _RETRY_AFTER_S:
        response.headers["Retry-After"] = str(_RETRY_AFTER_S[refusal.code])
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="veristream"'
    return response


def problem_of(
    refusal: Refusal,
    base_url: str,
    instance: str,
    request_id: str,
    verification_id: VerificationId | None = None,
) -> Problem:
    """Return a refusal as the problem that says it."""
    status: HTTPStatus = STATUS_OF[refusal.code]
    return Problem(
        type=problem_type(base_url, refusal.code),
        title=TEXT_OF[refusal.code][0],
        status=status,
        detail=refusal.detail,
        instance=instance,
        code=refusal.code,
        request_id=request_id,
        errors=_places(refusal, status),
        verification_id=verification_id,
    )
