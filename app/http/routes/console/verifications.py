"""`/console/verifications` and `/console/sessions`: lists with filters, newest first, and one of each."""

from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from app.http.case_actions import Viewer, may_be_appealed
from app.http.case_view import title_of
from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.explained import explained, read_verification
from app.http.routes.sessions.list import PATH as LISTED
from app.http.routes.sessions.routes import PATH as SESSIONS
from app.http.routes.sessions.routes import SESSION_FORM
from app.http.routes.verifications import PATH as VERIFICATIONS
from app.http.routes.verifications import VERIFICATION_FORM
from schemas.audit import AuditAction
from schemas.enums import SessionStatus, VerificationStatus
from schemas.people import PERMISSIONS_OF, Permission
from streams.verification.records import STATUS_OF

LIST_PATH: Final = f"{HOME}/verifications"
FILTERS: Final = ("subject_id", "status")
PATH: Final = f"{HOME}/verifications/{{verification_id}}"

SESSION_PATH: Final = f"{HOME}/sessions"


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


@dataclass(frozen=True, slots=True)
class SessionPages:
    """Draws the list of sessions, and one session."""

    console: Console

    async def show_list(self, call: Call) -> web.Response:
        """Answer a page of the sessions, newest first."""
        given, query = filters_of(call, "status", "decision", "subject")
        listed = await ask(call, LISTED, query)
        return await self.console.show(
            call,
            "sessions.html",
            place="sessions",
            given=given,
            statuses=[*SessionStatus],
            decisions=[*STATUS_OF],
            rows=listed["sessions"],
            following=listed["next_cursor"],
            narrowed=any(given.values()),
        )

    async def show(self, call: Call) -> web.Response:
        """Answer one session as it stands."""
        session = await ask(call, f"{SESSIONS}/{call.path_value('session_id')}")
        return await self.console.show(
            call, "session.html", place="sessions", livemode=session["livemode"], session=session
        )


def session_page_endpoints(pages: SessionPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    forms = {"session_id": SESSION_FORM}
    return (
        console_page(SESSION_PATH, pages.show_list, "Show the verification sessions"),
        console_page(f"{SESSION_PATH}/{{session_id}}", pages.show, "Show a verification session", forms),
    )
