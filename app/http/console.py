"""Draw the pages of the console from what the interface answers to the person who is signed in (P3).

A page asks routes of the interface within the process, each through its own gate, and puts their answers
into a template. It changes nothing: what a reviewer changes is one call of a route by the page's script.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from yarl import URL

from app.http.endpoints import CALL, Call, Endpoint, Handler
from app.http.headers import session_cookie
from app.http.pages import CONSOLE, HTML, PAGE_HEADERS, page_endpoint
from app.http.responses import JSON
from app.web.site import site
from schemas.access import Tenant
from schemas.ids import PLATFORM, TenantId
from schemas.people import PERMISSIONS_OF, Permission, Role
from schemas.problems import ProblemCode, Refused, Unauthenticated
from streams.ports.records import RecordKind, Records

HOME: Final = CONSOLE
SIGN_IN: Final = f"{HOME}/sign-in"
FACTOR: Final = f"{HOME}/factor"
NEXT: Final = "next"

CONSOLE_HEADERS: Final = {**PAGE_HEADERS, "Referrer-Policy": "same-origin"}
"""A form that is sent without scripts says where it comes from."""

_OWN_PATH: Final = re.compile(r"/console(?:/[\w~-]+)*/?(?:\?[\w.~%&=:@+-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A place, its icon and its text are called the same."""

    name: str
    path: str
    permission: Permission | None = None
    """Without it the place is not offered."""


@cache
def places() -> tuple[Place, ...]:
    """Return the places that have a page, as they are shown."""
    return (
        Place("review", "/console/review-cases", Permission.CASES_READ),
        Place("sessions", "/console/sessions", Permission.VERIFICATIONS_READ),
        Place("flows", "/console/flows", Permission.VERIFICATION_FLOWS_READ),
        Place("webhooks", "/console/webhooks", Permission.WEBHOOKS_MANAGE),
        Place("audit", "/console/audit", Permission.AUDIT_READ),
        Place("keys", "/console/api-keys", Permission.API_KEYS_MANAGE),
        Place("members", "/console/members", Permission.MEMBERS_MANAGE),
    )


async def ask(call: Call, path: str, query: Mapping[str, str] | None = None) -> Any:
    """Return the JSON that `GET` on a route of the interface answers to the person at the page."""
    return (await ask_tagged(call, path, query))[0]


async def ask_tagged(call: Call, path: str, query: Mapping[str, str] | None = None) -> tuple[Any, str | None]:
    """Return the JSON that `GET` on a route of the interface answers to the person at the page, and its ETag.

    The route authenticates, authorises, counts and refuses as if it had been asked from outside.

    Raises:
        Unauthenticated: Nobody is signed in.
        Refused: As the route refuses; MFA_REQUIRED before the second factor.
    """
    url = URL.build(path=path, query=query or {})
    response = await _forward(call, hdrs.METH_GET, url, JSON)
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        raise TypeError(path)
    return json.loads(response.body), response.headers.get(hdrs.ETAG)


async def ask_file(call: Call, path: str, query: Mapping[str, str], media_type: str) -> web.StreamResponse:
    """Return what a route of the interface answers in another form, streamed to the browser as it comes.

    Raises:
        Unauthenticated: Nobody is signed in.
        Refused: As the route refuses.
    """
    return await _forward(call, call.request.method, URL.build(path=path, query=query), media_type)


async def _forward(call: Call, method: str, url: URL, media_type: str) -> web.StreamResponse:
    """Handle a request of the person at the page within the process, through the gate of its route."""
    headers = [(hdrs.COOKIE, value) for value in call.request.headers.getall(hdrs.COOKIE, ())]
    asked = call.request.clone(method=method, rel_url=url, headers=[*headers, (hdrs.ACCEPT, media_type)])
    match = await call.request.app.router.resolve(asked)
    inner = asked[CALL] = Call(asked, call.request_id, call.started, call.address, path_values=dict(match))
    try:
        return await match.handler(asked)
    finally:
        call.reviewer = inner.reviewer
        call.headers.update(inner.headers)
        call.begun = call.begun or inner.begun


def own_path(given: str | None) -> str:
    """Return the address of a page of the console to go on to; the first page if it is none."""
    return given if given is not None and _OWN_PATH.fullmatch(given) else HOME


def signed_in(handler: Handler) -> Handler:
    """Redirect a browser to sign-in without a session, and to the second factor before it is met."""

    async def page(call: Call) -> web.StreamResponse:
        if session_cookie(call.request) is None:
            return redirect(call, SIGN_IN)
        try:
            return await handler(call)
        except Unauthenticated:
            return redirect(call, SIGN_IN)
        except Refused as refused:
            if refused.refusal.code is ProblemCode.MFA_REQUIRED:
                return redirect(call, FACTOR)
            raise

    return page


