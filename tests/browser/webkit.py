"""WebKitGTK driven over WebDriver, on a screen that nobody sees; every call of it is bounded."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from axe_playwright_python.base import AXE_FILE_PATH
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Remote, WebKitGTKOptions
from selenium.webdriver.common.proxy import Proxy, ProxyType
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.support.wait import WebDriverWait
from urllib3.exceptions import HTTPError, ReadTimeoutError

from tests.browser.fixtures import WEBKIT
from tests.browser.shown import RULES

WAIT_S: Final = 60
"""A bound for what hangs in a page; on a busy machine a step may take long."""

SHOWN_S: Final = 180
"""A bound for what a page is waited for, call after call; its camera is drawn by the processor."""

ANSWER_S: Final = 90
"""Within it the driver answers a call, if only that the page took too long; else it answers no more."""

PATIENCE_S: Final = 10
"""How long a program may take to end before it is killed."""

TRIES: Final = 2

_BROWSERS: Final = "webkit2gtk-4.*/MiniBrowser"
_ARGUMENTS: Final = ("--automation", "--enable-media-stream=true", "--enable-mock-capture-devices=true")

_WATCH: Final = """window.faults = [];
for (const name of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  addEventListener(name, one => {
    window.faults.push(String(one.message ?? one.reason ?? one.violatedDirective));
  });
}"""

_SHOWN: Final = """const [selector, text] = arguments;
return [...document.querySelectorAll(selector)].some(
  one => one.getClientRects().length > 0 && one.textContent.includes(text));"""

_AXE: Final = """const [tags, done] = arguments;
axe.run({runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]})
   .then(found => done(found.violations.map(one => one.id + " " + one.nodes[0].html)));"""


class NoDriver(Exception):
    """The driver began no session, or answers no more."""


@dataclass(frozen=True, slots=True)
class WebKit:
    """One window."""

    driver: Remote

    def open(self, url: str) -> None:
        """Open a page and watch it."""
        self.driver.get(url)
        self.driver.execute_script(_WATCH)

    def until_true(self, script: str) -> None:
        """Run a script until it returns true."""
        WebDriverWait(self.driver, SHOWN_S, 0.2).until(
            lambda driver: driver.execute_script(script), "the script returns false"
        )

    def until(self, selector: str, text: str = "") -> None:
        """Wait until an element of a selector is shown, and says something."""
        WebDriverWait(self.driver, SHOWN_S, 0.2).until(
            lambda driver: driver.execute_script(_SHOWN, selector, text), f"{selector} {text} is not shown"
        )

    def press(self, selector: str) -> None:
        """Press a button once it is shown and its script listens."""
        self.until(f"{selector}:not(:disabled)")
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong."""
        self.driver.execute_script(AXE_FILE_PATH.read_text(encoding="utf-8") + "; window.axe = axe;")
        found: list[str] = self.driver.execute_async_script(_AXE, [*RULES])
        return found

    def faults(self) -> list[str]:
        """Return the errors of scripts and the violations of the page's policy since it was opened.

        A page that has opened another one, or itself anew, is no longer watched.
        """
        found: list[str] = self.driver.execute_script("return window.faults ?? []")
        return found


@contextmanager
def webkit_window() -> Iterator[WebKit]:
    """Open a window of the system's WebKitGTK; a driver that begins no session is started anew once.

    Raises:
        NoDriver: No driver began a session, or it answers no more.
    """
    with ExitStack() as stack:
        for left in reversed(range(TRIES)):
            try:
                driver = stack.enter_context(_begun())
            except (WebDriverException, HTTPError, OSError) as error:
                if left == 0:
                    raise NoDriver(repr(error)) from error
                continue
            try:
                yield WebKit(driver)
            except ReadTimeoutError as error:
                raise NoDriver(repr(error)) from error
            return


@contextmanager
def _begun() -> Iterator[Remote]:
    with ExitStack() as stack:
        screen = stack.enter_context(
            _running("Xvfb", "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp")
        )
        assert screen.stdout is not None
        display = screen.stdout.readline().decode().strip()
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        # Not with WEBKIT_DISABLE_COMPOSITING_MODE: then the end of the camera often hung in the engine.
        shown_on = {"DISPLAY": f":{display}", "LIBGL_ALWAYS_SOFTWARE": "1"}
        stack.enter_context(_running(WEBKIT.find() or "", f"--port={port}", "--host=127.0.0.1", **shown_on))
        _until_it_listens(port)
        yield _begin(f"http://127.0.0.1:{port}")


def _begin(address: str) -> Remote:
    options = WebKitGTKOptions()
    options.binary_location = str(next(Path("/usr/lib").glob(f"*/{_BROWSERS}")))
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    direct = Proxy(raw={"proxyType": ProxyType.DIRECT})
    client = ClientConfig(address, proxy=direct, timeout=ANSWER_S)
    driver = Remote(address, options=options, client_config=client)
    driver.set_script_timeout(WAIT_S)
    driver.set_page_load_timeout(WAIT_S)
    return driver


def _until_it_listens(port: int) -> None:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


@contextmanager
def _running(*command: str, **given: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for as long as the context lasts, and whatever it starts."""
    environment = {**os.environ, **given}
    with subprocess.Popen(  # noqa: S603 - fixed words
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
                os.killpg(process.pid, signal.SIGKILL)
