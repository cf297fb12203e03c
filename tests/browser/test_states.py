"""The list of states that axe-core judges; a screen or a page that is missing from it fails."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from tests.browser.fixtures import write_index

HERE: Final = Path(__file__).parent
WEB: Final = files("app.web")

SCREENS: Final = {
    "start": "start",
    "consent": "consent",
    "declined": "declined",
    "camera": "selfie",
    "check": "check-good",
    "number": "number",
    "movements": "movements-asked",
    "waiting": "waiting",
    "result": "verified",
    "blocked": "blocked",
    "hand": "hand-over",
    "ended": "ended",
    "failed": "failed",
    "idle": "idle",
}
"""Screens of the capture page, each with a state of it that is judged."""

PAGES: Final = {
    "account": "console-account",
    "api_keys": "console-keys-page",
    "audit": "console-audit",
    "audit_chain": "console-audit-chain",
    "case": "case",
    "factor": "console-factor",
    "flow": "console-flow-differs",
    "flow_new": "console-flow-new",
    "flows": "console-flows",
    "members": "console-members",
    "platform": "console-platform",
    "queue": "console-queue",
    "reset": "console-reset",
    "session": "console-session",
    "sessions": "console-sessions",
    "settings": "console-settings",
    "sign_in": "console-sign-in",
    "subject": "subject",
    "transaction": "transaction",
    "transactions": "transactions",
    "verification": "verification",
    "verifications": "verifications",
    "webhook": "console-webhook",
    "webhook_delivery": "console-delivery",
    "webhooks": "console-webhooks",
}
"""Templates of the console's pages, each with a state of it that is judged."""

FRAMES: Final = {"base", "entry", "manage"}
"""Templates that pages extend."""


def judged() -> set[str]:
    """The states that a test has judged, light and dark, narrow and wide."""
    sources = [path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py")]
    return {name for source in sources for name in re.findall(r'judge\("([\w-]+)"', source)}


def test_the_screenshots_have_an_index(tmp_path: Path) -> None:
    for name in ("consent-320-dark", "case-1280-light"):
        (tmp_path / f"{name}.jpeg").touch()

    write_index(tmp_path)

    listed = re.findall(r'<a href="([^"]+)">', (tmp_path / "index.html").read_text(encoding="utf-8"))
    assert listed == ["case-1280-light.jpeg", "consent-320-dark.jpeg"]


def test_only_colours_differ_in_the_dark() -> None:
    styles = [
        one.read_text(encoding="utf-8") for one in (WEB / "assets").iterdir() if one.name.endswith(".css")
    ]
    dark = re.findall(r"@media \(prefers-color-scheme: dark\) \{(.*?\}\s*)\}", "".join(styles), re.DOTALL)
    set_there = [one.strip() for part in dark for one in re.split(r"[;{}]", part.partition("{")[2])]

    assert len(dark) == "".join(styles).count("prefers-color-scheme") == 2
    assert [one for one in set_there if one and not one.startswith("--")] == []


def test_every_screen_of_the_capture_page_is_judged() -> None:
    screens = re.findall(r'data-screen="([\w-]+)"', (WEB / "templates" / "verify.html").read_text())

    assert set(screens) == set(SCREENS)
    assert set(SCREENS.values()) - judged() == set()


def test_every_page_of_the_console_is_judged() -> None:
    found = (WEB / "templates" / "console").iterdir()
    pages = {Path(one.name).stem for one in found if "{% extends" in one.read_text()} - FRAMES

    assert pages == set(PAGES)
    assert set(PAGES.values()) - judged() == set()
