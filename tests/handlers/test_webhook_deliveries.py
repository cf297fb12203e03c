"""The delivery log over every store: pings, deliveries begun anew, and ranges handed to their endpoint."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from schemas.events import DecisionEvent, EventType
from schemas.ids import PLATFORM, DeliveryId, EventId, derive_id
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.webhooks import (
    Attempt,
    Delivery,
    DeliveryCommand,
    DeliveryStatus,
    DeliveryWatch,
    FailureKind,
    ReplayEvents,
    StoredDelivery,
    WebhookEndpoint,
)
from streams.ports.records import Change, Record, RecordKind
from streams.tenants.handler import RequestName
from streams.webhooks.deliveries import QueuedReplay, ReplaySelection
from streams.webhooks.records import delivery_records, due_index, fresh
from tests.builders import ACME, GLOBEX, NOW, build_decision_event
from tests.contracts.adapters import Opened
from tests.handlers.endpoint_stage import ACTOR, BOTH, Stage

PING = EventId(derive_id("evt", "ping"))
ONCE = RequestName(derive_id("aud", "range"), "fingerprint")


@pytest.fixture
def stage(opened: Opened) -> Stage:
    """The use cases over every adapter in turn."""
    return Stage(opened.stores)


async def failed(stage: Stage, endpoint: WebhookEndpoint, name: str = "first") -> Delivery:
    """A delivery whose schedule ended without a success."""
    event = build_decision_event(id=EventId(derive_id("evt", name)))
    begun = fresh(event, await stage.stored(endpoint), stage.now)
    attempt = Attempt(number=1, at=stage.now, latency_ms=15_000, failure=FailureKind.TIMEOUT)
    changes = {"status": DeliveryStatus.FAILED, "attempts": (attempt,), "next_attempt_at": None}
    ended = begun.model_copy(update={"delivery": begun.delivery.model_copy(update=changes), "step": 10})
    await stage.stores.journal.commit(Change(ACME, delivery_records(ended, None)))
    return ended.delivery


async def stored_delivery(stage: Stage, delivery_id: DeliveryId) -> tuple[Record, StoredDelivery]:
    """The delivery as it is kept."""
    record = await stage.stores.records.get(ACME, RecordKind.DELIVERY, delivery_id)
    return record, StoredDelivery.from_bytes(record.body)


async def due(stage: Stage) -> list[DeliveryWatch]:
    """What a sweep finds in this minute."""
    page = await stage.stores.records.page(
        PLATFORM, RecordKind.DELIVERY_WATCH, due_index(stage.now), limit=10
    )
    return [DeliveryWatch.from_bytes(record.body) for record in page]


async def replay(stage: Stage, delivery: Delivery) -> Delivery:
    """Deliver once more."""
    return await stage.deliveries.replay(ACME, delivery.delivery_id, BOTH, ACTOR)


async def replay_range(
    stage: Stage, endpoint: WebhookEndpoint, request: RequestName = ONCE, **changes: Any
) -> QueuedReplay:
    """Deliver the events of a day once more."""
    values = {"since": NOW - timedelta(days=1), "until": NOW, "event_types": None}
    command = ReplaySelection(**values | changes)
    return await stage.deliveries.replay_range(ACME, endpoint.endpoint_id, BOTH, command, request, ACTOR)


async def refusal(asked: Any) -> tuple[ProblemCode, str | None]:
    """Why something is refused, and where."""
    with pytest.raises(Refused) as refused:
        await asked
    refused_with = refused.value.refusal
    return refused_with.code, refused_with.errors[0].pointer if refused_with.errors else None


async def test_a_test_makes_a_ping_for_this_endpoint_that_is_due_now(stage: Stage) -> None:
    endpoint, _ = await stage.create(), await stage.create()

    result = await stage.deliveries.test(ACME, endpoint.endpoint_id, BOTH, PING)

    _, stored = await stored_delivery(stage, result.delivery.delivery_id)
    event = DecisionEvent.from_bytes(stored.payload)
    assert (result.delivery.status, result.delivery.event_type) == (DeliveryStatus.PENDING, EventType.PING)
    assert (event.id, event.data.endpoint_id, event.livemode) == (PING, endpoint.endpoint_id, True)
    assert [(one.delivery_id, one.due) for one in await due(stage)] == [
        (result.delivery.delivery_id, stage.now)
    ]


async def test_a_ping_is_no_event_for_anybody_else(stage: Stage) -> None:
    endpoint = await stage.create()

    await stage.deliveries.test(ACME, endpoint.endpoint_id, BOTH, PING)

    assert await stage.stores.journal.pending_events(10) == []


async def test_the_same_test_again_answers_the_first(stage: Stage) -> None:
    endpoint = await stage.create()

    results = [await stage.deliveries.test(ACME, endpoint.endpoint_id, BOTH, PING) for _ in range(2)]

    assert [one.replayed for one in results] == [False, True]
    assert results[0].delivery == results[1].delivery


async def test_nothing_is_begun_for_an_endpoint_that_is_not_active(stage: Stage) -> None:
    endpoint = await stage.create()
    delivery = await failed(stage, endpoint)
    await stage.change(endpoint, active=False)

    refused_with = [
        await refusal(stage.deliveries.test(ACME, endpoint.endpoint_id, BOTH, PING)),
        await refusal(replay(stage, delivery)),
        await refusal(replay_range(stage, endpoint)),
    ]

    assert refused_with == [(ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, None)] * 3


async def test_a_replay_begins_the_schedule_anew_and_keeps_the_log(stage: Stage) -> None:
    delivery = await failed(stage, await stage.create())
    stage.wait(days=2)

    again = await replay(stage, delivery)

    _, stored = await stored_delivery(stage, delivery.delivery_id)
    assert stored.delivery == again
    assert (again.status, again.attempts, stored.step) == (DeliveryStatus.PENDING, delivery.attempts, 0)
    assert [one.due for one in await due(stage)] == [stage.now]
    assert (await stage.rows())[-1].context["changes"] == {"delivery_id": delivery.delivery_id}


async def test_replays_at_once_are_each_answered_and_none_is_lost(stage: Stage) -> None:
    delivery = await failed(stage, await stage.create())

    async def one(number: int) -> None:
        stage.wait(seconds=number)
        await replay(stage, delivery)

    await asyncio.gather(*(one(number) for number in range(4)))

    record, stored = await stored_delivery(stage, delivery.delivery_id)
    assert stored.delivery.status is DeliveryStatus.PENDING
    assert 2 <= record.version <= 5


async def test_a_deleted_endpoints_deliveries_are_gone(stage: Stage) -> None:
    endpoint = await stage.create()
    delivery = await failed(stage, endpoint)
    await stage.delete(endpoint.endpoint_id)

    for asked in (stage.deliveries.read(ACME, delivery.delivery_id, BOTH), replay(stage, delivery)):
        with pytest.raises(NotFound):
            await asked


async def test_another_tenants_and_the_other_modes_deliveries_are_not_there(stage: Stage) -> None:
    delivery = await failed(stage, await stage.create())

    for tenant_id, seen in ((GLOBEX, BOTH), (ACME, (False,))):
        with pytest.raises(NotFound):
            await stage.deliveries.read(tenant_id, delivery.delivery_id, seen)


async def test_deliveries_are_listed_newest_first_and_by_status(stage: Stage) -> None:
    endpoint = await stage.create()
    first = await failed(stage, endpoint)
    stage.wait(seconds=1)
    second = await failed(stage, endpoint, "second")
    await replay(stage, first)

    async def listed(status: DeliveryStatus | None) -> list[str]:
        page = await stage.deliveries.page(ACME, endpoint.endpoint_id, status, 10, None)
        return [record.id for record in page]

    assert await listed(None) == [second.delivery_id, first.delivery_id]
    assert await listed(DeliveryStatus.FAILED) == [second.delivery_id]
    assert await listed(DeliveryStatus.PENDING) == [first.delivery_id]


async def test_a_range_is_reported_once_and_handed_to_the_endpoints_actor(stage: Stage) -> None:
    endpoint = await stage.create(event_types=("verification.completed",))

    handed = await replay_range(stage, endpoint)

    [record] = stage.written
    assert (record.topic, record.key) == (Topic.WEBHOOK_DELIVERIES, endpoint.endpoint_id.encode())
    assert DeliveryCommand.model_validate_json(record.value or b"").root == handed.command
    assert handed.command == ReplayEvents(
        tenant_id=ACME, endpoint_id=endpoint.endpoint_id, since=NOW - timedelta(days=1), until=NOW,
        event_types=("verification.completed",),
    )  # fmt: skip
    assert await stage.actions() == ["webhook.created", "webhook.replayed"]


async def test_a_range_may_name_its_types(stage: Stage) -> None:
    handed = await replay_range(stage, await stage.create(), event_types=("flow.published",))

    assert handed.command.event_types == ("flow.published",)


async def test_the_same_range_again_is_handed_to_nobody(stage: Stage) -> None:
    endpoint = await stage.create()
    first = await replay_range(stage, endpoint)
    stage.wait(hours=1)

    again = await replay_range(stage, endpoint)

    assert (again.command, first.replayed, again.replayed) == (first.command, False, True)
    assert len(stage.written) == 1
    assert await stage.actions() == ["webhook.created", "webhook.replayed"]


async def test_what_the_log_did_not_take_the_same_request_hands_over(stage: Stage) -> None:
    endpoint, stage.failing = await stage.create(), StoreUnavailable("no broker")
    with pytest.raises(StoreUnavailable):
        await replay_range(stage, endpoint)
    stage.failing = None
    await stage.change(endpoint, event_types=("flow.published",))

    await replay_range(stage, endpoint)

    [record] = stage.written
    assert ReplayEvents.from_bytes(record.value or b"").event_types == ("*",)
    assert (await stage.actions()).count("webhook.replayed") == 1


async def test_of_equal_ranges_at_once_one_row_is_written(stage: Stage) -> None:
    endpoint = await stage.create()

    handed = await asyncio.gather(*(replay_range(stage, endpoint) for _ in range(6)))

    assert len({one.command.to_bytes() for one in handed}) == 1
    assert len(stage.written) >= 1
    assert (await stage.actions()).count("webhook.replayed") == 1


async def test_the_key_of_another_range_is_refused(stage: Stage) -> None:
    endpoint = await stage.create()
    await replay_range(stage, endpoint)

    refused_with = await refusal(replay_range(stage, endpoint, RequestName(ONCE.id, "of another body")))

    assert refused_with[0] is ProblemCode.IDEMPOTENCY_KEY_REUSED


@pytest.mark.parametrize(
    ("since", "until", "pointer"),
    [
        (NOW - timedelta(days=30, seconds=1), NOW, "/from"),
        (NOW, NOW, "/to"),
        (NOW, NOW - timedelta(seconds=1), "/to"),
    ],
)
async def test_a_range_that_cannot_be_is_refused_at_its_place(
    stage: Stage, since: Any, until: Any, pointer: str
) -> None:
    refused_with = await refusal(replay_range(stage, await stage.create(), since=since, until=until))

    assert refused_with == (ProblemCode.VALIDATION_FAILED, pointer)
    assert stage.written == []
