"""`/v1/control/review-cases` and the appeal: the queue and what reviewers do with it (G42, G87, G89)."""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.endpoints import Access, Answer, Call, Endpoint, Handler, Parameter, reviewer
from app.http.headers import etag, if_match
from app.http.idempotent_create import (
    KEY_PROBLEMS,
    LOCATION,
    REPLAYED,
    created_at,
    created_or_replayed,
    name_created,
)
from app.http.ports import FrontPorts
from app.http.presenters import CaseTexts
from app.http.responses import json_answer
from app.http.routes.control_sessions import IDEMPOTENCY
from app.http.routes.review_cases.bodies import (
    AssignBody,
    ConcludeBody,
    NoteBody,
    NothingSaid,
    TextBody,
    case_dispositions,
)
from app.http.routes.review_cases.input_request import AskAgain
from app.http.routes.review_cases.queue import ANSWER_S, PATH, QueueRoutes, queue_endpoints
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.ids import ReviewCaseId, VerificationId, encode_id
from schemas.people import Permission
from schemas.problems import ProblemCode, Refused
from schemas.reviews import (
    AssignCase,
    CaseChanged,
    CaseCommandBase,
    CaseOutcome,
    ClaimCase,
    ConcludeCase,
    EscalateCase,
    NoteCase,
    OpenAppeal,
    ReleaseCase,
    ReopenCase,
    ReviewCase,
    StoredCase,
)
from schemas.topics import Topic
from schemas.verifications import StoredVerification
from streams.audit.rows import seal_actor
from streams.ports.records import Record, RecordKind
from streams.reviews.rules import appeal_id

APPEAL_PATH: Final = "/v1/control/verifications/{verification_id}/appeal"
CASE_FORM: Final = r"rc_[0-9a-hjkmnp-tv-z]{26}"
VERIFICATION_FORM: Final = r"ver_[0-9a-hjkmnp-tv-z]{26}"


@dataclass(frozen=True, slots=True)
class CaseRoutes:
    """What the routes of review cases do."""

    ports: FrontPorts
    bodies: BodyReader
    texts: CaseTexts

    async def read(self, call: Call) -> web.Response:
        """Answer one case, its notes opened."""
        record = await self._get(call, ReviewCaseId(call.path_value("review_case_id")))
        return await self._answer(call, record)

    async def claim(self, call: Call) -> web.Response:
        """Take the case for half an hour."""
        await self.bodies.read(call, NothingSaid)
        return await self._changed(call, ClaimCase)

    async def assign(self, call: Call) -> web.Response:
        """Give the case to a colleague."""
        body = await self.bodies.read(call, AssignBody)
        return await self._changed(call, AssignCase, reviewer_id=body.reviewer_id)

    async def release(self, call: Call) -> web.Response:
        """Give the case back."""
        await self.bodies.read(call, NothingSaid)
        return await self._changed(call, ReleaseCase)

    async def note(self, call: Call) -> web.Response:
        """Add a remark."""
        body = await self.bodies.read(call, TextBody)
        return await self._changed(call, NoteCase, **await self._written(call, body.text))

    async def escalate(self, call: Call) -> web.Response:
        """Hand the case to a lead."""
        body = await self.bodies.read(call, NoteBody)
        return await self._changed(call, EscalateCase, **await self._written(call, body.note))

    async def reopen(self, call: Call) -> web.Response:
        """Reopen a concluded case."""
        body = await self.bodies.read(call, NoteBody)
        return await self._changed(call, ReopenCase, **await self._written(call, body.note))

    async def conclude(self, call: Call) -> web.Response:
        """Conclude the case; the conclusion records the reviewer."""
        seen = if_match(call.request, required=False)
        body = await self.bodies.read(call, ConcludeBody)
        record = await self._get(call, ReviewCaseId(call.path_value("review_case_id")))
        case = _case(record)
        asked: tuple[str, str] | tuple[None, None] = (None, None)
        if body.outcome is CaseOutcome.REQUEST_INPUT:
            asked = await AskAgain(self.ports)(call, case, record.version, body.flow_id)
        elif body.flow_id is not None:
            message = "A flow is named only to ask the subject again (REQUEST_INPUT)."
            raise Refused.at("/flow_id", ProblemCode.VALIDATION_FAILED, message)
        return await self._changed(
            call,
            ConcludeCase,
            may_overturn=call.person.may(Permission.CASES_OVERTURN),
            outcome=body.outcome,
            reason_codes=body.reason_codes,
            sealed_note=await self.texts.seal(call.tenant_id, case.subject_id, body.note),
            flow_id=asked[0],
            session_id=asked[1],
            seen=seen,
            dispositions=case_dispositions(body, self.ports.clock()),
        )

    async def appeal(self, call: Call) -> web.Response:
        """Open an appeal against a final decision and return its case."""
        body = await self.bodies.read(call, NoteBody)
        verification_id = VerificationId(call.path_value("verification_id"))
        records = self.ports.stores.records
        claimed = await records.get(call.tenant_id, RecordKind.VERIFICATION, verification_id)
        stored = StoredVerification.from_bytes(claimed.body)
        verification = stored.verification
        named = name_created(
            "apl", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=stored.livemode
        )
        command = OpenAppeal(
            tenant_id=call.tenant_id,
            review_case_id=appeal_id(call.tenant_id, verification_id, verification.decision_id),
            actor=await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor),
            requested_at=self.ports.clock(),
            reviewer_id=call.person.reviewer_id,
            verification_id=verification_id,
            note_id=encode_id("nt", self.ports.fresh_uuid()),
            sealed_text=await self.texts.seal(call.tenant_id, verification.subject_id, body.note),
            key=named.id if call.replayable else None,
            fingerprint=named.fingerprint,
        )
        changed = await self._request(command)
        record = await self._get(call, changed.review_case_id)
        shown = await self.texts.show(call.tenant_id, replace(record, body=record.first_body))
        if changed.replayed:
            return json_answer(shown, headers={REPLAYED: "true"})
        return json_answer(shown, HTTPStatus.CREATED, created_at(PATH, changed.review_case_id))

    async def _written(self, call: Call, written: str) -> dict[str, Any]:
        record = await self._get(call, ReviewCaseId(call.path_value("review_case_id")))
        sealed = await self.texts.seal(call.tenant_id, _case(record).subject_id, written)
        return {"note_id": encode_id("nt", self.ports.fresh_uuid()), "sealed_text": sealed}

    async def _changed(self, call: Call, command: type[CaseCommandBase], **said: Any) -> web.Response:
        case_id = ReviewCaseId(call.path_value("review_case_id"))
        common = {
            "tenant_id": call.tenant_id,
            "review_case_id": case_id,
            "actor": await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor),
            "requested_at": self.ports.clock(),
            "reviewer_id": call.person.reviewer_id,
        }
        await self._request(command(**{**common, **said}))
        return await self._answer(call, await self._get(call, case_id))

    async def _answer(self, call: Call, record: Record) -> web.Response:
        shown = await self.texts.show(call.tenant_id, record)
        return json_answer(shown, headers={"ETag": etag(record.version)})

    async def _request(self, command: CaseCommandBase) -> CaseChanged:
        topic = Topic.REVIEW_COMMANDS
        return await self.ports.request_reply.request(
            topic, command.review_case_id, command, CaseChanged, ANSWER_S
        )

    async def _get(self, call: Call, case_id: ReviewCaseId) -> Record:
        return await self.ports.stores.records.get(call.tenant_id, RecordKind.REVIEW_CASE, case_id)


