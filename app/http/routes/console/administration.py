"""`/console/api-keys`, `/console/members`, `/console/settings`: what a tenant's administrators change."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page, is_live
from app.http.endpoints import Call, Endpoint
from app.http.routes.api_keys import PATH as KEYS
from schemas.enums import Scope

KEYS_PAGE: Final = f"{HOME}/api-keys"


@dataclass(frozen=True, slots=True)
class AdministrationPages:
    """Draws the pages of keys, members and settings."""

    console: Console

    async def show_keys(self, call: Call) -> web.Response:
        """Answer a page of the keys of the mode."""
        query = {"livemode": "true" if is_live(call) else "false", **_cursor(call)}
        listed = await ask(call, KEYS, query)
        now = self.console.clock()
        keys = [{**key, "state": _key_state(key, now)} for key in listed["api_keys"]]
        return await self.console.show(
            call,
            "api_keys.html",
            place="keys",
            path=KEYS,
            keys=keys,
            following=listed["next_cursor"],
            scopes=[str(scope) for scope in Scope],
        )


def _cursor(call: Call) -> Mapping[str, str]:
    """Return the query of the page that was asked for."""
    cursor = call.request.query.get("cursor")
    return {} if cursor is None else {"cursor": cursor}


def _key_state(key: Mapping[str, Any], now: datetime) -> str:
    if key["revoked_at"] is not None:
        return "REVOKED"
    ends = key["expires_at"]
    return "EXPIRED" if ends is not None and datetime.fromisoformat(ends) <= now else "ACTIVE"


def administration_endpoints(pages: AdministrationPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (console_page(KEYS_PAGE, pages.show_keys, "Show the API keys"),)
