"""`/console/account`: the signed-in person, their sessions and preferences."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page
from app.http.endpoints import Call, Endpoint

ACCOUNT: Final = f"{HOME}/account"


@dataclass(frozen=True, slots=True)
class AccountPages:
    """Draws a person's own page."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer the page with the person's open sessions."""
        listed = await ask(call, "/v1/control/sessions")
        return await self.console.show(call, "account.html", place="account", sessions=listed["sessions"])


def account_endpoints(pages: AccountPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (console_page(ACCOUNT, pages.show, "Show one's own account"),)
