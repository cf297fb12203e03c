"""`/console/platform`: the operator's page of the catalogue and the tenants (G44, G45)."""

from typing import Final

from aiohttp import web

from app.http.console import HOME, drawn
from app.http.endpoints import Call, Endpoint
from app.http.pages import page_endpoint
from schemas.catalog import ExtractionSupport
from schemas.enums import DocumentType, ReaderClass

PLATFORM_PAGE: Final = f"{HOME}/platform"


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
