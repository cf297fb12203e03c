"""Code of the domain uses the field's terms, none of the private words that it once had instead."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "streams")

PRIVATE_WORDS = (
    "house", "wish", "pulse", "sight", "telling", "told", "held", "lane", "gathering", "placing", "mended",
    "moody", "doom", "stumbling", "crowd", "burden", "grave", "stranger", "whoever", "come to be",
    "stands still",
)  # fmt: skip
PRIVATE = re.compile(rf"(?<![a-z])(?:{'|'.join(PRIVATE_WORDS)})(?:e?s)?(?![a-z])", re.IGNORECASE)
CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")

ALLOWED = {
    ("streams/sessions/notices.py", "whoever"),  # the notice people agreed to stays as it is
    ("streams/tenants/settings.py", "held"),  # a field of audit rows
}


def found() -> Iterator[tuple[str, str]]:
    """Yield each module with a private word in a name, text or comment."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parted = CAMEL.sub("_", path.read_text(encoding="utf-8"))
            for word in PRIVATE.findall(parted):
                yield str(path.relative_to(ROOT)), word.lower()


def test_no_private_word_is_left_in_the_domain() -> None:
    assert {*found()} == ALLOWED
