"""A broker of one's own for every test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types
from structlog.testing import capture_logs
from structlog.typing import EventDict

from app.broker.server import Broker
from app.broker.settings import BrokerSettings


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    """What the broker logged; captured so that it can be read and does not fill the screen."""
    with capture_logs() as captured:
        yield captured


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    """The defaults in a directory of the test's own."""
    return BrokerSettings(tmp_path / "broker")


@pytest.fixture
async def broker(settings: BrokerSettings) -> AsyncIterator[Broker]:
    """A running broker."""
    async with Broker(settings) as running:
        yield running


async def create_topic(address: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic as a client would; keywords are configurations with underscores for dots."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dotted)])
        assert answer.topic_errors[0][1] == 0
    finally:
        await admin.close()
