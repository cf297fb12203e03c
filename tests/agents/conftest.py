"""A broker, a writer and a gateway for each test that asks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from tests.agents.support import KEYS, now, open_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """An embedded broker with every topic."""
    async with open_broker(tmp_path / "broker") as opened:
        yield opened


@pytest.fixture
async def writer(broker: Broker) -> AsyncIterator[LogWriter]:
    """A writer to the broker."""
    async with LogWriter(LogAccess(broker.address), KEYS) as opened:
        yield opened


@pytest.fixture
async def gateway(broker: Broker, writer: LogWriter) -> AsyncIterator[RequestReply]:
    """A gateway over the broker."""
    async with RequestReply(LogAccess(broker.address), writer, KEYS, name="front", now=now) as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory in which worker processes keep what they decided."""
    directory = tmp_path / "store"
    directory.mkdir()
    return directory
