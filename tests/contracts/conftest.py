"""The stores of every adapter in turn, fresh for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.ports import Stores
from tests.contracts.adapters import ADAPTERS, Breaker, Opened


@pytest.fixture(params=ADAPTERS)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """One adapter, opened."""
    async with ADAPTERS[request.param](tmp_path / "house") as house:
        yield house


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Its stores."""
    return opened.stores


@pytest.fixture
def breaker(opened: Opened) -> Breaker:
    """What breaks the evidence it keeps."""
    return opened.breaker
