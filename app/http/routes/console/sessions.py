"""`/console/sessions`: the verification sessions, and one of them."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.sessions.list import PATH as LISTED
from app.http.routes.sessions.routes import PATH as SESSIONS
from app.http.routes.sessions.routes import SESSION_FORM
from schemas.enums import SessionStatus
from streams.verification.records import STATUS_OF

PATH: Final = f"{HOME}/sessions"
FILTERS: Final = ("status", "decision", "subject")


@dataclass(frozen=True, slots=True)
class SessionPages:
    """Draws the list of sessions, and one session."""

    console: Console

    async def show_list(self, call: Call) -> web.Response:
        """Answer a page of the sessions, newest first."""
        given, query = filters_of(call, *FILTERS)
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
        console_page(PATH, pages.show_list, "Show the verification sessions"),
        console_page(f"{PATH}/{{session_id}}", pages.show, "Show a verification session", forms),
    )
