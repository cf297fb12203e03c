"""One Chromium for a whole test run, and a loud word when there is none.

A pytest plugin. A test that asks for `shown` needs the system's Chromium. Without it these tests are left
out, and the end of the run says so in capitals.
"""

import shutil
from typing import Any, Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
LEFT_OUT: Final = pytest.StashKey[int]()
FIX: Final = "apt-get install chromium fonts-noto-core fonts-roboto"


def find_chromium() -> str | None:
    """Return the path of the system's Chromium."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def pytest_configure(config: pytest.Config) -> None:
    """Begin with nothing left out."""
    config.stash[LEFT_OUT] = 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, and count it."""
    needing = [item for item in items if needs_browser(item)]
    if not needing or find_chromium() is not None:
        return
    config.stash[LEFT_OUT] = len(needing)
    config.hook.pytest_deselected(items=needing)
    items[:] = [item for item in items if item not in needing]


def needs_browser(item: pytest.Item) -> bool:
    """Whether a test asks for a browser."""
    return "camera" in getattr(item, "fixturenames", ())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what was left out when this is one of several processes of a run."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["without_browser"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of the run left out; each of them leaves out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("without_browser", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, so that nobody takes silence for success."""
    if not config.stash[LEFT_OUT]:
        return
    terminalreporter.section("THE PAGES WERE NOT TESTED IN A BROWSER", sep="!", red=True, bold=True)
    result = f"{config.stash[LEFT_OUT]} TESTS WERE NOT RUN, FOR THERE IS NO CHROMIUM HERE. FIX: {FIX}"
    terminalreporter.line(result, red=True, bold=True)
