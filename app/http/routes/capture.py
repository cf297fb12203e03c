"""`/v1/capture`: what the subject's page may do with its client token (G66, G76)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Literal

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.endpoints import CAPTURE, MEBIBYTE, Answer, Call, Endpoint, Handler
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.sessions.bodies import CaptureImageBody, ConsentBody, SubmitCaptureBody
from app.intake.capture import arrived
from app.intake.images import ReceivedImage, unpack_one
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.captures import CaptureResult, CaptureSeen, CaptureView, NoticeShown
from schemas.enums import EvidenceKind, SessionStatus
from schemas.ids import TenantId, VerificationId
from schemas.people import SentActor
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.sessions import (
    AddCapture,
    Captured,
    SessionChanged,
    SessionCommandBase,
    StartSession,
    StoredSession,
    SubmitSession,
    stored_of,
)
from schemas.tenant_settings import PolicyChoice
from schemas.topics import Topic
from schemas.verifications import DeclaredDocument, Submission
from streams.audit.actors import seal_actor
from streams.ports.records import RecordKind
from streams.sessions import rules
from streams.sessions.notices import Notice, notice_for, shown_notice
from streams.tenants.settings import read_settings
from streams.verification.records import submission_label
from streams.verification.rules import to_reasons
from streams.verification.sandbox import scenario_for

PATH: Final = "/v1/capture"
ANSWER_S: Final = 10.0
BODY_LIMIT: Final = 14 * MEBIBYTE
"""An image of 10 MB in base64 and the rest (G61)."""

LOCALE: Final = "en"
"""The language of the notice, of reasons and of results; a notice is never translated by a machine."""

_IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")

_Outcome = Literal["VERIFIED", "IN_REVIEW", "NOT_VERIFIED"]

_RESULTS: Final[Mapping[SessionStatus, tuple[_Outcome, str]]] = MappingProxyType(
    {
        SessionStatus.APPROVED: ("VERIFIED", "Thank you. Your identity was verified."),
        SessionStatus.REVIEW_REQUIRED: (
            "IN_REVIEW",
            "Thank you. A person will look at it now.",
        ),
        SessionStatus.FAILED: (
            "IN_REVIEW",
            "It could not be completed now. You will hear what comes next.",
        ),
        SessionStatus.REJECTED: ("NOT_VERIFIED", "Your identity could not be verified."),
    }
)
"""Three ways to end, in plain words; the reasons are the tenant's to tell."""


@dataclass(frozen=True, slots=True)
class CaptureRoutes:
    """What the subject's page may do."""

    ports: FrontPorts
    bodies: BodyReader

    async def look(self, call: Call) -> web.Response:
        """Answer how the session stands."""
        return _answered(await self._view(call, await self._stored(call)))

    async def consent(self, call: Call) -> web.Response:
        """Note what the person chose about the notice."""
        body = await self.bodies.read(call, ConsentBody)
        page, actor = call.subject_page, await self._actor(call)
        version = notice_for(await self._policy(page.tenant_id)).version
        if body.notice_version != version:
            message = f"The notice has the version {version}; show that one."
            raise Refused.at("/notice_version", ProblemCode.VALIDATION_FAILED, message)
        wish = StartSession(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=actor,
            requested_at=self.ports.clock(),
            accepted=body.accepted,
            notice_version=body.notice_version,
            locale=LOCALE,
        )
        await self._ask(wish)
        return await self.look(call)

    async def document(self, call: Call) -> web.Response:
        """Keep the picture of the document."""
        return await self._keep(call, EvidenceKind.IMAGE)

    async def selfie(self, call: Call) -> web.Response:
        """Keep the picture of the face."""
        return await self._keep(call, EvidenceKind.SELFIE)

    async def _keep(self, call: Call, what: Literal[EvidenceKind.IMAGE, EvidenceKind.SELFIE]) -> web.Response:
        page, stored = call.subject_page, await self._stored(call)
        rules.require_capturing(stored, what)  # before a body of megabytes is read
        image = await self._image(call)
        kept = await self.ports.capture.keep(page.tenant_id, stored, what, image)
        wish = AddCapture(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=await self._actor(call),
            requested_at=self.ports.clock(),
            attempt=kept.attempt,
            what=what,
            evidence_id=kept.evidence_id,
            reasons=kept.reasons,
        )
        await self._ask(wish)
        return _answered(_seen(kept.reasons))

    async def _image(self, call: Call) -> ReceivedImage:
        kind = call.request.content_type
        if kind == "application/json":
            body = await self.bodies.read(call, CaptureImageBody)
            return unpack_one("/image_base64", body.image_base64)
        if kind not in _IMAGE_TYPES:
            detail = "Send the image itself (image/jpeg, image/png, image/webp) or application/json."
            raise Refused.because(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
        return arrived(await self.bodies.read_bytes(call))

    async def submit(self, call: Call) -> web.Response:
        """Hand the images in; the outcome is read with GET."""
        body = await self.bodies.read(call, SubmitCaptureBody)
        page, stored = call.subject_page, await self._stored(call)
        if stored.session.status not in rules.UNDER_WAY:
            rules.require_submitting(stored)
        codes = {one.code for one in stored.configuration.documents}
        if body.document_code is not None and body.document_code not in codes:
            message = "The flow does not accept such a document."
            raise Refused.at("/document_code", ProblemCode.VALIDATION_FAILED, message)
        attempt = rules.attempt_of(stored)
        run = rules.verification_id(page.tenant_id, page.session_id, attempt)
        declared = DeclaredDocument(number_last4=body.number_last4)
        plain = Submission(declared=declared, ip=call.address).to_bytes()
        sealed = await self.ports.stores.vault.seal(
            page.tenant_id, stored.session.subject_id, submission_label(run), plain
        )
        wish = SubmitSession(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=await self._actor(call),
            requested_at=self.ports.clock(),
            attempt=attempt,
            sealed_submission=sealed,
        )
        await self._hand_in(call, wish, stored, run)
        return _answered(await self._view(call, await self._stored(call)), HTTPStatus.ACCEPTED)

    async def _hand_in(
        self, call: Call, wish: SubmitSession, stored: StoredSession, run: VerificationId
    ) -> None:
        """Hand a session in, at its tenant's turn if models are needed; its place is left at the outcome."""
        row, admission = stored.session, self.ports.intake.admission
        sandbox = scenario_for(row.subject_id, livemode=row.livemode) is not None
        if sandbox or row.status in rules.UNDER_WAY or admission.has_released(run):
            await self._ask(wish)
            return
        async with admission.place(call.tenant_id, run) as place:
            place.decided = partial(self._has_outcome, call)
            await self._ask(wish)
            place.goes_on = True

    async def _has_outcome(self, call: Call) -> bool:
        return (await self._stored(call)).session.status not in rules.UNDER_WAY

    async def _stored(self, call: Call) -> StoredSession:
        page = call.subject_page
        record = await self.ports.stores.records.get(page.tenant_id, RecordKind.SESSION, page.session_id)
        stored = stored_of(record.body)
        if stored is None:
            raise NotFound
        return stored

    async def _view(self, call: Call, stored: StoredSession) -> CaptureView:
        return _view(stored, shown_notice(stored.consent, await self._policy(call.subject_page.tenant_id)))

    async def _policy(self, tenant_id: TenantId) -> PolicyChoice:
        return (await read_settings(self.ports.stores.records, tenant_id)).verification_policy

    async def _actor(self, call: Call) -> SentActor:
        return await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor)

    async def _ask(self, wish: SessionCommandBase) -> SessionChanged:
        topic = Topic.SESSION_COMMANDS
        return await self.ports.gateway.ask(topic, wish.session_id, wish, SessionChanged, ANSWER_S)


