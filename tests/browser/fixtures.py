"""One Chromium for a whole test run, Firefox and WebKitGTK for a few tests, a loud word when there is none.

A pytest plugin. A test that asks for `camera`, as `shown` does, needs the system's Chromium, one that asks
for `firefox` its Firefox, one that asks for `webkit` its WebKitGTK. Without them these tests are left out,
and the end of the run says so in capitals.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest


@dataclass(frozen=True, slots=True)
class Engine:
    """A browser of the system, and the fixture by which tests ask for it."""

    name: str
    fixture: str
    commands: tuple[str, ...]
    packages: str
    screen: str | None = None
    """The program that it is shown on, if it needs one."""

    def find(self) -> str | None:
        """Return its path."""
        if self.screen is not None and shutil.which(self.screen) is None:
            return None
        return next(filter(None, map(shutil.which, self.commands)), None)


CHROMIUM: Final = Engine(
    "CHROMIUM",
    "camera",
    ("chromium", "chromium-browser", "google-chrome"),
    "chromium fonts-noto-core fonts-roboto",
)
FIREFOX: Final = Engine("FIREFOX", "firefox", ("firefox-esr", "firefox"), "firefox-esr")
WEBKIT: Final = Engine(
    "WEBKITGTK", "webkit", ("WebKitWebDriver",), "webkit2gtk-driver xvfb xauth", screen="Xvfb"
)
ENGINES: Final = (CHROMIUM, FIREFOX, WEBKIT)
FEATURES_OFF: Final = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),  # pages of the address bar, 0.4 s for each window
    *("HttpsUpgrades", "PaintHolding", "ThirdPartyStoragePartitioning"),  # they change what a test sees
    *("AvoidCorsURLLoaderRestartOnRedirect", "BlockOriginHeaderModificationOnRedirect"),  # so do these
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "LensOverlay", "Translate"),
    *("DialMediaRouteProvider", "GlobalMediaControls", "MediaRouter"),
    *("AimEnabled", "NetworkTimeServiceQuerying", "OptimizationHints"),  # they ask the network
)
"""All that Chromium leaves out. The last switch of this kind counts, so those of Playwright's are named again
that are not for Windows or Edge."""

FIX: Final = f"apt-get install {CHROMIUM.packages}"
LEFT_OUT: Final = pytest.StashKey[dict[str, int]]()
"""How many tests were left out, by the name of the engine they need."""


def find_chromium() -> str | None:
    """Return the path of the system's Chromium."""
    return CHROMIUM.find()


def chromium_arguments(scene: Path, *others: str) -> list[str]:
    """Return the arguments of a Chromium whose camera shows what a file says."""
    camera = ["--use-fake-device-for-media-stream", f"--use-file-for-fake-video-capture={scene}"]
    return [*camera, "--no-sandbox", f"--disable-features={','.join(FEATURES_OFF)}", *others]


def screenshots() -> Path:
    """Return the folder screenshots go to."""
    return Path(os.environ.get("SCREENSHOTS_DIR", "build/screenshots"))


def write_index(folder: Path) -> None:
    """Write the page on which the screenshots of a folder are looked at."""
    picture = '<p><a href="{0}"><img src="{0}" alt="" loading="lazy" width="240"> {1}</a>'
    figures = [picture.format(one.name, one.stem) for one in sorted(folder.glob("*.jpeg"))]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Screenshots</title>'
    (folder / "index.html").write_text("\n".join([head, *figures]), encoding="utf-8")


def leave_out(config: pytest.Config, engine: Engine, why: str) -> NoReturn:
    """End a test whose engine is installed and does not begin; the end of the run says so too.

    Raises:
        pytest.skip.Exception: Always.
    """
    config.stash[LEFT_OUT][engine.name] = config.stash[LEFT_OUT].get(engine.name, 0) + 1
    pytest.skip(f"{engine.name} did not begin: {why}")


def pytest_configure(config: pytest.Config) -> None:
    """Begin with nothing left out."""
    config.stash[LEFT_OUT] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, and count it."""
    for engine in ENGINES:
        needing = [item for item in items if engine.fixture in getattr(item, "fixturenames", ())]
        if needing and engine.find() is None:
            config.stash[LEFT_OUT][engine.name] = len(needing)
            config.hook.pytest_deselected(items=needing)
            items[:] = [item for item in items if item not in needing]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what was left out when this is one of several processes of a run, else list the screenshots."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["without_browser"] = session.config.stash[LEFT_OUT]
    elif screenshots().is_dir():
        write_index(screenshots())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of the run left out; each of them leaves out the same."""
    for name, count in getattr(node, "workeroutput", {}).get("without_browser", {}).items():
        node.config.stash[LEFT_OUT][name] = max(count, node.config.stash[LEFT_OUT].get(name, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, so that nobody takes silence for success."""
    for engine in ENGINES:
        count = config.stash[LEFT_OUT].get(engine.name, 0)
        if count:
            title = f"THE PAGES WERE NOT TESTED IN {engine.name}"
            terminalreporter.section(title, sep="!", red=True, bold=True)
            fix = f"apt-get install {engine.packages}"
            why = "DID NOT BEGIN" if engine.find() else "IS NOT HERE"
            result = f"{count} TESTS WERE NOT RUN, FOR {engine.name} {why}. FIX: {fix}"
            terminalreporter.line(result, red=True, bold=True)
