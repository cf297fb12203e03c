"""`/console/verifications`: the list with its filters, newest first, and one of them explained."""

from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from app.http.case_actions import Viewer, may_be_appealed
from app.http.case_view import title_of
from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.explained import explained, read_verification
from app.http.routes.verifications import PATH as VERIFICATIONS
from app.http.routes.verifications import VERIFICATION_FORM
from schemas.audit import AuditAction
from schemas.enums import VerificationStatus
from schemas.people import PERMISSIONS_OF, Permission

LIST_PATH: Final = f"{HOME}/verifications"
FILTERS: Final = ("subject_id", "status")
PATH: Final = f"{HOME}/verifications/{{verification_id}}"


@dataclass(frozen=True, slots=True)
class VerificationListPages:
    """Draws the list."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer a page of verifications."""
        given, query = filters_of(call, *FILTERS)
        listed = await ask(call, VERIFICATIONS, query)
        return await self.console.show(
            call,
            "verifications.html",
            place="review",
            at="verifications",
            given=given,
            rows=listed["verifications"],
            following=listed["next_cursor"],
            statuses=[*VerificationStatus],
            title_of=title_of,
        )


def verification_list_endpoints(pages: VerificationListPages) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (console_page(LIST_PATH, pages.show, "Show the list of verifications"),)


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
