"""`/console/search` and `/console/subjects`: find an id or subject; a subject with all that is known."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from app.http.case_view import title_of
from app.http.console import HOME, Console, ask, console_page, filters_of, is_live, link, see_other
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.verifications import LIST_PATH as LIST
from app.http.routes.dispositions import PATH as DISPOSITIONS
from app.http.routes.people import PEOPLE
from app.http.routes.transactions import PATH as TRANSACTIONS
from app.http.routes.verifications import PATH as VERIFICATIONS
from schemas.people import PERMISSIONS_OF, Permission
from schemas.problems import NotFound

SEARCH: Final = f"{HOME}/search"

_CASE: Final = re.compile(r"rc_[0-9a-hjkmnp-tv-z]{26}")
_VERIFICATION: Final = re.compile(r"ver_[0-9a-hjkmnp-tv-z]{26}")
_TRANSACTION: Final = re.compile(r"txn_[0-9a-hjkmnp-tv-z]{26}")
_SESSION: Final = re.compile(r"vs_[0-9a-hjkmnp-tv-z]{26}")
PATH: Final = f"{HOME}/subjects"
MOST: Final = 10
"""Rows of each list; the lists' own pages have the others."""


async def search(call: Call) -> web.Response:
    """Send the browser to what was sought; text that is no id is a subject's."""
    sought, livemode = call.request.query.get("q", "").strip(), is_live(call)
    if _CASE.fullmatch(sought):
        return see_other(link(f"{HOME}/review-cases/{sought}", livemode=livemode))
    if _SESSION.fullmatch(sought):
        return see_other(link(f"{HOME}/sessions/{sought}", livemode=livemode))
    if _TRANSACTION.fullmatch(sought):
        return see_other(link(f"{HOME}/transactions/{sought}", livemode=livemode))
    if _VERIFICATION.fullmatch(sought):
        return see_other(link(f"{HOME}/verifications/{sought}", livemode=livemode))
    return see_other(link(f"{HOME}/verifications", livemode=livemode, subject_id=sought or None))


def search_endpoints() -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (console_page(SEARCH, search, "Find a subject, session, case, verification, transaction"),)


@dataclass(frozen=True, slots=True)
class SubjectPages:
    """Draws a subject's page."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer what the person's role may see of the subject; without one, go to the list."""
        given, query = filters_of(call, "subject_id")
        subject_id = given["subject_id"]
        if not subject_id:
            return see_other(link(LIST, livemode=is_live(call)))
        asked = {**query, "limit": str(MOST)}
        people = (await ask(call, PEOPLE))["people"]
        granted = PERMISSIONS_OF[call.person.role]
        names = {str(one["reviewer_id"]): str(one["name"]) for one in people}
        values = {
            "subject_id": subject_id,
            "verifications": (await ask(call, VERIFICATIONS, asked))["verifications"],
            "transactions": (await ask(call, TRANSACTIONS, asked))["transactions"],
            "dispositions": (await ask(call, DISPOSITIONS, asked))["dispositions"],
            "standing": await _found(call, f"/v1/control/subjects/{subject_id}", query["livemode"]),
            "erasure": await _found(call, f"/v1/subjects/{subject_id}/erasure")
            if Permission.PRIVACY_MANAGE in granted
            else None,
            "name_of": lambda reviewer_id: names.get(reviewer_id, ""),
            "title_of": title_of,
        }
        return await self.console.show(call, "subject.html", place="review", at="subjects", **values)


async def _found(call: Call, path: str, livemode: str | None = None) -> Any:
    """Return what a route answers; None where it finds nothing."""
    with suppress(NotFound):
        return await ask(call, path, None if livemode is None else {"livemode": livemode})
    return None


def subject_page_endpoints(pages: SubjectPages) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (console_page(PATH, pages.show, "Show a subject"),)
