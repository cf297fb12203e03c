"""`/console/verifications`: the list of verifications, newest first, with its filters."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.case_view import title_of
from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.verifications import PATH as VERIFICATIONS
from schemas.enums import VerificationStatus

PATH: Final = f"{HOME}/verifications"
FILTERS: Final = ("subject_id", "status")


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
    return (console_page(PATH, pages.show, "Show the list of verifications"),)
