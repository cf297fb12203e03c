"""The parts of the opened adapter."""

import pytest

from streams.ports import Stores
from tests.contracts.adapters import Breaker, Opened


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Its stores."""
    return opened.stores


@pytest.fixture
def breaker(opened: Opened) -> Breaker:
    """What breaks the evidence it keeps."""
    return opened.breaker
