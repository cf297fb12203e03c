"""Steps that tests of the console share."""

from typing import Final

from schemas.people import Role
from tests.http.session_steps import install_tenant
from tests.http.support import Front, Response, SignedIn

BROWSER: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
HTML: Final = "text/html; charset=utf-8"


async def enter(front: Front, role: Role = Role.OWNER, *, satisfied: bool = True) -> SignedIn:
    """A member who is signed in, of a tenant that there is."""
    member = await front.sign_in(role, satisfied=satisfied)
    await install_tenant(member)
    return member


async def open_page(who: SignedIn, path: str) -> Response:
    """Go to a page as a browser does."""
    return await who.ask("GET", path, headers={"Accept": BROWSER, "Origin": None}, allow_redirects=False)


async def open_unknown(front: Front, path: str, **headers: str) -> Response:
    """Go to a page without a session."""
    given = {"Accept": BROWSER, **headers}
    return await front.ask("GET", path, None, headers=given, allow_redirects=False)