def redirect(call: Call, path: str) -> web.Response:
    """Send the browser to a page that leads back to this one."""
    back = own_path(call.request.path_qs)
    to = URL(path) if back == HOME else URL(path).with_query({NEXT: back})
    return see_other(str(to))


def see_other(address: str) -> web.Response:
    """Answer that the page is elsewhere."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={**CONSOLE_HEADERS, hdrs.LOCATION: address})


@dataclass(frozen=True, slots=True)
class Console:
    """Draws pages inside the console's frame."""

    records: Records
    clock: Callable[[], datetime]

    async def show(
        self, call: Call, template: str, *, place: str, livemode: bool | None = None, **values: Any
    ) -> web.Response:
        """Answer a page; `place` is where it is in the navigation, `livemode` the mode of what it shows.

        Without a mode it shows what its address asks for, and can be switched. The template extends
        `console/base.html` and has `me`, `may`, `link`, `say`, `asset` and the given values.
        """
        switches = livemode is None
        livemode = is_live(call) if livemode is None else livemode
        session = await ask(call, "/v1/control/sessions/current")
        chosen = await ask(call, "/v1/control/preferences")
        me = session["reviewer"]
        ends_at = min(session["idle_expires_at"], session["expires_at"])
        granted = PERMISSIONS_OF[Role(me["role"])]
        frame = {
            "ends_in_s": int((datetime.fromisoformat(ends_at) - self.clock()).total_seconds()),
            "theme": {"LIGHT": "light", "DARK": "dark"}.get(chosen["theme"]),
            "chosen": chosen,
            "locale": chosen["locale"] or "",
            "single_keys": chosen["single_keys"],
            "me": me,
            "initials": initials(me["name"]),
            "tenant": await self._name_of(TenantId(me["tenant_id"])),
            "may": lambda permission: permission in granted,
            "places": [one for one in places() if one.permission is None or one.permission in granted],
            "place": place,
            "livemode": livemode,
            "link": partial(link, livemode=livemode),
            "in_mode": lambda live: link(call.request.path if switches else HOME, livemode=live),
        }
        return drawn(template, **frame, **values)

    async def _name_of(self, tenant_id: TenantId) -> str:
        record = await self.records.get(PLATFORM, RecordKind.TENANT, tenant_id)
        return Tenant.from_bytes(record.body).name


def link(path: str, *, livemode: bool, **query: str | None) -> str:
    """Return the address of a page that stays with live or with test data."""
    said = {name: value for name, value in query.items() if value}
    return str(URL(path).with_query(said if livemode else {**said, "livemode": "false"}))


def require(call: Call, permission: Permission) -> None:
    """Refuse the person at the page what their role may not do; for a page whose routes would not refuse.

    Raises:
        Refused: PERMISSION_DENIED.
    """
    if permission not in PERMISSIONS_OF[call.person.role]:
        message = f"The role {call.person.role} lacks the permission {permission}."
        raise Refused.because(ProblemCode.PERMISSION_DENIED, message)


def is_live(call: Call) -> bool:
    """Return whether a page shows live data, as it does unless it is asked for test data."""
    return call.request.query.get("livemode") != "false"


def filters_of(call: Call, *names: str, by_mode: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the filters of a list's page say, and the query that asks its route for them.

    A filter that is left empty is none; what the route does not know it refuses. `by_mode` is whether the
    route tells live from test data.
    """
    query = call.request.query
    given = {name: query.get(name, "").strip() for name in names}
    mode = ("true" if is_live(call) else "false") if by_mode else ""
    asked = {"livemode": mode, "cursor": query.get("cursor", ""), **given}
    return given, {name: value for name, value in asked.items() if value}


def drawn(template: str, **values: Any) -> web.Response:
    """Answer a page of the console."""
    return web.Response(
        body=site().draw_console(template, **{"theme": None, **values}),
        content_type=HTML,
        charset="utf-8",
        headers=CONSOLE_HEADERS,
    )


def initials(name: str) -> str:
    """Return the first letters of the first and the last word of a name."""
    words = name.split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


def console_page(
    path: str, handler: Handler, summary: str, path_forms: Mapping[str, str] | None = None
) -> Endpoint:
    """Return the route of a page that only a person who is signed in sees."""
    return page_endpoint(path, signed_in(handler), summary, path_forms, family="Console")
