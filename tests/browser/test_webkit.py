"""The capture page and a case in WebKitGTK, with the camera that it makes up."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.browser.conftest import Open
from tests.browser.fixtures import WEBKIT, leave_out
from tests.browser.office import Office
from tests.browser.webkit import NoDriver, WebKit, webkit_window

pytestmark = pytest.mark.asyncio(loop_scope="session")

Look = Callable[[Callable[[WebKit], list[str]]], list[str]]

CHECK: Final = "[data-screen=check]"
USE: Final = f"{CHECK} .button.main[data-action=use]"
SHOOT: Final = """const blocked = document.querySelector("[data-screen=blocked]:not([hidden])");
if (blocked === null) document.querySelector("[data-action=shoot]").click();
else if (!(Date.now() < window.again)) {
  window.again = Date.now() + 20000;
  blocked.querySelector("[data-action=camera]").click();
}
return document.querySelector("[data-screen=check]:not([hidden])") !== null;"""
"""Takes the picture, unless that has happened by itself; true once it is shown.

On a busy machine the camera may show nothing for so long that it counts as covered: then it is tried again.
"""


@pytest.fixture
def webkit(request: pytest.FixtureRequest) -> Look:
    """Act in a window of WebKitGTK; where its driver does not answer, the test is left out loudly."""

    def look(act: Callable[[WebKit], list[str]]) -> list[str]:
        try:
            with webkit_window() as window:
                return act(window)
        except NoDriver as error:
            leave_out(request.config, WEBKIT, str(error))

    return look


def consent_and_send(window: WebKit, url: str) -> list[str]:
    """Take a picture of a document and send it; what is wrong on the way.

    Not judged while the camera is live: its picture is drawn by the processor, which on a busy machine does
    nothing else then.
    """
    window.open(url)
    window.until("[data-screen=consent]")
    wrong = window.violations()
    window.press("[data-action=agree]")
    window.until(f"[data-screen=camera], [data-screen=blocked], {CHECK}")
    window.until_true(SHOOT)
    window.until(USE)
    wrong += window.violations()
    window.press(USE)
    window.until("[data-screen=number]")
    wrong += window.violations()
    return wrong + window.faults()


async def test_webkit_consents_takes_a_picture_and_sends_it(webkit: Look, open_session: Open) -> None:
    opened = await open_session("sim:approved@webkit", "DOCUMENT")

    wrong = await asyncio.to_thread(webkit, lambda window: consent_and_send(window, opened["url"]))

    assert wrong == []


def conclude(window: WebKit, url: str, cookie: dict[str, Any]) -> list[str]:
    """Look at a case and approve it; what is wrong on the way."""
    window.open(url)  # for a cookie is set on a page of its site
    window.driver.add_cookie({name: cookie[name] for name in ("name", "value", "path", "httpOnly")})
    window.open(url)
    window.until("#document img")
    window.until("#conclude")
    wrong = window.violations()
    window.press("#conclude label.approve")
    window.driver.find_element("id", "note").send_keys("It is the same person.")
    window.until(".end", "Approve")
    wrong += window.violations() + window.faults()
    window.press(".end")
    window.until(".said", "Concluded")  # on a page that has been opened anew, or is about to be
    return wrong


async def test_webkit_shows_a_case_and_concludes_it(webkit: Look, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@webkit-case")
    (cookie,) = office.seen_by("REVIEWER")["storage_state"]["cookies"]

    wrong = await asyncio.to_thread(webkit, lambda window: conclude(window, office.page_of(made), cookie))

    assert wrong == []
