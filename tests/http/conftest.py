"""A front without limits for every test that asks, and what it logged; tests of limits open their own."""

import io
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from app.observability.logging import configure_logging
from tests.http.support import Front, open_front

_TROUBLE = re.compile('"level": "(warning|error|critical)"')


@pytest.fixture(autouse=True)
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, as JSON lines; a test that fails shows its warnings and errors."""
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    configure_logging("json", "debug", stream, cached=False)
    yield stream
    sys.stdout.writelines(f"{line}\n" for line in stream.getvalue().splitlines() if _TROUBLE.search(line))
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
async def front(logged: io.StringIO) -> AsyncIterator[Front]:
    """A front that serves."""
    assert logged is not None
    async with open_front() as opened:
        yield opened
