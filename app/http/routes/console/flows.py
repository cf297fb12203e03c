"""`/console/flows`: the verification flows, and one of them with its draft beside what is published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from app.http.console import HOME, Console, ask, ask_tagged, console_page, filters_of, require
from app.http.endpoints import Call, Endpoint
from app.http.routes.catalog import TENANTS_PATH as CATALOGUE
from app.http.routes.flows.routes import FLOW_FORM
from app.http.routes.flows.routes import PATH as FLOWS
from app.http.routes.people import PEOPLE
from schemas.enums import FlowStatus, FlowType
from schemas.people import Permission
from streams.flows.rules import REQUIRED_CHECKS

PATH: Final = f"{HOME}/flows"
FILTERS: Final = ("status", "flow_type")


@dataclass(frozen=True, slots=True)
class Side:
    """What a page compares of a draft and of a published configuration."""

    flow_type: str
    checks: tuple[str, ...]
    documents: tuple[str, ...]
    return_url: str | None


@dataclass(frozen=True, slots=True)
class Offer:
    """Documents of one country that an editor offers."""

    country: str
    name: str
    documents: tuple[Mapping[str, Any], ...]
    """`code`, `name`, whether it is `chosen`, and whether the catalogue still has it `enabled`."""


@dataclass(frozen=True, slots=True)
class FlowPages:
    """Draws the list of flows, an empty editor, and one flow."""

    console: Console

    async def show_list(self, call: Call) -> web.Response:
        """Answer a page of the flows, newest first."""
        given, query = filters_of(call, *FILTERS, by_mode=False)
        listed = await ask(call, FLOWS, query)
        return await self.console.show(
            call,
            "flows.html",
            place="flows",
            given=given,
            statuses=[*FlowStatus],
            flow_types=[*FlowType],
            rows=listed["flows"],
            following=listed["next_cursor"],
            narrowed=any(given.values()),
        )

    async def show_new(self, call: Call) -> web.Response:
        """Answer the editor of a flow that is still to be created."""
        entries = await _entries(call)
        require(call, Permission.VERIFICATION_FLOWS_MANAGE)
        return await self.console.show(
            call,
            "flow_new.html",
            place="flows",
            flow=None,
            version=None,
            offers=offers_of((), entries),
            flow_types=[*FlowType],
        )

    async def show(self, call: Call) -> web.Response:
        """Answer a flow with its editor, its draft beside what is published, and its revisions."""
        path = f"{FLOWS}/{call.path_value('flow_id')}"
        flow, version = await ask_tagged(call, path)
        revisions = await ask(call, f"{path}/revisions")
        people = (await ask(call, PEOPLE))["people"]
        names = {str(one["reviewer_id"]): str(one["name"]) for one in people}
        entries = await _entries(call)
        return await self.console.show(
            call,
            "flow.html",
            place="flows",
            flow=flow,
            version=version,
            offers=offers_of(flow["documents"], entries),
            flow_types=[*FlowType],
            titles={one["code"]: one["display_name"] for one in entries},
            revisions=revisions["revisions"],
            name_of=lambda reviewer_id: names.get(reviewer_id, ""),
            draft=draft_side(flow),
            published=published_side(flow),
        )


async def _entries(call: Call) -> Sequence[Mapping[str, Any]]:
    listed = await ask(call, CATALOGUE)
    entries: Sequence[Mapping[str, Any]] = listed["capabilities"]
    return entries


def offers_of(
    selected: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> tuple[Offer, ...]:
    """Return what an editor offers: the catalogue by country, and what is chosen and offered no more."""
    chosen = {one["country"]: one["capabilities"] for one in selected}
    names = {one["country"]: one["country_name"] for one in entries}
    known = {one["code"] for one in entries}
    offers = []
    for country in {*names, *chosen}:
        codes = chosen.get(country, ())
        offered = [
            {
                "code": one["code"],
                "name": one["display_name"],
                "chosen": one["code"] in codes,
                "enabled": True,
            }
            for one in entries
            if one["country"] == country
        ]
        ended = [
            {"code": code, "name": code, "chosen": True, "enabled": False}
            for code in codes
            if code not in known
        ]
        offers.append(Offer(country, names.get(country, country), (*offered, *ended)))
    return tuple(
        sorted(offers, key=lambda one: (not any(each["chosen"] for each in one.documents), one.name))
    )


def draft_side(flow: Mapping[str, Any]) -> Side:
    """Return what publishing the draft would put in force."""
    codes = [code for one in flow["documents"] for code in one["capabilities"]]
    checks = tuple(str(one) for one in REQUIRED_CHECKS[FlowType(flow["flow_type"])])
    return Side(flow["flow_type"], checks, tuple(sorted(codes)), flow["return_url"])


def published_side(flow: Mapping[str, Any]) -> Side | None:
    """Return what is in force; None for a flow that was never published."""
    if flow["published"] is None:
        return None
    frozen = flow["published"]["configuration"]
    codes = sorted(one["code"] for one in frozen["documents"])
    return Side(frozen["flow_type"], tuple(frozen["required_checks"]), tuple(codes), frozen["return_url"])


def flow_page_endpoints(pages: FlowPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        console_page(PATH, pages.show_list, "Show the verification flows"),
        console_page(f"{PATH}/new", pages.show_new, "Show the editor of a new flow"),
        console_page(f"{PATH}/{{flow_id}}", pages.show, "Show a verification flow", {"flow_id": FLOW_FORM}),
    )
