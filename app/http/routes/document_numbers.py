"""`POST /v1/verifications/{id}/reveal-number`: the whole document number, for reviewers only (P18, G11)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.evidence import viewed_row
from app.http.routes.explanations import stored_findings
from app.http.routes.review_cases.bodies import NothingSaid
from app.http.routes.verifications import PATH as VERIFICATIONS
from app.http.routes.verifications import VERIFICATION_FORM, find_stored
from schemas.audit import AuditAction
from schemas.explanations import RevealedNumber
from schemas.people import Permission
from schemas.problems import NotFound
from streams.audit.commit import act

PATH: Final = f"{VERIFICATIONS}/{{verification_id}}/reveal-number"


@dataclass(frozen=True, slots=True)
class NumberRoutes:
    """What the route of document numbers does."""

    ports: FrontPorts
    bodies: BodyReader

    async def reveal(self, call: Call) -> web.Response:
        """Return the number read on the document; the look is audited first."""
        await self.bodies.read(call, NothingSaid)
        stored = await find_stored(self.ports, call, call.path_value("verification_id"))
        number = (await stored_findings(self.ports, call, stored)).get("number")
        if not isinstance(number, str) or not number:
            raise NotFound
        verification_id = stored.verification.verification_id
        detail = f"The document number of verification {verification_id} was looked at."
        row = viewed_row(self.ports, call, stored, detail, {"field": "document_number"})
        await self.ports.commit(act(call.tenant_id, row))
        return json_answer(RevealedNumber(number=number).to_bytes())


def number_endpoints(routes: NumberRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.reveal,
            summary="Reveal the document number of a verification",
            description="The whole number as it was read, while the evidence of the reading is stored; later "
            "and where no number was read, 404. Every other answer shows its last four characters at most. "
            "Each look is a row of the audit log, and a reviewer session has ten a minute.",
            answers={HTTPStatus.OK: Answer("The number.", RevealedNumber)},
            family="Verifications",
            access=reviewer(Permission.EVIDENCE_READ),
            path_forms={"verification_id": VERIFICATION_FORM},
            body=NothingSaid,
            audits=(AuditAction.EVIDENCE_VIEWED,),
            limited_as="reveal_number",
        ),
    )
