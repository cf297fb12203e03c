"""`/console/audit`: the audit log with its filters, its export, and what a walk along its chain found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

from aiohttp import web

from app.http.console import HOME, Console, ask, ask_file, console_page, filters_of
from app.http.endpoints import Answer, Call, Endpoint
from app.http.routes.audit import CSV
from app.http.routes.audit import PATH as AUDIT
from app.http.routes.audit_chain import PATH as AUDIT_CHAIN
from app.http.routes.people import PEOPLE
from schemas.audit import AuditAction
from schemas.enums import ActorType

PATH: Final = f"{HOME}/audit"
EXPORT: Final = f"{PATH}/export"
CHAIN: Final = f"{PATH}/chain"

NAMES: Final = ("actor_id", "subject_id", "correlation_id")
FILTERS: Final = ("action", "actor_type", *NAMES, "from", "to")

_PAGES: Final = {"rc_": "review-cases", "ver_": "verifications", "whe_": "webhooks"}
"""Where a thing is shown that has a page, by the beginning of its id."""


@dataclass(frozen=True, slots=True)
class AuditPages:
    """Draws the audit log."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer a page of the log, newest first."""
        chosen, query = filters_of(call, *FILTERS)
        listed = await ask(call, AUDIT, _whole_days(query))
        people = (await ask(call, PEOPLE))["people"]
        names = {one["reviewer_id"]: one["name"] for one in people}
        return await self.console.show(
            call,
            "audit.html",
            place="audit",
            filters=chosen,
            given={name: chosen.get(name, "") for name in FILTERS},
            names=NAMES,
            actions=actions_by_resource(),
            actors=tuple(ActorType),
            rows=[_row(event, names) for event in listed["events"]],
            following=listed["next_cursor"],
        )

    async def export(self, call: Call) -> web.StreamResponse:
        """Stream the chosen rows as CSV; the export is audited."""
        _, query = filters_of(call, *FILTERS)
        return await ask_file(call, AUDIT, _whole_days(query), CSV)

    async def verify(self, call: Call) -> web.Response:
        """Answer what a walk along the chain finds now."""
        check = await ask(call, AUDIT_CHAIN)
        return await self.console.show(call, "audit_chain.html", place="audit", check=check)


def actions_by_resource() -> Sequence[tuple[str, Sequence[str]]]:
    """Return the actions of each resource, as a filter offers them."""
    by_resource = groupby(sorted(AuditAction), key=lambda action: action.partition(".")[0])
    return [(resource, list(actions)) for resource, actions in by_resource]


def _whole_days(query: Mapping[str, str]) -> dict[str, str]:
    """Return the query with days in UTC as times, the last day within; what is no day stays as it is."""
    asked = dict(query)
    for name, days in (("from", 0), ("to", 1)):
        try:
            day = date.fromisoformat(asked[name]) + timedelta(days=days)
        except (KeyError, ValueError, OverflowError):
            continue
        asked[name] = f"{day.isoformat()}T00:00:00Z"
    return asked


def _row(event: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of the table: who did what, the page of the thing, and the row's place in the chain."""
    subject, context, actor_id = str(event["subject_id"]), event.get("context", {}), event.get("actor_id")
    shown = next((page for start, page in _PAGES.items() if subject.startswith(start)), None)
    return {
        **dict.fromkeys(("actor_id", "correlation_id", "decision_id")),
        **event,
        "who": None if actor_id is None else names.get(actor_id, actor_id),
        "page": None if shown is None else f"{HOME}/{shown}/{subject}",
        "chain": context.get("chain"),
        "ip": context.get("ip"),
        "changes": context.get("changes") or {},
    }


def audit_page_endpoints(pages: AuditPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    export = console_page(EXPORT, pages.export, "Export the audit log")
    csv = {HTTPStatus.OK: Answer("The rows.", media_type=CSV)}
    return (
        console_page(PATH, pages.show, "Show the audit log"),
        replace(export, answers=csv, audits=(AuditAction.AUDIT_EXPORTED,)),
        console_page(CHAIN, pages.verify, "Show whether the audit log is intact"),
    )
