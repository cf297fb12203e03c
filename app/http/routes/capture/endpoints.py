"""The routes of `/v1/capture` as data (G66, G76, P5, P7, P8)."""

from http import HTTPStatus
from typing import Final

from app.http.endpoints import CAPTURE, MEBIBYTE, Answer, Endpoint, Handler, Parameter
from app.http.idempotent_create import KEY_PROBLEMS, created_or_replayed
from app.http.routes.capture.movements import MovementRoutes
from app.http.routes.capture.routes import SOURCE, CaptureRoutes
from app.http.routes.control_sessions import IDEMPOTENCY
from app.http.routes.sessions.bodies import (
    CaptureImageBody,
    ConsentBody,
    DrawChallengeBody,
    SkipMovementsBody,
    SubmitCaptureBody,
)
from schemas.audit import AuditAction
from schemas.captures import CaptureLink, CaptureSeen, CaptureView, ChallengeDrawn, FrameJudged
from schemas.problems import ProblemCode
from schemas.sessions import CaptureSource

PATH: Final = "/v1/capture"
BODY_LIMIT: Final = 14 * MEBIBYTE
"""An image of 10 MB in base64 and the rest (G61)."""

_ASKING: Final = (ProblemCode.SESSION_FINISHED, ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED)
_KEEPING: Final = (
    *_ASKING,
    ProblemCode.CONSENT_REQUIRED,
    ProblemCode.IMAGE_UNDECODABLE,
    ProblemCode.IMAGE_NOT_EVALUABLE,
)
_LANGUAGE: Final = {"Content-Language": "The language of the texts; `locale` says it too."}
_SOURCE: Final = Parameter(
    SOURCE,
    "Where the image comes from, as the page says; shown to reviewers, proves nothing.",
    {"type": "string", "enum": [*CaptureSource], "default": CaptureSource.UPLOAD},
)
_IF_NONE_MATCH: Final = Parameter(
    "If-None-Match", "The ETag of the last answer; 304 while it is the same.", {"type": "string"}
)
_STORED: Final = Answer(
    "Kept; better take it again when it was not accepted.", CaptureSeen, headers=_LANGUAGE
)
_DRAWN: Final = (
    "Three of LEFT, RIGHT and UP, from the person's own view; only the first is told. The flow "
    "must have LIVENESS, and the selfie be the camera's (`Capture-Source: CAMERA`). There are 60 s for all "
    "three, or 120; at most 5 drawings an attempt, of which the newest counts."
)
_FRAME: Final = (
    "A JPEG of at most 300 kB whose shorter side has 480 to 720 pixels; at most 90 a challenge. A step out "
    "of order, or too late, is 409 `CHALLENGE_OVER`."
)
_RAW: Final = (
    "In place of JSON the body may be the image itself, sent as `image/jpeg`, `image/png`, `image/webp` or "
    "`application/octet-stream`."
)


def capture_endpoints(routes: CaptureRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    movements = MovementRoutes(routes)
    view = {HTTPStatus.OK: Answer("The session as its page sees it.", CaptureView, headers=_LANGUAGE)}
    tag = {"ETag": "Changes when the session does."}
    looked = {
        HTTPStatus.OK: Answer("The session as its page sees it.", CaptureView, headers={**_LANGUAGE, **tag}),
        HTTPStatus.NOT_MODIFIED: Answer("It is as it was.", media_type="", headers=tag),
    }
    link = {HTTPStatus.OK: Answer("The page's address for another device.", CaptureLink)}
    submitted = {
        HTTPStatus.ACCEPTED: Answer("Handed in; see GET for the outcome.", CaptureView, headers=_LANGUAGE)
    }
    return (
        Endpoint(
            method="GET", path=PATH, handler=routes.look, summary="See how the session stands",
            answers=looked, family="Capture", access=CAPTURE, problems=(ProblemCode.NOT_FOUND,),
            headers=(_IF_NONE_MATCH,), limited_as="capture",
        ),
        Endpoint(
            method="GET", path=f"{PATH}/link", handler=routes.link, summary="Continue on another device",
            answers=link, family="Capture", access=CAPTURE, problems=(ProblemCode.NOT_FOUND,),
            limited_as="capture",
        ),
        Endpoint(
            method="POST", path=f"{PATH}/consent", handler=routes.consent,
            summary="Accept or decline the notice", answers=view, family="Capture", access=CAPTURE,
            body=ConsentBody, problems=(*_ASKING, ProblemCode.NOT_FOUND),
            audits=(AuditAction.SESSION_STARTED,), limited_as="capture",
        ),
        _put("document", routes.document, "Send the picture of the document"),
        _put("selfie", routes.selfie, "Send the picture of the face"),
        *_movements(movements),
        Endpoint(
            method="POST", path=f"{PATH}/submit", handler=routes.submit, summary="Hand the images in",
            answers=submitted, family="Capture", access=CAPTURE, body=SubmitCaptureBody,
            problems=(*_ASKING, ProblemCode.CONSENT_REQUIRED, ProblemCode.NOT_FOUND),
            audits=(
                AuditAction.SESSION_SUBMITTED,
                AuditAction.VERIFICATION_EVALUATED,
                AuditAction.CASE_OPENED,
            ),
            limited_as="capture",
        ),
    )  # fmt: skip


def _movements(routes: MovementRoutes) -> tuple[Endpoint, ...]:
    path = f"{PATH}/challenge"
    problems = (*_ASKING, ProblemCode.CONSENT_REQUIRED, ProblemCode.NOT_FOUND)
    skipped = {HTTPStatus.OK: Answer("A person will look.", CaptureView, headers=_LANGUAGE)}
    return (
        Endpoint(
            method="POST", path=path, handler=routes.draw, summary="Draw movements of the head",
            answers=created_or_replayed(
                Answer("The first of three movements.", ChallengeDrawn), ChallengeDrawn,
                "The key drew the newest movements: the first answer again.",
            ),
            family="Capture", access=CAPTURE, body=DrawChallengeBody, headers=(IDEMPOTENCY,),
            problems=(*problems, *KEY_PROBLEMS, ProblemCode.CHALLENGE_OVER), limited_as="capture",
            description=_DRAWN,
        ),
        Endpoint(
            method="PUT", path=f"{path}/{{step}}", handler=routes.frame, summary="Send a frame of a movement",
            answers={HTTPStatus.OK: Answer("What to do next.", FrameJudged)}, family="Capture",
            access=CAPTURE, body=CaptureImageBody, body_limit=MEBIBYTE, path_forms={"step": "[1-3]"},
            problems=(*_KEEPING, ProblemCode.NOT_FOUND, ProblemCode.CHALLENGE_OVER),
            limited_as="capture_frames", description=f"{_FRAME} {_RAW}",
        ),
        Endpoint(
            method="POST", path=f"{path}/skip", handler=routes.skip, summary="Go on without movements",
            answers=skipped,
            family="Capture", access=CAPTURE, body=SkipMovementsBody, problems=problems, limited_as="capture",
        ),
    )  # fmt: skip


def _put(what: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        method="PUT",
        path=f"{PATH}/{what}",
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: _STORED},
        family="Capture",
        access=CAPTURE,
        body=CaptureImageBody,
        body_limit=BODY_LIMIT,
        headers=(_SOURCE,),
        problems=(*_KEEPING, ProblemCode.NOT_FOUND),
        limited_as="capture",
        description=_RAW,
    )
