"""`/v1/subjects/{subject_id}/…`: the erasure of a subject, its approval and its proof (G65, R13)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import StringConstraints

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.ids import ErasureId, SubjectId
from schemas.people import Permission
from schemas.privacy import Erasure, ErasureStatus
from schemas.problems import ProblemCode
from schemas.verifications import SUBJECT_PATTERN
from streams.retention.erasure_records import erase_command
from streams.retention.erasure_requests import ErasureRequests

ERASE: Final = "/v1/subjects/{subject_id}/erase"
APPROVE: Final = f"{ERASE}/approve"
ERASURE: Final = "/v1/subjects/{subject_id}/erasure"

_ACCESS: Final = reviewer(Permission.PRIVACY_MANAGE)
_FAMILY: Final = "Privacy"
_FORMS: Final = {"subject_id": SUBJECT_PATTERN}


class EraseBody(Frozen):
    """Why the subject is erased."""

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
    """Stored sealed, and shown with the erasure; not in the audit log."""


class ErasureAccepted(Frozen):
    """How far the erasure is."""

    erasure_id: ErasureId
    status: ErasureStatus


@dataclass(frozen=True, slots=True)
class PrivacyRoutes:
    """What the routes of erasures do."""

    ports: FrontPorts
    bodies: BodyReader
    requests: ErasureRequests

    async def erase(self, call: Call) -> web.Response:
        """Request the erasure; it is carried out at once where nobody else must agree."""
        body = await self.bodies.read(call, EraseBody)
        erasure = await self.requests.request(call.tenant_id, _subject(call), body.reason, call.actor)
        return await self._accepted(call, erasure)

    async def approve(self, call: Call) -> web.Response:
        """Agree to the erasure, as a second person."""
        return await self._accepted(
            call, await self.requests.approve(call.tenant_id, _subject(call), call.actor)
        )

    async def read(self, call: Call) -> web.Response:
        """Answer the erasure; once carried out, its proof."""
        erasure = await self.requests.proof(call.tenant_id, _subject(call))
        return json_answer(erasure.to_bytes())

    async def _accepted(self, call: Call, erasure: Erasure) -> web.Response:
        if erasure.status is ErasureStatus.APPROVED:
            await self.ports.hand(erase_command(call.tenant_id, erasure.erasure_id, self.ports.clock()))
        accepted = ErasureAccepted(erasure_id=erasure.erasure_id, status=erasure.status)
        return json_answer(accepted.to_bytes(), HTTPStatus.ACCEPTED)


def _subject(call: Call) -> SubjectId:
    return SubjectId(call.path_value("subject_id"))


def privacy_endpoints(routes: PrivacyRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="POST",
            path=ERASE,
            handler=routes.erase,
            summary="Erase a subject",
            description="Destroys the subject's data key, removes its evidence and ends its open sessions, "
            "in both modes; decisions and audit rows stay without personal data. A second person must "
            "approve it first where `four_eyes` is ALWAYS, or CRITICAL or OVERTURN and a decision of the "
            "subject has the risk CRITICAL. Asked again, it answers how far the erasure is.",
            answers={HTTPStatus.ACCEPTED: Answer("How far the erasure is.", ErasureAccepted)},
            family=_FAMILY,
            access=_ACCESS,
            path_forms=_FORMS,
            body=EraseBody,
            problems=(ProblemCode.LEGAL_HOLD,),
            audits=(AuditAction.PRIVACY_REQUESTED,),
        ),
        Endpoint(
            method="POST",
            path=APPROVE,
            handler=routes.approve,
            summary="Approve an erasure as a second person",
            answers={HTTPStatus.ACCEPTED: Answer("How far the erasure is.", ErasureAccepted)},
            family=_FAMILY,
            access=_ACCESS,
            path_forms=_FORMS,
            problems=(ProblemCode.LEGAL_HOLD, ProblemCode.SECOND_REVIEWER_MUST_DIFFER),
            audits=(AuditAction.PRIVACY_APPROVED,),
        ),
        Endpoint(
            method="GET",
            path=ERASURE,
            handler=routes.read,
            summary="Read an erasure and its proof",
            description="Once EXECUTED: who asked for it and agreed, when, which key was destroyed, what was "
            "removed, and where its row stands in the audit chain.",
            answers={HTTPStatus.OK: Answer("The erasure.", Erasure)},
            family=_FAMILY,
            access=_ACCESS,
            path_forms=_FORMS,
        ),
    )
