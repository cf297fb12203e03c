"""`/console/verifications/{id}`: a verification explained, with its case and the way to an appeal."""

from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from app.http.case_actions import Viewer, may_be_appealed
from app.http.console import HOME, Console, console_page
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.explained import explained, read_verification
from app.http.routes.verifications import VERIFICATION_FORM
from schemas.audit import AuditAction
from schemas.people import PERMISSIONS_OF, Permission

PATH: Final = f"{HOME}/verifications/{{verification_id}}"


@dataclass(frozen=True, slots=True)
class VerificationPages:
    """Draws one verification."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer the verification as it stands."""
        verification = await read_verification(call, call.path_value("verification_id"))
        viewer = Viewer(call.person.reviewer_id, PERMISSIONS_OF[call.person.role])
        values = {
            **await explained(call, self.console.records, verification, viewer),
            "appeal": viewer.may(Permission.CASES_WORK) and may_be_appealed(verification),
        }
        return await self.console.show(
            call, "verification.html", place="review", livemode=verification.livemode, **values
        )


def verification_page_endpoints(pages: VerificationPages) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    page = console_page(PATH, pages.show, "Show a verification", {"verification_id": VERIFICATION_FORM})
    return (replace(page, audits=(AuditAction.EVIDENCE_VIEWED,)),)
