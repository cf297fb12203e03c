"""The clock moved through 75 hours: attempts at exactly the steps, over the real sweep and sender."""

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from typing_extensions import override

from app.adapters.memory.stores import MemoryRecords, Shelves
from schemas.ids import TenantId
from schemas.webhooks import DeliveryStatus, StoredDelivery
from streams.ports.records import Position, Record, RecordKind
from streams.webhooks import rules
from streams.webhooks.scheduler import DeliveryScheduler
from tests.handlers.webhook_stage import WebhookStage, open_stage
from tests.webhook_receiver import Receiver, open_receiver, saying

JUST_BEFORE = rules.EARLY + timedelta(milliseconds=1)


@pytest.fixture
async def stage() -> AsyncIterator[WebhookStage]:
    """An empty deployment."""
    async with open_stage() as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes nothing."""
    async with open_receiver(saying(500)) as opened:
        yield opened


async def go_through(stage: WebhookStage, receiver: Receiver, delivery: StoredDelivery) -> list[datetime]:
    """Move the clock from one attempt to the next until there is none; return when each was made."""
    made = [stage.now]
    while (following := delivery.delivery.next_attempt_at) is not None:
        arrived = len(receiver.hits)
        stage.now = following - JUST_BEFORE
        await stage.sweep()
        assert len(receiver.hits) == arrived, "before its time"
        stage.now = following
        await stage.sweep()
        assert len(receiver.hits) == arrived + 1, "at its time, once"
        made.append(stage.now)
        delivery = (await stage.deliveries(await stage.endpoint(delivery.delivery.endpoint_id)))[0]
    return made


async def test_attempts_are_made_at_the_schedules_steps(stage: WebhookStage, receiver: Receiver) -> None:
    """G55: ten of them, each within the jitter of its step, none before its time and none after the last."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)

    made = await go_through(stage, receiver, await stage.delivery(event, endpoint))
    stage.passes(days=3)
    await stage.sweep()

    assert len(receiver.hits) == len(made) == len(rules.SCHEDULE)
    waits = [after - before for before, after in itertools.pairwise(made)]
    for wait, step in zip(waits, rules.SCHEDULE[1:], strict=True):
        assert step * (1 - rules.JITTER) <= wait + timedelta(milliseconds=1)
        assert wait <= step * (1 + rules.JITTER)
    ended = await stage.delivery(event, endpoint)
    assert ended.delivery.status is DeliveryStatus.FAILED
    assert [attempt.at for attempt in ended.delivery.attempts] == made


async def test_the_body_is_the_same_at_every_attempt(stage: WebhookStage, receiver: Receiver) -> None:
    """Byte for byte, under one webhook-id; attempts are counted."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)
    await go_through(stage, receiver, await stage.delivery(event, endpoint))

    assert {hit.body for hit in receiver.hits} == {event.to_bytes()}
    assert {hit.event_id for hit in receiver.hits} == {event.id}
    assert [hit.attempt for hit in receiver.hits] == list(range(1, 11))


async def test_a_receiver_that_asks_for_time_gets_it(stage: WebhookStage, receiver: Receiver) -> None:
    """`Retry-After`: the later of the two."""
    receiver.answer = saying(429, Retry_After="3600")
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)

    waiting = await stage.delivery(event, endpoint)

    assert waiting.delivery.next_attempt_at == stage.now + timedelta(hours=1)


async def test_nobody_gets_more_time_than_a_day(stage: WebhookStage, receiver: Receiver) -> None:
    """F17: `Retry-After: 8640000`."""
    receiver.answer = saying(503, Retry_After="8640000")
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)

    waiting = await stage.delivery(event, endpoint)

    assert waiting.delivery.next_attempt_at == stage.now + timedelta(hours=24)


async def test_nothing_is_swept_minute_by_minute_before_it_is_due(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """A sweep every minute of three days makes the same ten attempts, each within its minute."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)

    for _ in range(4_600 * 11 // 10):
        stage.passes(minutes=1)
        await stage.sweep()

    ended = await stage.delivery(event, endpoint)
    assert ended.delivery.status is DeliveryStatus.FAILED
    assert len(receiver.hits) == len(rules.SCHEDULE)
    made = [attempt.at for attempt in ended.delivery.attempts]
    for step, (before, after) in zip(rules.SCHEDULE[1:], itertools.pairwise(made), strict=True):
        assert after - before + rules.EARLY >= step * (1 - rules.JITTER)
        assert after - before <= step * (1 + rules.JITTER) + timedelta(minutes=1)


class CountedRecords(MemoryRecords):
    """Notes the minutes whose deliveries are asked for."""

    def __init__(self) -> None:
        super().__init__(Shelves())
        self.minutes: list[str] = []

    @override
    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> Sequence[Record]:
        if kind is RecordKind.DELIVERY_WATCH:
            self.minutes.append(index[1])
        return await super().page(tenant_id, kind, index, limit=limit, before=before)


async def test_in_every_round_only_the_minutes_in_which_deliveries_come_due_are_read(
    stage: WebhookStage,
) -> None:
    records = CountedRecords()
    stage.now = stage.now.replace(second=57, microsecond=0)
    stores = replace(stage.stores, records=records)
    scheduler = DeliveryScheduler(stores, stage.log.write, stage.clock)
    await scheduler.sweep()
    read = []
    for _ in range(9):
        records.minutes.clear()
        stage.passes(seconds=1)
        await scheduler.sweep()
        read.append(len(set(records.minutes)))

    assert read == [1, 1, 2, 2, 3, 2, 2, 1, 1]
