"""The parts of the opened adapter."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from streams.ports.stores import Stores
from tests.contracts.adapters import ADAPTERS, Breaker, Opened
from tests.contracts.fixtures import CASSANDRA, one_adapter


@pytest.fixture(params=[*ADAPTERS, "sealed", CASSANDRA])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Opened]:
    """One adapter, about to be opened; here also the stores behind `at_rest`."""
    return one_adapter(request, tmp_path)


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Its stores."""
    return opened.stores


@pytest.fixture
def breaker(opened: Opened) -> Breaker:
    """What breaks the evidence it keeps."""
    return opened.breaker
