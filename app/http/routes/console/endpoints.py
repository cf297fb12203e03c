"""The pages of the console as data."""

from contextlib import suppress
from http import HTTPStatus

from aiohttp import web

from app.http.console import HOME, Console, ask, places, see_other
from app.http.endpoints import Answer, Call, Endpoint
from app.http.headers import session_cookie
from app.http.routes.console.account import (
    ACCOUNT,
    AccountPages,
    SignInPages,
    account_endpoints,
    sign_in_page_endpoints,
)
from app.http.routes.console.administration import AdministrationPages, administration_endpoints
from app.http.routes.console.audit import AuditPages, audit_page_endpoints
from app.http.routes.console.case import CasePages, case_page_endpoints
from app.http.routes.console.flows import FlowPages, flow_page_endpoints
from app.http.routes.console.queue import QueuePages, queue_endpoints
from app.http.routes.console.subject import SubjectPages, search_endpoints, subject_page_endpoints
from app.http.routes.console.transactions import TransactionPages, transaction_page_endpoints
from app.http.routes.console.verifications import (
    SessionPages,
    VerificationListPages,
    VerificationPages,
    session_page_endpoints,
    verification_list_endpoints,
    verification_page_endpoints,
)
from app.http.routes.console.webhooks import WebhookPages, webhook_page_endpoints
from schemas.people import PERMISSIONS_OF, Role
from schemas.problems import Refused, Unauthenticated

START = "/"


async def show_start(call: Call) -> web.Response:
    """Send the browser to the first place that the person may see; without a session to the queue."""
    first, *_ = places()
    with suppress(Unauthenticated, Refused):
        if session_cookie(call.request) is not None:
            session = await ask(call, "/v1/control/sessions/current")
            granted = PERMISSIONS_OF[Role(session["reviewer"]["role"])]
            seen = (one.path for one in places() if one.permission is None or one.permission in granted)
            return see_other(next(seen, ACCOUNT))
    return see_other(first.path)


def console_endpoints(console: Console) -> tuple[Endpoint, ...]:
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
        *case_page_endpoints(CasePages(console)),
        *verification_list_endpoints(VerificationListPages(console)),
        *verification_page_endpoints(VerificationPages(console)),
        *session_page_endpoints(SessionPages(console)),
        *flow_page_endpoints(FlowPages(console)),
        *administration_endpoints(AdministrationPages(console)),
        *subject_page_endpoints(SubjectPages(console)),
        *transaction_page_endpoints(TransactionPages(console)),
        *webhook_page_endpoints(WebhookPages(console)),
        *audit_page_endpoints(AuditPages(console)),
        *account_endpoints(AccountPages(console)),
        *search_endpoints(),
        *sign_in_page_endpoints(SignInPages()),
    )
