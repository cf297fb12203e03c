"""`/v1/capture`: what the subject's page may do with its client token (G66, G76)."""

import hashlib
import io
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import segno
from aiohttp import web

from app.http.bodies import BodyReader
from app.http.capture_view import seen, view_of
from app.http.endpoints import Call
from app.http.headers import bearer, etag, is_unchanged, language
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.sessions.bodies import CaptureImageBody, ConsentBody, SubmitCaptureBody
from app.intake.capture import StoredCapture, arrived
from app.intake.images import ReceivedImage, unpack_one
from app.web.site import CODES, language_of
from schemas.access import Tenant
from schemas.base import Frozen
from schemas.captures import CaptureLink, CaptureView, TenantShown
from schemas.enums import EvidenceKind
from schemas.ids import PLATFORM, SessionId, TenantId, VerificationId
from schemas.people import SentActor
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.sessions import (
    AddCapture,
    Captured,
    CaptureSource,
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
from streams.audit.rows import seal_actor
from streams.ports.records import RecordKind
from streams.sessions import rules
from streams.sessions.notices import LOCALE as NOTICE_LOCALE
from streams.sessions.notices import notice_for, shown_notice
from streams.tenants.settings import read_settings
from streams.verification.records import submission_label
from streams.verification.sandbox import scenario_for

SOURCE: Final = "Capture-Source"
_Image = Literal[EvidenceKind.IMAGE, EvidenceKind.SELFIE]

_NONE: Final = "*"
"""Offered first where languages are chosen: the caller names none of ours."""

ANSWER_S: Final = 10.0
_IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")


@dataclass(frozen=True, slots=True)
class CaptureRoutes:
    """What the subject's page may do."""

    ports: FrontPorts
    bodies: BodyReader
    base_url: str
    receiving: set[SessionId] = field(default_factory=set)
    """Sessions of which this front is receiving an image."""

    async def look(self, call: Call) -> web.Response:
        """Return the state of the session; a page that has it already is answered 304."""
        view = await self._view(call, await self.stored(call))
        tag = etag(hashlib.sha256(view.model_dump_json().encode()).hexdigest()[:32])
        if is_unchanged(call.request, tag):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
        return _answered(view, view.locale, headers={"ETag": tag})

    async def link(self, call: Call) -> web.Response:
        """Return the page's own address and its QR code, for another device."""
        stored = await self.stored(call)
        if stored.session.expires_at is None:
            raise NotFound
        url = f"{self.base_url}/verify#{bearer(call.request)}"
        drawn = io.BytesIO()
        segno.make(url, error="l", micro=False).save(drawn, kind="svg", scale=4, xmldecl=False, nl=False)
        shown = CaptureLink(url=url, qr_svg=drawn.getvalue().decode(), expires_at=stored.session.expires_at)
        return json_answer(shown.to_bytes())

    async def consent(self, call: Call) -> web.Response:
        """Note what the person chose about the notice."""
        body = await self.bodies.read(call, ConsentBody)
        page, actor = call.subject_page, await self.actor(call)
        version = notice_for(await self._policy(page.tenant_id)).version
        if body.notice_version != version:
            message = f"The notice has the version {version}; show that one."
            raise Refused.at("/notice_version", ProblemCode.VALIDATION_FAILED, message)
        command = StartSession(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=actor,
            requested_at=self.ports.clock(),
            accepted=body.accepted,
            notice_version=body.notice_version,
            locale=NOTICE_LOCALE if body.locale is None else body.locale,
        )
        await self.request(command)
        return await self.answer_view(call)

    async def document(self, call: Call) -> web.Response:
        """Keep the picture of the document."""
        return await self._keep_one(call, EvidenceKind.IMAGE)

    async def selfie(self, call: Call) -> web.Response:
        """Keep the picture of the face."""
        return await self._keep_one(call, EvidenceKind.SELFIE)

    async def _keep_one(self, call: Call, what: _Image) -> web.Response:
        return await self.one_at_a_time(call, self._keep(call, what))

    async def one_at_a_time(self, call: Call, keeping: Coroutine[Any, Any, web.Response]) -> web.Response:
        """Await what takes in an image; of one session only one is taken in at a time (P10)."""
        session_id = call.subject_page.session_id
        if session_id in self.receiving:
            keeping.close()
            raise Refused.because(ProblemCode.RATE_LIMITED, "Another image of this session is under way.")
        self.receiving.add(session_id)
        try:
            return await keeping
        finally:
            self.receiving.discard(session_id)

    async def _keep(self, call: Call, what: _Image) -> web.Response:
        page, stored = call.subject_page, await self.stored(call)
        rules.require_capturing(stored, what)  # before a body of megabytes is read
        source = _source(call)
        image = await self.read_image(call)
        capture = await self.ports.capture.keep(page.tenant_id, stored, what, image)
        command = AddCapture(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=await self.actor(call),
            requested_at=self.ports.clock(),
            attempt=capture.attempt,
            what=what,
            evidence_id=capture.evidence_id,
            reasons=capture.reasons,
            source=source,
        )
        await self.request(command)
        reasons = _reasons(capture, (await self.stored(call)).selfie)
        code = _language(call, stored)
        return _answered(seen(reasons, code), code)

    async def read_image(self, call: Call) -> ReceivedImage:
        """Return the image that is the body, or stands in it.

        Raises:
            Refused: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, IMAGE_UNDECODABLE, VALIDATION_FAILED.
        """
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
        page, stored = call.subject_page, await self.stored(call)
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
        command = SubmitSession(
            tenant_id=page.tenant_id,
            session_id=page.session_id,
            actor=await self.actor(call),
            requested_at=self.ports.clock(),
            attempt=attempt,
            sealed_submission=sealed,
        )
        await self._hand_in(call, command, stored, run)
        return await self.answer_view(call, HTTPStatus.ACCEPTED)

    async def answer_view(self, call: Call, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
        """Return the session as the page sees it now."""
        view = await self._view(call, await self.stored(call))
        return _answered(view, view.locale, status)

    async def _hand_in(
        self, call: Call, command: SubmitSession, stored: StoredSession, run: VerificationId
    ) -> None:
        """Hand a session in, at its tenant's turn if models are needed; its place is left at the outcome."""
        row, admission = stored.session, self.ports.intake.admission
        sandbox = scenario_for(row.subject_id, livemode=row.livemode) is not None
        if sandbox or row.status in rules.UNDER_WAY or admission.has_released(run):
            await self.request(command)
            return
        async with admission.place(call.tenant_id, run) as place:
            place.decided = partial(self._has_outcome, call)
            await self.request(command)
            place.goes_on = True

    async def _has_outcome(self, call: Call) -> bool:
        return (await self.stored(call)).session.status not in rules.UNDER_WAY

    async def stored(self, call: Call) -> StoredSession:
        """Return the session of the caller's token."""
        page = call.subject_page
        record = await self.ports.stores.records.get(page.tenant_id, RecordKind.SESSION, page.session_id)
        stored = stored_of(record.body)
        if stored is None:
            raise NotFound
        return stored

    async def _view(self, call: Call, stored: StoredSession) -> CaptureView:
        tenant_id, records = call.subject_page.tenant_id, self.ports.stores.records
        settings = await read_settings(records, tenant_id)
        record = await records.get(PLATFORM, RecordKind.TENANT, tenant_id)
        tenant = TenantShown(name=Tenant.from_bytes(record.body).name)
        notice = shown_notice(stored.consent, settings.verification_policy)
        return view_of(stored, notice, tenant, settings.retention, _language(call, stored))

    async def _policy(self, tenant_id: TenantId) -> PolicyChoice:
        return (await read_settings(self.ports.stores.records, tenant_id)).verification_policy

    async def actor(self, call: Call) -> SentActor:
        """Return the person as commands carry them."""
        return await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor)

    async def request(self, command: SessionCommandBase) -> SessionChanged:
        """Send a command about the session and wait for its answer."""
        topic = Topic.SESSION_COMMANDS
        return await self.ports.request_reply.request(
            topic, command.session_id, command, SessionChanged, ANSWER_S
        )


def _reasons(capture: StoredCapture, selfie: Captured | None) -> tuple[ReasonCode, ...]:
    """Return the reasons of an image: for a selfie, those of its face as well (P9)."""
    if selfie is not None and selfie.evidence_id == capture.evidence_id:
        return selfie.reasons
    return capture.reasons


def _language(call: Call, stored: StoredSession) -> str:
    """Return the language of an answer: the caller's, else the one the tenant named, else English (P6)."""
    asked = language(call.request, (_NONE, *CODES))
    return asked if asked != _NONE else language_of(stored.locale) or CODES[0]


def _source(call: Call) -> CaptureSource:
    """Return where the page says that an image comes from (P8).

    Raises:
        Refused: VALIDATION_FAILED.
    """
    given = call.request.headers.get(SOURCE, CaptureSource.UPLOAD)
    if given not in set(CaptureSource):
        message = f"The header must be one of {', '.join(CaptureSource)}."
        problem = FieldProblem(code=ProblemCode.VALIDATION_FAILED, message=message, header=SOURCE)
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message, problem)
    return CaptureSource(given)


def _answered(
    value: Frozen, code: str, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    named = {"Content-Language": code, "Vary": "Accept-Language", **(headers or {})}
    return json_answer(value.model_dump_json().encode(), status, named)
