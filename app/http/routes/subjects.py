"""`/v1/control/subjects/{subject_id}`: whether a subject is suspended, and its reinstatement (G121)."""

from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import StrictBool, StringConstraints

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.listing import modes
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from schemas.audit import AuditAction
from schemas.base import Frozen, Timestamp
from schemas.ids import SubjectId, TransactionId
from schemas.people import Permission
from schemas.problems import NotFound, ProblemCode
from schemas.transaction_decisions import SubjectStanding
from schemas.verifications import SUBJECT_PATTERN
from streams.privacy.sealing import refusing_erased
from streams.transactions.reinstating import Reinstate, Reinstatement

SUBJECT: Final = "/v1/control/subjects/{subject_id}"
REINSTATE: Final = f"{SUBJECT}/reinstate"

_FAMILY: Final = "Transactions"
_FORMS: Final = {"subject_id": SUBJECT_PATTERN}


class SubjectState(Frozen):
    """What lasts of decisions about a subject in a mode."""

    subject_id: SubjectId
    livemode: bool
    suspended: bool
    suspended_at: Timestamp | None = None
    suspended_by: TransactionId | None = None
    """The transaction whose decision suspended it."""


class ReinstateBody(Frozen):
    """Why the subject is reinstated, and in which mode."""

    note: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
    """Stored sealed; not in the audit log."""
    livemode: StrictBool = True


@dataclass(frozen=True, slots=True)
class SubjectRoutes:
    """What the routes of subjects do."""

    ports: FrontPorts
    bodies: BodyReader
    reinstating: Reinstate

    async def read(self, call: Call) -> web.Response:
        """Answer what lasts of decisions about the subject, in live data if it is known there."""
        subject_id = _subject(call)
        for livemode in modes(call):
            with suppress(NotFound):
                standing = await self.reinstating.standing(call.tenant_id, subject_id, livemode=livemode)
                return json_answer(_state(subject_id, standing, livemode=livemode).to_bytes())
        raise NotFound

    async def reinstate(self, call: Call) -> web.Response:
        """Lift the suspension."""
        body, subject_id = await self.bodies.read(call, ReinstateBody), _subject(call)
        asked = Reinstatement(subject_id, body.livemode, body.note, call.actor)
        with refusing_erased():
            standing = await self.reinstating(call.tenant_id, asked)
        return json_answer(_state(subject_id, standing, livemode=body.livemode).to_bytes())


def _subject(call: Call) -> SubjectId:
    return SubjectId(call.path_value("subject_id"))


def _state(subject_id: SubjectId, standing: SubjectStanding, *, livemode: bool) -> SubjectState:
    return SubjectState(
        subject_id=subject_id,
        livemode=livemode,
        suspended=standing.suspended_by is not None,
        suspended_at=standing.suspended_at,
        suspended_by=standing.suspended_by,
    )


def subject_endpoints(routes: SubjectRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    livemode = Parameter(
        "livemode",
        "Of live data, or of test data; without it, the first of them that knows the subject.",
        {"type": "boolean"},
    )
    return (
        Endpoint(
            method="GET",
            path=SUBJECT,
            handler=routes.read,
            summary="Read whether a subject is suspended",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("What lasts of decisions about the subject.", SubjectState)},
            access=reviewer(Permission.TRANSACTIONS_READ),
            path_forms=_FORMS,
            parameters=(livemode,),
        ),
        Endpoint(
            method="POST",
            path=REINSTATE,
            handler=routes.reinstate,
            summary="Lift a subject's suspension",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The subject, not suspended any more.", SubjectState)},
            access=reviewer(Permission.CASES_CONCLUDE),
            path_forms=_FORMS,
            body=ReinstateBody,
            problems=(ProblemCode.SUBJECT_NOT_SUSPENDED,),
            audits=(AuditAction.SUBJECT_REINSTATED,),
        ),
    )
