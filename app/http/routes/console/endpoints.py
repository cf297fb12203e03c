"""The pages of the console as data."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from aiohttp import web

from app.http.console import HOME, Console, see_other
from app.http.endpoints import Answer, Call, Endpoint
from app.http.routes.console.account import AccountPages, account_endpoints
from app.http.routes.console.case import CasePages, case_page_endpoints
from app.http.routes.console.queue import QueuePages, queue_endpoints
from app.http.routes.console.verification import VerificationPages, verification_page_endpoints

START = "/"


async def show_start(_: Call) -> web.Response:
    """Send the browser to the queue."""
    return see_other(f"{HOME}/review-cases")


def console_endpoints(console: Console, clock: Callable[[], datetime]) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        *(
            Endpoint(
                method="GET",
                path=path,
                handler=show_start,
                summary="Go to the console",
                family="Console",
                answers={HTTPStatus.SEE_OTHER: Answer("The queue.", media_type="")},
                described=False,
            )
            for path in (START, HOME)
        ),
        *queue_endpoints(QueuePages(console)),
        *case_page_endpoints(CasePages(console, console.records, clock)),
        *verification_page_endpoints(VerificationPages(console, console.records)),
        *account_endpoints(AccountPages(console)),
    )
