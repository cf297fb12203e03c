"""What attempts come to: signatures, the health of endpoints, giving up, cancelling, delivering again."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from schemas.audit import AuditAction, AuditFilter
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import EventId, derive_id
from schemas.problems import NotFound
from schemas.webhooks import (
    ANY_TYPE,
    DeliveryStatus,
    DisabledReason,
    EndpointHealth,
    FailureKind,
    NoteAttempt,
    ReplayEvents,
    SealedSecret,
    StoredEndpoint,
)
from streams.ports.records import Change, RecordKind
from streams.webhooks.records import delivery_records, endpoint_record, fresh
from streams.webhooks.replay import PAGE
from streams.webhooks.signing import seal_secret
from tests.builders import ACME, GLOBEX, build_decision_event
from tests.handlers.webhook_stage import SECRET, WebhookStage, open_stage
from tests.webhook_receiver import Receiver, open_receiver, resetting, saying

FORMER = "the secret before the one in force"


@pytest.fixture
async def stage() -> AsyncIterator[WebhookStage]:
    """An empty deployment, at the time it is."""
    async with open_stage() as opened:
        opened.now = datetime.now(UTC).replace(microsecond=0)
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with open_receiver() as opened:
        yield opened


async def health(stage: WebhookStage, endpoint: StoredEndpoint) -> EndpointHealth | None:
    """What is known of an endpoint's health."""
    key = endpoint.endpoint.endpoint_id
    try:
        record = await stage.stores.records.get(endpoint.tenant_id, RecordKind.WEBHOOK_HEALTH, key)
    except NotFound:
        return None
    return EndpointHealth.from_bytes(record.body)


async def test_the_signature_verifies_with_the_independent_library(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """S38."""
    await stage.register(receiver.url())
    await stage.publish(await stage.happen())

    receiver.hits[0].verify(SECRET)


async def test_during_a_rotation_both_secrets_verify(stage: WebhookStage, receiver: Receiver) -> None:
    """G54: no receiver has to change its secret at the same moment."""
    endpoint = await stage.register(receiver.url())
    key = endpoint.endpoint.endpoint_id
    former = await seal_secret(stage.stores.vault, ACME, key, FORMER)
    beside = SealedSecret(sealed=former, ends_at=stage.now + timedelta(hours=1))
    rotated = endpoint.model_copy(update={"secrets": (*endpoint.secrets, beside)})
    await stage.stores.journal.commit(Change(ACME, (endpoint_record(rotated, 2),)))
    await stage.publish(await stage.happen())

    for secret in (SECRET, FORMER):
        receiver.hits[0].verify(secret)


async def test_the_log_keeps_what_the_receiver_said(stage: WebhookStage, receiver: Receiver) -> None:
    """G38: status and failure of each attempt."""
    receiver.answer = saying(500)
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)
    receiver.answer = resetting
    stage.passes(seconds=6)
    await stage.sweep()
    receiver.answer = saying(204)
    stage.passes(minutes=6)
    await stage.sweep()

    delivery = (await stage.delivery(event, endpoint)).delivery

    assert [(one.number, one.status, one.failure) for one in delivery.attempts] == [
        (1, 500, FailureKind.STATUS),
        (2, None, FailureKind.CONNECTION_FAILED),
        (3, 204, None),
    ]


async def test_a_success_is_remembered_to_the_minute(stage: WebhookStage, receiver: Receiver) -> None:
    """`last_success_at` (G22)."""
    endpoint = await stage.register(receiver.url())
    began = stage.now
    for number, wait in enumerate((0, 40, 40)):
        stage.passes(seconds=wait)
        await stage.publish(await stage.happen(f"event-{number}"))

    known = await health(stage, endpoint)

    assert known is not None
    assert known.last_success_at == began + timedelta(seconds=80)


async def test_health_is_written_when_it_changes(stage: WebhookStage, receiver: Receiver) -> None:
    """Not with every delivery, and its actor is not notified of of every one either."""
    endpoint = await stage.register(receiver.url())
    for number in range(120):
        await stage.publish(await stage.happen(f"event-{number}"))
        stage.passes(seconds=1)

    where = (ACME, RecordKind.WEBHOOK_HEALTH, endpoint.endpoint.endpoint_id)
    logged = [one for one in stage.log.written if b"note_attempt" in (one.value or b"")]
    assert (stage.shelves.records[where].version, len(logged)) == (2, 4)


async def test_an_actor_that_forgot_goes_on_from_the_store(stage: WebhookStage, receiver: Receiver) -> None:
    """A table that is lost costs time, never facts."""
    receiver.answer = saying(500)
    endpoint = await stage.register(receiver.url())
    await stage.publish(await stage.happen("one"))
    began = stage.now
    stage.health.stored.clear()
    stage.passes(hours=1)
    await stage.publish(await stage.happen("two"))

    known = await health(stage, endpoint)

    assert known is not None
    assert known.failing_since == began


