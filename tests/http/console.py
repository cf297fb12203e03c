"""Steps that tests of the console share."""

from html.parser import HTMLParser
from typing import Final

from typing_extensions import override

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


class UnscriptedButtons(HTMLParser):
    """Finds the buttons of a page that can be pressed before its scripts have begun, and would do nothing."""

    def __init__(self, page: str) -> None:
        """Read a page."""
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element; one that waits for scripts, is a dialog or a plain form has no such buttons."""
        given = dict(attrs)
        plain = tag == "form" and given.get("method", "get") == "get" and "data-form" not in given
        waits = "data-scripted" in given and ("hidden" in given or "disabled" in given)
        harmless = any(inside for _, inside in self._open) or plain or waits or tag in {"dialog", "template"}
        if tag == "button" and not harmless:
            self.found.append(str(self.get_starttag_text()))
        self._open.append((tag, harmless))

    @override
    def handle_endtag(self, tag: str) -> None:
        """Close an element, and what has no end within it."""
        while self._open and self._open.pop()[0] != tag:
            pass
