"""The stores of every adapter in turn, fresh for each test; a plugin, for other rooms ask for them too."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from app.adapters.cassandra.connection import Address
from tests.contracts.adapters import ADAPTERS, Opened, open_sealed
from tests.contracts.cassandra_adapter import open_cassandra, open_keyspace
from tests.engines.cassandra_server import CassandraServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def contracts_keyspace(cassandra: CassandraServer) -> AsyncIterator[Address]:
    """The run's keyspace for the contract suites."""
    async with open_keyspace(cassandra) as address:
        yield address


CASSANDRA: Final = pytest.param("cassandra", marks=pytest.mark.engines)


@pytest.fixture(params=[*ADAPTERS, CASSANDRA])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Opened]:
    """One adapter, about to be opened."""
    return one_adapter(request, tmp_path)


def one_adapter(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Opened]:
    """The adapter that a parameter names, about to be opened."""
    if request.param == "sealed":
        return open_sealed()
    if request.param == "cassandra":
        return open_cassandra(request.getfixturevalue("contracts_keyspace"), tmp_path / "deployment")
    return ADAPTERS[request.param](tmp_path / "deployment")


@pytest.fixture
async def opened(closed: AbstractAsyncContextManager[Opened]) -> AsyncIterator[Opened]:
    """One adapter, opened."""
    async with closed as deployment:
        yield deployment
