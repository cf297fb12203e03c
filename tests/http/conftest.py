"""A front without limits for every test that asks; tests of limits open their own."""

from collections.abc import AsyncIterator

import pytest

from tests.http.support import Front, open_front


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front that serves."""
    async with open_front() as opened:
        yield opened
