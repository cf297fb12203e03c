"""Two fronts on one port and two workers over a real Kafka, each a process of its own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.engines.kafka_server import KafkaServer
from tests.journeys.several import Deployment, deployed
from tests.journeys.several_suite import SeveralProcesses


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A Kafka, two fronts and two workers; a Kafka of their own, for the names of the topics are fixed."""
    folder = tmp_path_factory.mktemp("several")
    async with KafkaServer(folder / "kafka") as kafka:
        given = {"SERVICE_KAFKA_BOOTSTRAP": kafka.bootstrap}
        async with deployed(folder / "data", given) as running:
            yield running


@pytest.mark.engines
@pytest.mark.asyncio(loop_scope="module")
class TestOnApacheKafka(SeveralProcesses):
    """The suite over Apache Kafka."""
