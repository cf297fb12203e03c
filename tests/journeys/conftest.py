"""One running service for all journeys of a session."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.journeys.service import Service, running_service


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service started with `veristream up` and one tenant."""
    given = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}  # receivers of the tests are on this machine
    async with running_service(tmp_path_factory.mktemp("service"), given) as running:
        yield running
