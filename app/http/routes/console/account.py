"""The way into the console (sign-in, second factor, reset) and the account of who is in (G49, G50, G95)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web
from yarl import URL

from app.http.console import (
    FACTOR,
    HOME,
    NEXT,
    SIGN_IN,
    Console,
    ask,
    console_page,
    drawn,
    own_path,
    see_other,
)
from app.http.endpoints import Answer, Call, Endpoint, Handler
from app.http.pages import HTML

RESET: Final = f"{HOME}/reset"
"""The one-time token is in the fragment, which no browser sends."""
ACCOUNT: Final = f"{HOME}/account"


@dataclass(frozen=True, slots=True)
class SignInPages:
    """Draws the pages before the console."""

    async def show_sign_in(self, call: Call) -> web.Response:
        """Answer the form of the first factor."""
        return drawn("sign_in.html", onward=FACTOR + _onward_query(call))

    async def show_factor(self, call: Call) -> web.Response:
        """Answer the form of the second factor, or its enrolment; once it is met, go on."""
        onward = own_path(call.request.query.get(NEXT))
        standing = await ask(call, "/v1/control/mfa")
        if standing["satisfied"]:
            return see_other(onward)
        return drawn("factor.html", onward=onward, enrolled=standing["enrolled"])

    async def show_reset(self, _: Call) -> web.Response:
        """Answer the form of a new password."""
        return drawn("reset.html", onward=SIGN_IN)


def _onward_query(call: Call) -> str:
    """Return the query that leads on to the page that was asked for."""
    onward = own_path(call.request.query.get(NEXT))
    return "" if onward == HOME else str(URL("").with_query({NEXT: onward}))


def sign_in_page_endpoints(pages: SignInPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        _open(SIGN_IN, pages.show_sign_in, "Show sign-in"),
        console_page(FACTOR, pages.show_factor, "Show the second factor"),
        _open(RESET, pages.show_reset, "Show the form of a new password"),
    )


def _open(path: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        family="Console",
        answers={HTTPStatus.OK: Answer("The page.", media_type=HTML)},
        described=False,
    )


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
