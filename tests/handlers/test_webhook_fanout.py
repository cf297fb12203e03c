"""Who is notified of an event, once, and what finds the events and deliveries that were lost on the way."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.events import EventType
from schemas.ids import PLATFORM
from schemas.problems import StoreUnavailable
from schemas.webhooks import DeliveryStatus
from streams.ports.records import RecordKind
from streams.webhooks.dispatcher import Dispatcher
from streams.webhooks.rules import LOST_AFTER
from streams.webhooks.scheduler import MARK, DeliveryScheduler, SweepMark, SweepPace
from tests.builders import ACME, GLOBEX
from tests.handlers.verification_stage import Breaking
from tests.handlers.webhook_stage import WebhookStage, open_stage
from tests.webhook_receiver import Receiver, hanging, open_receiver, saying


@pytest.fixture
async def stage() -> AsyncIterator[WebhookStage]:
    """An empty deployment."""
    async with open_stage() as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with open_receiver() as opened:
        yield opened


def paths(receiver: Receiver) -> list[str]:
    """Where something arrived."""
    return sorted(hit.path for hit in receiver.hits)


async def test_every_endpoint_that_asks_for_it_is_notified_and_no_other(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """Of the tenant, of the mode (G92), of the type, in force."""
    for name in ("first", "second"):
        await stage.register(receiver.url(f"/{name}"), name)
    named = (EventType.VERIFICATION_COMPLETED,)
    await stage.register(receiver.url("/named"), "named", event_types=named)
    await stage.register(receiver.url("/type"), "type", event_types=(EventType.CASE_OPENED,))
    await stage.register(receiver.url("/mode"), "mode", livemode=False)
    await stage.register(receiver.url("/inactive"), "inactive", active=False)
    await stage.register(receiver.url("/globex"), "globex", tenant_id=GLOBEX)

    await stage.publish(await stage.happen())

    assert paths(receiver) == ["/first", "/named", "/second"]


async def test_only_an_event_that_certainly_nobody_wants_is_passed_over(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """While the store does not say, the event is carried out, which tries again."""
    assert await stage.fan_out.is_idle(await stage.happen())

    broken = Breaking(stage.stores.records, "page", StoreUnavailable("away"))
    away = replace(stage.fan_out, records=broken, _readings={})
    assert not await away.is_idle(await stage.happen("second"))

    stage.passes(seconds=2)
    await stage.register(receiver.url("/hook"), "hook")
    assert not await replace(stage.fan_out, _readings={}).is_idle(await stage.happen("third"))


async def test_an_endpoint_made_between_two_events_is_notified_of_the_second(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """However short the time since the endpoints were read for the first."""
    await stage.register(receiver.url("/first"), "first")
    first = await stage.happen("first")
    stage.passes(milliseconds=1)
    await stage.publish(first)
    await stage.register(receiver.url("/second"), "second", created_at=stage.now)
    stage.passes(milliseconds=1)

    await stage.publish(await stage.happen("second"))

    assert paths(receiver) == ["/first", "/first", "/second"]


async def test_endpoints_are_read_once_for_all_that_happened_before(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """A decision tells several events, and a backlog many."""
    stored = await stage.register(receiver.url())
    events = [await stage.happen(name) for name in "abcde"]
    stage.passes(milliseconds=1)
    await stage.publish(events[0])
    await stage.change(stored, active=False)

    for event in events:
        await stage.fan_out(event)

    assert len(await stage.deliveries(stored)) == len(events)
    assert len(receiver.hits) == 1


async def test_an_event_published_again_is_delivered_once(stage: WebhookStage, receiver: Receiver) -> None:
    """F13: the log may repeat it."""
    await stage.register(receiver.url())
    event = await stage.happen()

    for _ in range(3):
        await stage.publish(event)

    assert len(receiver.hits) == 1


@pytest.mark.parametrize("there", ["a", "b", "c", "ab", "bc", "ac"])
async def test_a_delivery_that_is_there_already_keeps_no_other_endpoint_waiting(
    stage: WebhookStage, receiver: Receiver, there: str
) -> None:
    """After a replay of a time to one endpoint, which was faster than the fan-out."""
    endpoints = {name: await stage.register(receiver.url(f"/{name}"), name) for name in "abc"}
    event = await stage.happen()
    for name in there:
        await stage.fan_out.deliver(event, [endpoints[name]])

    await stage.publish(event)

    assert paths(receiver) == ["/a", "/b", "/c"]


async def test_an_endpoint_is_not_notified_of_what_happened_before_it_was_made(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """A backlog of events is of no concern to it."""
    event = await stage.happen()
    stage.passes(minutes=2)
    await stage.register(receiver.url(), created_at=stage.now)

    await stage.publish(event)
    stage.passes(minutes=5)
    await stage.recovery.recover()
    await stage.settle()

    assert receiver.hits == []


async def test_a_delivery_whose_message_was_lost_is_found(stage: WebhookStage, receiver: Receiver) -> None:
    """It is committed, the log lost it: the sweep sends it, and not before its time."""
    await stage.register(receiver.url())
    stage.log.losing = True
    await stage.publish(await stage.happen())
    stage.log.losing = False
    early = await stage.sweep()

    stage.now += LOST_AFTER
    late = await stage.sweep()

    assert (early, late, len(receiver.hits)) == (0, 1, 1)


async def test_an_event_that_was_never_fanned_out_is_found(stage: WebhookStage, receiver: Receiver) -> None:
    """It is committed, and no agent ever saw it."""
    await stage.register(receiver.url())
    await stage.recovery.recover()
    event = await stage.happen()
    early = await stage.recovery.recover()

    stage.passes(seconds=61)
    late = await stage.recovery.recover()
    await stage.settle()

    assert (early, late, [hit.event_id for hit in receiver.hits]) == (0, 1, [event.id])


async def test_what_was_gone_through_is_not_gone_through_again(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """The place is durable: nothing is missing at the next round, in this process or another."""
    endpoint = await stage.register(receiver.url())
    await stage.happen()
    stage.passes(seconds=61)
    await stage.recovery.recover()
    await stage.settle()
    delivery_id = (await stage.deliveries(endpoint))[0].delivery.delivery_id
    del stage.shelves.records[ACME, RecordKind.DELIVERY, delivery_id]

    again = type(stage.recovery)(stage.stores, stage.fan_out, stage.clock)

    assert await again.recover() == 0


async def test_what_nobody_was_to_be_notified_of_is_not_reported_later(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """An endpoint that was not active is not notified of what happened meanwhile."""
    endpoint = await stage.register(receiver.url(), active=False)
    await stage.recovery.recover()
    await stage.happen()
    stage.passes(minutes=30)
    await stage.recovery.recover()
    await stage.change(endpoint, active=True)

    assert await stage.recovery.recover() == 0


async def test_a_kill_between_the_post_and_its_record_delivers_again(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """F3: the same id and the same bytes, never not at all."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    broken = Breaking(stage.stores.journal, "commit", StoreUnavailable("killed"))
    dying = replace(stage.attempt, stores=replace(stage.stores, journal=broken))
    async with Dispatcher(dying) as stage.dispatcher:
        await stage.publish(event)
    assert len(receiver.hits) == 1

    async with Dispatcher(stage.attempt) as stage.dispatcher:
        stage.now += LOST_AFTER
        await stage.sweep()

    assert [hit.event_id for hit in receiver.hits] == [event.id] * 2
    assert {hit.body for hit in receiver.hits} == {event.to_bytes()}
    assert (await stage.delivery(event, endpoint)).delivery.status is DeliveryStatus.DELIVERED


