"""One running service for all journeys of a session."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.journeys.service import METRICS, Service, running_service


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service started with `veristream up` and one tenant."""
    receivers = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}  # those of the tests are on this machine
    given = {**METRICS, **receivers}
    async with running_service(tmp_path_factory.mktemp("service"), given, preloaded=True) as running:
        yield running
