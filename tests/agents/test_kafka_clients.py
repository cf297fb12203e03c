"""A task that is cancelled while its Kafka client stops ends, though the client keeps that to itself."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started


@pytest.mark.parametrize(
    ("kind", "part"),
    [(AIOKafkaConsumer, "_fetcher"), (AIOKafkaConsumer, "_client"), (AIOKafkaAdminClient, "_client"),
     (AIOKafkaProducer, "client")],
)  # fmt: skip
async def test_a_cancellation_that_comes_while_a_client_stops_is_not_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, kind: Any, part: str
) -> None:
    closed: list[str] = []

    async def use() -> None:
        async with started(kind(**LogAccess(broker.address).client())) as client:
            await asyncio.sleep(0)  # what it began has begun
            stopping = getattr(client, part)
            close = stopping.close

            async def close_cancelled() -> None:
                task.cancel()
                await close()
                closed.append(part)

            monkeypatch.setattr(stopping, "close", close_cancelled)
        pytest.fail("it went on")

    task = asyncio.create_task(use())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [part]


async def test_a_consumer_that_is_stopped_as_soon_as_it_has_started_cancels_nobody(broker: Broker) -> None:
    async with started(AIOKafkaConsumer(**LogAccess(broker.address).client())) as consumer:
        pass

    assert not consumer._client._conns