def _view(stored: StoredSession, notice: Notice) -> CaptureView:
    row, consent = stored.session, stored.consent
    if row.expires_at is None:
        raise ValueError("a hosted session has an end")
    accepted_at = consent.decided_at if consent is not None and consent.accepted else None
    outcome = _RESULTS.get(row.status)
    return CaptureView(
        session_id=row.session_id,
        status=row.status,
        flow_type=row.flow_type,
        required_checks=stored.configuration.required_checks,
        documents=stored.configuration.documents,
        consent=NoticeShown(notice_version=notice.version, text=notice.text, accepted_at=accepted_at),
        document=_captured(stored.document),
        selfie=_captured(stored.selfie),
        retry_reasons=to_reasons(stored.retry_reasons),
        attempts_left=rules.attempts_left(stored),
        expires_at=row.expires_at,
        locale=LOCALE,
        locales=(LOCALE,),
        return_url=stored.configuration.return_url,
        result=CaptureResult(outcome=outcome[0], message=outcome[1]) if outcome is not None else None,
    )


def _captured(image: Captured | None) -> CaptureSeen | None:
    return _seen(image.reasons) if image is not None else None


def _seen(reasons: Sequence[ReasonCode]) -> CaptureSeen:
    return CaptureSeen(accepted=not reasons, reasons=to_reasons(reasons))


def _answered(value: Frozen, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return json_answer(value.model_dump_json().encode(), status, {"Content-Language": LOCALE})


_ASKING: Final = (ProblemCode.SESSION_FINISHED, ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED)
_KEEPING: Final = (
    *_ASKING,
    ProblemCode.CONSENT_REQUIRED,
    ProblemCode.IMAGE_UNDECODABLE,
    ProblemCode.IMAGE_NOT_EVALUABLE,
)
_LANGUAGE: Final = {"Content-Language": "The language of the texts; `locale` says it too."}
_KEPT: Final = Answer("Kept; better take it again when it was not accepted.", CaptureSeen, headers=_LANGUAGE)
_RAW: Final = (
    "In place of JSON the body may be the image itself, sent as `image/jpeg`, `image/png`, `image/webp` or "
    "`application/octet-stream`."
)


def capture_endpoints(routes: CaptureRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    view = {HTTPStatus.OK: Answer("The session as its page sees it.", CaptureView, headers=_LANGUAGE)}
    submitted = {
        HTTPStatus.ACCEPTED: Answer("Handed in; see GET for the outcome.", CaptureView, headers=_LANGUAGE)
    }
    return (
        Endpoint(
            method="GET", path=PATH, handler=routes.look, summary="See how the session stands",
            answers=view, family="Capture", access=CAPTURE, problems=(ProblemCode.NOT_FOUND,),
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


def _put(what: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        method="PUT",
        path=f"{PATH}/{what}",
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: _KEPT},
        family="Capture",
        access=CAPTURE,
        body=CaptureImageBody,
        body_limit=BODY_LIMIT,
        problems=(*_KEEPING, ProblemCode.NOT_FOUND),
        limited_as="capture",
        description=_RAW,
    )