def _case(record: Record) -> ReviewCase:
    return StoredCase.from_bytes(record.body).case


_IF_MATCH: Final = Parameter("If-Match", "The version the conclusion is meant for.", {"type": "string"})
_TAG: Final = {"ETag": "The version of the case, quoted."}


def case_endpoints(routes: CaseRoutes, queue: QueueRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    works, concludes = reviewer(Permission.CASES_WORK), reviewer(Permission.CASES_CONCLUDE)
    reads, overturns = reviewer(Permission.CASES_READ), reviewer(Permission.CASES_OVERTURN)
    action = AuditAction
    concluding = (
        action.CASE_CONCLUDED,
        action.CASE_FIRST_CONCLUDED,
        action.CASE_ESCALATED,
        action.SESSION_CREATED,
        action.TRANSACTION_DECISION_CHANGED,
        action.SUBJECT_REINSTATED,
        action.DISPOSITION_CREATED,
    )
    claimed = (ProblemCode.CASE_ALREADY_CONCLUDED, ProblemCode.CASE_CLAIMED)
    decided = (
        *claimed,
        ProblemCode.SECOND_REVIEWER_MUST_DIFFER,
        ProblemCode.EVIDENCE_NOT_VIEWED,
        ProblemCode.FLOW_ARCHIVED,
        ProblemCode.FLOW_NOT_PUBLISHED,
        ProblemCode.NO_REFERENCE_FACE,
        ProblemCode.PRECONDITION_FAILED,
    )
    return (
        *queue_endpoints(queue),
        Endpoint(
            method="GET",
            path=PATH + "/{review_case_id}",
            handler=routes.read,
            summary="Read a review case",
            answers={HTTPStatus.OK: Answer("As it stands.", ReviewCase, headers=_TAG)},
            family="Review cases",
            access=reads,
            path_forms={"review_case_id": CASE_FORM},
        ),
        _write("claim", routes.claim, NothingSaid, works, (action.CASE_ASSIGNED,), claimed),
        _write("assign", routes.assign, AssignBody, works, (action.CASE_ASSIGNED,), claimed),
        _write("release", routes.release, NothingSaid, works, (action.CASE_RELEASED,), claimed),
        _write("notes", routes.note, TextBody, works, (action.CASE_NOTED,)),
        _write("escalate", routes.escalate, NoteBody, works, (action.CASE_ESCALATED,), claimed),
        replace(
            _write("conclude", routes.conclude, ConcludeBody, concludes, concluding, decided),
            headers=(_IF_MATCH,),
        ),
        _write("reopen", routes.reopen, NoteBody, overturns, (action.CASE_REOPENED,)),
        replace(
            _write("appeal", routes.appeal, NoteBody, works, (action.CASE_OPENED,), KEY_PROBLEMS),
            path=APPEAL_PATH,
            path_forms={"verification_id": VERIFICATION_FORM},
            summary="Open an appeal against a final decision",
            answers=created_or_replayed(
                Answer("The case, as it was opened.", ReviewCase, headers=LOCATION), ReviewCase
            ),
            headers=(IDEMPOTENCY,),
        ),
    )


def _write(
    verb: str,
    handler: Handler,
    body: type[Frozen],
    access: Access,
    audits: tuple[AuditAction, ...],
    problems: tuple[ProblemCode, ...] = (),
) -> Endpoint:
    waits = (ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED)
    return Endpoint(
        method="POST",
        path=f"{PATH}/{{review_case_id}}/{verb}",
        handler=handler,
        summary=f"{verb.capitalize()} a review case",
        answers={HTTPStatus.OK: Answer("The case.", ReviewCase, headers=_TAG)},
        family="Review cases",
        access=access,
        path_forms={"review_case_id": CASE_FORM},
        body=body,
        problems=(*problems, *waits),
        audits=audits,
    )
