"""I4 can fail at deliveries: one thing is broken on purpose, and the checker says which."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from app.doctor.invariants.deliveries import walk_deliveries
from app.doctor.invariants.store_state import StoreState
from schemas.audit import Actor, AuditAction
from schemas.events import DecisionEvent
from schemas.ids import EndpointId
from schemas.webhooks import DeliveryStatus, StoredDelivery, StoredEndpoint
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.invariants.rules import Invariant
from streams.webhooks.records import delivery_id, delivery_records
from streams.webhooks.removal import DeliveryRemoval
from tests.builders import ACME
from tests.handlers.webhook_stage import WebhookStage, open_stage
from tests.webhook_receiver import open_receiver, saying


@dataclass
class World:
    """A tenant with an endpoint, one event delivered to it and one that failed once."""

    stage: WebhookStage
    endpoint: StoredEndpoint
    delivered: DecisionEvent
    pending: DecisionEvent

    async def look(self) -> list[tuple[str, str]]:
        """What the checker finds, an hour later."""
        later = self.stage.now + timedelta(hours=1)
        store_state = StoreState(
            stores=self.stage.stores,
            due_before=later - timedelta(minutes=1),
            retained_since=self.stage.now - timedelta(days=30),
        )
        await walk_deliveries(store_state, ACME)
        assert store_state.looked_at[Invariant.I4] > 0
        return [(one.invariant, one.found) for one in store_state.violations]

    def break_it(self, event: DecisionEvent, change: Callable[[StoredDelivery], StoredDelivery]) -> None:
        """Alter a delivery behind everybody's back."""
        key = delivery_id(ACME, self.endpoint.endpoint.endpoint_id, event.id)
        shelf = self.stage.shelves.records
        found = next(where for where in shelf if where[2] == key and where[0] == ACME)
        shelf[found] = delivery_records(change(StoredDelivery.from_bytes(shelf[found].body)), None)[0]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """As it should be."""
    async with open_stage() as stage, open_receiver() as receiver:
        endpoint = await stage.register(receiver.url())
        delivered = await stage.happen("delivered")
        await stage.publish(delivered)
        receiver.answer = saying(500, Retry_After="7200")
        pending = await stage.happen("pending")
        await stage.publish(pending)
        receiver.answer = saying(204)
        stage.passes(minutes=1)
        await stage.publish(await stage.happen("another"))
        yield World(stage, endpoint, delivered, pending)


async def test_a_sound_world_has_nothing_to_say(world: World) -> None:
    """Delivered, or pending and not due."""
    assert await world.look() == []


async def test_an_event_without_a_delivery(world: World) -> None:
    """It was never fanned out."""
    await world.stage.happen("forgotten")

    assert await world.look() == [(Invariant.I4, "has no delivery")]


async def test_an_attempt_that_is_overdue(world: World) -> None:
    """Nobody swept."""
    world.break_it(
        world.pending,
        lambda stored: stored.model_copy(
            update={
                "delivery": stored.delivery.model_copy(
                    update={"next_attempt_at": world.stage.now + timedelta(minutes=5)}
                )
            }
        ),
    )

    assert await world.look() == [(Invariant.I4, "is pending and its attempt is overdue")]


async def test_a_dead_letter_is_an_end(world: World) -> None:
    """FAILED is said; the tenant can replay it."""
    failed = {"status": DeliveryStatus.FAILED, "next_attempt_at": None}
    world.break_it(
        world.pending,
        lambda stored: stored.model_copy(update={"delivery": stored.delivery.model_copy(update=failed)}),
    )

    assert await world.look() == []


async def test_a_delivery_in_other_words(world: World) -> None:
    """The payload is not the event's."""
    world.break_it(world.delivered, lambda stored: stored.model_copy(update={"payload": "{}"}))

    assert await world.look() == [(Invariant.I4, "is delivered in other words than published")]


async def test_a_delivery_to_another_endpoint(world: World) -> None:
    """I6: it went to somebody else."""
    other = {"endpoint_id": EndpointId("whe_other")}
    world.break_it(
        world.delivered,
        lambda stored: stored.model_copy(update={"delivery": stored.delivery.model_copy(update=other)}),
    )

    assert await world.look() == [(Invariant.I6, "its delivery is another tenant's or endpoint's")]


async def test_what_happened_before_an_endpoint_was_changed_is_not_held_against_it(world: World) -> None:
    """It may not have asked for it then."""
    stage = world.stage
    await stage.happen("while it was not active")
    stage.passes(minutes=5)
    row = write_row(
        "aud_1",
        AuditAction.WEBHOOK_UPDATED,
        Actor(),
        world.endpoint.endpoint.endpoint_id,
        stage.now,
        detail="A webhook endpoint was changed.",
    )
    await stage.stores.journal.commit(act(ACME, row))
    stage.passes(minutes=5)
    await stage.publish(await stage.happen("since"))

    assert await world.look() == []


async def test_a_delivery_past_its_period_is_not_missed(world: World) -> None:
    """What was removed after its period is no violation; a younger one that is missing still is."""
    world.stage.passes(days=32)
    missing = await world.stage.happen("missing")
    await world.stage.publish(await world.stage.happen("delivered later"))
    removed = await DeliveryRemoval(world.stage.stores, world.stage.clock).sweep()

    found = await world.look()

    assert removed == 2
    assert [what for what, _ in found] == [Invariant.I4]
    assert missing.timestamp == world.stage.now