async def test_what_a_stop_abandons_is_delivered_by_the_next_worker(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """The store says that it is pending."""
    receiver.answer = hanging
    await stage.register(receiver.url())
    event = await stage.happen()
    async with Dispatcher(stage.attempt, grace_s=0.0) as stage.dispatcher:
        await stage.fan_out(event)
        await stage.hand_on()
        await receiver.until(lambda one: len(one.hits) == 1)

    receiver.answer = saying(204)
    async with Dispatcher(stage.attempt) as stage.dispatcher:
        stage.now += LOST_AFTER
        await stage.sweep()

    assert [hit.event_id for hit in receiver.hits] == [event.id] * 2


async def test_a_sweep_asks_again_when_nobody_heard(stage: WebhookStage, receiver: Receiver) -> None:
    """Once a minute, not once a second."""
    await stage.register(receiver.url())
    stage.log.losing = True
    await stage.publish(await stage.happen())
    stage.now += LOST_AFTER

    asked = []
    for _ in range(4):
        asked.append(await stage.sweep())
        stage.passes(seconds=30)

    assert asked == [1, 0, 1, 0]


async def test_what_fell_due_while_nobody_swept_is_found(stage: WebhookStage, receiver: Receiver) -> None:
    """For days; by a sweeper that knows nothing but the store."""
    await stage.sweep()
    await stage.register(receiver.url())
    stage.log.losing = True
    await stage.publish(await stage.happen())
    stage.log.losing = False
    stage.passes(days=3)
    stage.sweeper = DeliveryScheduler(stage.stores, stage.log.write, stage.clock)

    await stage.sweep()

    assert len(receiver.hits) == 1


async def test_what_nobody_heard_of_for_long_stays_known(stage: WebhookStage, receiver: Receiver) -> None:
    """The mark does not move over a minute that still holds something."""
    await stage.register(receiver.url())
    stage.log.losing = True
    await stage.publish(await stage.happen())
    for _ in range(30):
        stage.passes(minutes=1)
        await stage.sweep()
    stage.log.losing = False
    stage.sweeper = DeliveryScheduler(stage.stores, stage.log.write, stage.clock)

    await stage.sweep()

    assert len(receiver.hits) == 1


async def test_a_backlog_larger_than_a_round_is_swept_in_several(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """The next round goes on behind the one before, so that nothing waits behind what does not move."""
    await stage.register(receiver.url())
    stage.log.losing = True
    for number in range(450):
        await stage.publish(await stage.happen(f"event-{number}"))
    stage.now += LOST_AFTER
    stage.sweeper = DeliveryScheduler(stage.stores, stage.log.write, stage.clock, SweepPace(most=200))

    asked = [await stage.sweeper.sweep() for _ in range(3)]

    assert asked == [200, 200, 50]


async def test_the_log_being_away_loses_nothing(stage: WebhookStage, receiver: Receiver) -> None:
    """The deliveries stand in the store; who fans out is reported to try again."""
    await stage.register(receiver.url())
    event = await stage.happen()
    stage.log.away = True
    with pytest.raises(StoreUnavailable):
        await stage.fan_out(event)
    stage.log.away = False

    await stage.publish(event)

    assert len(receiver.hits) == 1


async def test_a_delivery_that_ended_is_watched_no_more(stage: WebhookStage, receiver: Receiver) -> None:
    """Else every sweep would read it for ever."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)

    done = await stage.delivery(event, endpoint)

    assert (done.delivery.status, stage.watched(done.delivery.delivery_id)) == (DeliveryStatus.DELIVERED, 0)


async def test_the_mark_moves_behind_what_was_swept(stage: WebhookStage) -> None:
    """A sweeper that starts anew does not look through two weeks again."""
    await stage.sweep()
    stage.passes(days=10)
    await stage.sweep()
    mark = await stage.stores.records.get(PLATFORM, RecordKind.COUNTER, MARK)

    assert stage.now - SweepMark.from_bytes(mark.body).oldest < timedelta(minutes=20)


async def test_a_clock_that_is_set_back_loses_nothing(stage: WebhookStage, receiver: Receiver) -> None:
    """What falls due by the right clock is found, though a sweep was ahead by an hour."""
    await stage.register(receiver.url())
    stage.passes(hours=1)
    await stage.sweep()
    stage.passes(hours=-1)
    await stage.sweep()
    stage.log.losing = True
    await stage.publish(await stage.happen())
    for _ in range(10):
        stage.passes(minutes=1)
        await stage.sweep()
    stage.log.losing = False
    stage.passes(minutes=1)

    assert await stage.sweep() == 1
