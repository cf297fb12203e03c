"""`/console/api-keys`, `/members` and `/settings` of a tenant, and the operator's `/platform` (G44, G45)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from app.http.console import HOME, Console, ask, ask_tagged, console_page, drawn, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.pages import page_endpoint
from app.http.routes.api_keys import PATH as KEYS
from app.http.routes.members import PATH as MEMBERS
from app.http.routes.people import PEOPLE
from app.http.routes.settings import PATH as SETTINGS
from schemas.catalog import ExtractionSupport
from schemas.enums import DocumentType, ReaderClass, Scope
from schemas.people import ReviewerCaller, Role
from schemas.tenant_settings import TenantSettings
from streams.verification.policy import PROVIDED

KEYS_PAGE: Final = f"{HOME}/api-keys"
MEMBERS_PAGE: Final = f"{HOME}/members"
SETTINGS_PAGE: Final = f"{HOME}/settings"
PLATFORM_PAGE: Final = f"{HOME}/platform"


@dataclass(frozen=True, slots=True)
class AdministrationPages:
    """Draws the pages of keys, members and settings."""

    console: Console

    async def show_keys(self, call: Call) -> web.Response:
        """Answer a page of the keys of the mode."""
        _, query = filters_of(call)
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

    async def show_members(self, call: Call) -> web.Response:
        """Answer a page of the members, each with what the person may change about it."""
        _, query = filters_of(call, by_mode=False)
        listed = await ask(call, MEMBERS, query)
        names = {one["reviewer_id"]: one["name"] for one in (await ask(call, PEOPLE))["people"]}
        members = [
            {
                **one,
                "acts": member_acts(call.person, one),
                "asker": one["factor_reset"] and names.get(one["factor_reset"]["asked_by"]),
            }
            for one in listed["members"]
        ]
        return await self.console.show(
            call,
            "members.html",
            place="members",
            path=MEMBERS,
            members=members,
            following=listed["next_cursor"],
            roles=[str(role) for role in Role if role is not Role.OWNER or call.person.role is Role.OWNER],
        )

    async def show_settings(self, call: Call) -> web.Response:
        """Answer the settings as they stand."""
        said, version = await ask_tagged(call, SETTINGS)
        settings = TenantSettings.model_validate(said)
        return await self.console.show(
            call,
            "settings.html",
            place="settings",
            path=SETTINGS,
            given=settings,
            limited=settings.rate_limits.key is not None,
            version=version,
            checks=[str(kind) for kind in sorted(PROVIDED)],
        )


def member_acts(person: ReviewerCaller, member: Mapping[str, Any]) -> list[str]:
    """Return what the person may change about a member, as the routes allow it.

    Owners alone change owners; nobody suspends themselves or resets their own factor here.
    """
    own = member["reviewer_id"] == person.reviewer_id
    if person.role is not Role.OWNER and (own or member["role"] == Role.OWNER):
        return []
    acts = ["change_role"]
    if own:
        return acts
    if not member["password_set"]:
        return [*acts, "withdraw"]
    acts.append("suspend" if member["active"] else "let_in")
    waiting = member["factor_reset"]
    if waiting is None and member["mfa_enrolled"]:
        acts.append("reset_factor")
    elif waiting is not None and waiting["asked_by"] != person.reviewer_id:
        acts.append("confirm_reset")
    return acts


def _key_state(key: Mapping[str, Any], now: datetime) -> str:
    if key["revoked_at"] is not None:
        return "REVOKED"
    ends = key["expires_at"]
    return "EXPIRED" if ends is not None and datetime.fromisoformat(ends) <= now else "ACTIVE"


def administration_endpoints(pages: AdministrationPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        console_page(KEYS_PAGE, pages.show_keys, "Show the API keys"),
        console_page(MEMBERS_PAGE, pages.show_members, "Show the members"),
        console_page(SETTINGS_PAGE, pages.show_settings, "Show the settings"),
    )


def platform_page_endpoints(*, configured: bool) -> tuple[Endpoint, ...]:
    """Return the route as data; without an operator's token the page is as little there as its routes."""

    async def show(_: Call) -> web.Response:
        """Answer the page, whose script asks the operator's routes with the token that is typed there.

        Raises:
            HTTPNotFound: No operator's token is configured.
        """
        if not configured:
            raise web.HTTPNotFound
        return drawn("platform.html", types=DocumentType, supports=ExtractionSupport, readers=ReaderClass)

    return (page_endpoint(PLATFORM_PAGE, show, "Show the operator's page", family="Console"),)