async def test_who_is_gone_is_disabled_with_its_row_and_its_event(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """G55: 410 ends the delivery, and the endpoint."""
    receiver.answers["/gone"] = saying(410)
    endpoint = await stage.register(receiver.url("/gone"))
    event = await stage.happen()
    await stage.publish(event)

    after = (await stage.endpoint(endpoint.endpoint.endpoint_id)).endpoint
    rows = await stage.stores.audit_log.page(ACME, AuditFilter(action=AuditAction.WEBHOOK_DISABLED), limit=10)
    assert (after.active, after.disabled_reason) == (False, DisabledReason.GONE)
    assert [row.subject_id for row in rows] == [after.endpoint_id]
    assert [(one.type, one.data.endpoint_id, one.sequence) for one in stage.announcer.events] == [
        (EventType.WEBHOOK_ENDPOINT_DISABLED, after.endpoint_id, 2)
    ]
    assert (await stage.delivery(event, endpoint)).delivery.status is DeliveryStatus.FAILED


async def test_who_is_gone_at_two_deliveries_is_disabled_once(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """The second says nothing new."""
    receiver.answer = saying(410)
    await stage.register(receiver.url())
    for name in ("one", "two"):
        await stage.fan_out(await stage.happen(name))
    await stage.settle()

    assert (len(receiver.hits), len(stage.announcer.events)) == (2, 1)


async def test_a_word_from_before_an_endpoint_was_fixed_says_nothing(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """It was on its way when its tenant made the endpoint active again."""
    endpoint = await stage.register(receiver.url())
    key = endpoint.endpoint.endpoint_id
    patched = endpoint.model_copy(update={"judged_from": stage.now})
    await stage.stores.journal.commit(Change(ACME, (endpoint_record(patched, 2),)))
    before = stage.now - timedelta(seconds=1)
    note = NoteAttempt(tenant_id=ACME, endpoint_id=key, at=before, succeeded=False, gone=True)
    await stage.carry.update_health(note)

    assert (await stage.endpoint(key)).endpoint.active


async def test_the_other_endpoints_are_notified_who_was_disabled(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """G55: an event like any other, which the one disabled does not get."""
    receiver.answers["/gone"] = saying(410)
    await stage.register(receiver.url("/gone"), "gone")
    await stage.register(receiver.url("/other"), "other")
    await stage.publish(await stage.happen())

    await stage.publish(stage.announcer.events[0])

    assert (len(receiver.at("/gone")), len(receiver.at("/other"))) == (1, 2)


async def fail_for(stage: WebhookStage, days: int) -> None:
    """Let an event of each day, the first and the last included, fail for good."""
    for day in range(days + 1):
        await stage.publish(await stage.happen(f"event-{stage.now}-{day}"))
        if day < days:
            stage.passes(days=1)


async def test_five_days_of_failures_disable(stage: WebhookStage, receiver: Receiver) -> None:
    """G55: every attempt failed; four days do not."""
    receiver.answer = saying(500)
    endpoint = await stage.register(receiver.url())
    await fail_for(stage, days=4)
    early = (await stage.endpoint(endpoint.endpoint.endpoint_id)).endpoint
    stage.passes(days=1)
    await fail_for(stage, days=0)

    late = (await stage.endpoint(endpoint.endpoint.endpoint_id)).endpoint

    assert (early.active, early.disabled_reason) == (True, None)
    assert (late.active, late.disabled_reason) == (False, DisabledReason.FAILED_FOR_5_DAYS)


async def test_an_endpoint_made_active_again_has_five_days_more(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """What failed before its tenant fixed it says nothing."""
    receiver.answer = saying(500)
    endpoint = await stage.register(receiver.url())
    await fail_for(stage, days=5)
    stage.passes(days=1)
    found = await stage.endpoint(endpoint.endpoint.endpoint_id)
    patched = found.endpoint.model_copy(update={"active": True, "disabled_reason": None})
    again = found.model_copy(update={"endpoint": patched, "judged_from": stage.now})
    await stage.stores.journal.commit(Change(ACME, (endpoint_record(again, 3),)))
    await fail_for(stage, days=4)
    early = (await stage.endpoint(endpoint.endpoint.endpoint_id)).endpoint
    stage.passes(days=1)
    await fail_for(stage, days=0)

    late = (await stage.endpoint(endpoint.endpoint.endpoint_id)).endpoint

    assert (early.active, late.active) == (True, False)


async def test_what_is_due_at_an_endpoint_that_is_not_in_force_is_cancelled(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """Nothing is sent, and nothing is due any more."""
    receiver.answer = saying(500)
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)
    await stage.change(endpoint, active=False)
    stage.passes(seconds=10)
    await stage.sweep()

    ended = await stage.delivery(event, endpoint)

    assert (ended.delivery.status, ended.delivery.next_attempt_at) == (DeliveryStatus.CANCELLED, None)
    assert len(receiver.hits) == 1


async def again(stage: WebhookStage, endpoint: StoredEndpoint, **chosen: object) -> None:
    """Ask for a time to be delivered again."""
    asked = {
        "tenant_id": endpoint.tenant_id,
        "endpoint_id": endpoint.endpoint.endpoint_id,
        "since": stage.now - timedelta(hours=1),
        "until": stage.now,
        "event_types": (ANY_TYPE,),
    }
    await stage.carry.deliver_again(ReplayEvents.model_validate(asked | chosen))
    await stage.settle()
    await stage.sweep()


async def test_a_time_is_delivered_again_to_one_endpoint(stage: WebhookStage, receiver: Receiver) -> None:
    """Its events of its mode, whatever became of them, and those it never had; no other endpoint's."""
    first = await stage.register(receiver.url("/first"), "first")
    await stage.register(receiver.url("/second"), "second")
    await stage.register(receiver.url("/globex"), "globex", tenant_id=GLOBEX)
    result = await stage.happen("told")
    await stage.publish(result)
    lost = await stage.happen("lost")
    await stage.happen("test", livemode=False)
    await stage.happen("globex", tenant_id=GLOBEX)
    stage.passes(minutes=1)
    receiver.hits.clear()

    await again(stage, first)

    assert {hit.path for hit in receiver.hits} == {"/first"}
    assert {hit.event_id for hit in receiver.hits} == {result.id, lost.id}


async def test_only_the_types_and_the_time_asked_for_are_delivered_again(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """`from` counts, `to` does not."""
    endpoint = await stage.register(receiver.url())
    since = stage.now + timedelta(minutes=10)
    events: list[DecisionEvent] = []
    for minutes, type_ in (
        (9, EventType.VERIFICATION_APPROVED),
        (1, EventType.VERIFICATION_APPROVED),
        (5, EventType.CASE_OPENED),
        (5, EventType.VERIFICATION_APPROVED),
    ):
        stage.passes(minutes=minutes)
        events.append(await stage.happen(f"at-{stage.now}", type=type_))

    await again(
        stage,
        endpoint,
        since=since,
        until=since + timedelta(minutes=10),
        event_types=(EventType.VERIFICATION_APPROVED,),
    )

    assert [hit.event_id for hit in receiver.hits] == [events[1].id]


async def test_nothing_is_delivered_again_to_an_endpoint_that_is_not_in_force(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """It was made inactive after it was asked for; what was delivered stays so."""
    endpoint = await stage.register(receiver.url())
    event = await stage.happen()
    await stage.publish(event)
    await stage.change(endpoint, active=False)
    stage.passes(minutes=1)

    await again(stage, endpoint)

    assert (await stage.delivery(event, endpoint)).delivery.status is DeliveryStatus.DELIVERED


async def test_a_long_time_is_delivered_again_page_by_page(stage: WebhookStage, receiver: Receiver) -> None:
    """Each page asks for the rest."""
    endpoint = await stage.register(receiver.url())
    for number in range(PAGE + 1):
        await stage.happen(f"event-{number}")
    stage.passes(minutes=1)

    await again(stage, endpoint)

    assert len({hit.event_id for hit in receiver.hits}) == len(receiver.hits) == PAGE + 1


async def test_a_ping_goes_to_its_endpoint_alone(stage: WebhookStage, receiver: Receiver) -> None:
    """It is in no feed and no topic; the sweep takes it up at once."""
    endpoint = await stage.register(receiver.url("/first"), "first")
    await stage.register(receiver.url("/second"), "second")
    ping = build_decision_event(
        id=EventId(derive_id("evt", "ping")), type=EventType.PING, timestamp=stage.now
    )
    await stage.stores.journal.commit(
        Change(ACME, delivery_records(fresh(ping, endpoint, stage.now), stage.now))
    )

    await stage.sweep()

    assert [(hit.path, hit.event_id) for hit in receiver.hits] == [("/first", ping.id)]


async def test_a_receiver_that_drops_the_older_sequence_ends_with_the_newest(
    stage: WebhookStage, receiver: Receiver
) -> None:
    """F14: a retry arrives behind what happened since; `sequence` tells (G53)."""
    await stage.register(receiver.url())
    receiver.answer = saying(500)
    await stage.publish(await stage.happen("older", sequence=1, data=EventData(status="REVIEW_REQUIRED")))
    receiver.answer = saying(204)
    await stage.publish(await stage.happen("newer", sequence=2, data=EventData(status="APPROVED")))
    stage.passes(seconds=6)
    await stage.sweep()

    taken = [DecisionEvent.from_bytes(hit.body) for hit in receiver.hits[1:]]
    sequence, status = 0, None
    for event in taken:
        if event.sequence > sequence:
            sequence, status = event.sequence, event.data.status

    assert [event.sequence for event in taken] == [2, 1]
    assert status == "APPROVED"
