"""`/console/search`: where an id or a subject is shown."""

import re
from typing import Final

from aiohttp import web

from app.http.console import HOME, console_page, is_live, link, see_other
from app.http.endpoints import Call, Endpoint

SEARCH: Final = f"{HOME}/search"

_CASE: Final = re.compile(r"rc_[0-9a-hjkmnp-tv-z]{26}")
_VERIFICATION: Final = re.compile(r"ver_[0-9a-hjkmnp-tv-z]{26}")
_TRANSACTION: Final = re.compile(r"txn_[0-9a-hjkmnp-tv-z]{26}")
_SESSION: Final = re.compile(r"vs_[0-9a-hjkmnp-tv-z]{26}")


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
