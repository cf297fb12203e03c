"""Two fronts on one port and two workers over the embedded broker, each a process of its own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.journeys.several import Deployment, deployed
from tests.journeys.several_suite import SeveralProcesses


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Broker, two fronts and two workers in one data folder."""
    async with deployed(tmp_path_factory.mktemp("several")) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
class TestOnTheEmbeddedBroker(SeveralProcesses):
    """The suite over `veristream broker`."""
