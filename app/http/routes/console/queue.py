"""`/console/review-cases`: the cases that wait for a person (P19)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page, initials, is_live
from app.http.endpoints import Call, Endpoint
from schemas.base import rfc3339
from streams.reviews.queue import DUE_SOON

PATH: Final = f"{HOME}/review-cases"
CASES: Final = "/v1/control/review-cases"

VIEWS: Final = ("open", "mine", "overdue", "due_soon", "awaiting_second", "escalated")
"""The counts of the summary, each of which shows its cases."""

FILTERS: Final = ("risk_level", "kind", "assignee")
EVERY_S: Final = 30
"""How often the page looks again."""

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class QueuePages:
    """Draws the queue."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer the cases that wait, the most urgent first."""
        given = {name: call.request.query.get(name, "") for name in ("view", *FILTERS)}
        livemode = "true" if is_live(call) else "false"
        view = given["view"] if given["view"] in VIEWS else VIEWS[0]
        summary = await ask(call, f"{CASES}/summary", {"livemode": livemode})
        own, now = call.person.reviewer_id, self.console.clock()
        query = {"livemode": livemode, "order": "due", **_of_view(view, own, now), **_of_filters(given, own)}
        cursor = call.request.query.get("cursor")
        listed = await ask(call, CASES, query if cursor is None else {**query, "cursor": cursor})
        people = (await ask(call, "/v1/control/people"))["people"]
        named = {one["reviewer_id"]: one["name"] for one in people}
        return await self.console.show(
            call,
            "queue.html",
            place="review",
            at="review-cases",
            view=view,
            views=VIEWS,
            given=given,
            summary=summary,
            rows=[_row(case, own, named, now) for case in listed["review_cases"]],
            following=listed["next_cursor"],
            narrowed=cursor is not None or any(given[name] for name in FILTERS),
            every_s=EVERY_S,
        )


def _of_view(view: str, own: str, now: datetime) -> Mapping[str, str]:
    """Return the query of the cases that a count counts."""
    match view:
        case "mine":
            return {"assignee": own}
        case "overdue":
            return {"due_before": rfc3339(now)}
        case "due_soon":
            return {"due_before": rfc3339(now + DUE_SOON)}
        case "awaiting_second" | "escalated":
            return {"status": view.upper()}
        case _:
            return {}


def _of_filters(given: Mapping[str, str], own: str) -> Mapping[str, str]:
    """Return the query of the chosen filters; what is no filter is refused by the route."""
    query = {name: given[name] for name in ("risk_level", "kind") if given[name]}
    if given["assignee"]:
        query["assignee"] = own if given["assignee"] == "me" else given["assignee"]
    return query


def _row(case: Any, own: str, named: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return a row of the table."""
    due = datetime.fromisoformat(case["due_at"])
    holder = case["assignee"]
    name = named.get(holder, holder or "")
    return {
        **case,
        "urgency": "late" if due < now else "soon" if due < now + DUE_SOON else "",
        "due": _span(abs(due - now)),
        "opened": _span(now - datetime.fromisoformat(case["created_at"])),
        "why": [plain_words(reason["code"]) for reason in case["reasons"]],
        "assigned": None
        if holder is None
        else {"name": name, "mine": holder == own, "letters": initials(name)},
    }


def _span(span: timedelta) -> tuple[str, dict[str, int]]:
    """Return how long a time is: the key of its text, and the numbers in it."""
    hours, rest = divmod(max(span, timedelta()), _HOUR)
    minutes = int(rest.total_seconds() // 60)
    if hours >= 4 or (hours and not minutes):  # noqa: PLR2004 - minutes say nothing beside many hours
        return "span.hours", {"hours": hours}
    if hours:
        return "span.both", {"hours": hours, "minutes": minutes}
    return "span.minutes", {"minutes": minutes}


def plain_words(code: str) -> str:
    """Return a code in words: FACE_MATCH_UNCERTAIN is "Face match uncertain"."""
    return code.replace("_", " ").capitalize()


def queue_endpoints(pages: QueuePages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (console_page(PATH, pages.show, "Show the queue of review cases"),)
