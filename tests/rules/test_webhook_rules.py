"""The schedule of deliveries, what results mean, and when an endpoint is given up."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.webhooks import (
    DeliveryStatus,
    DisabledReason,
    EndpointHealth,
    FailureKind,
    NoteAttempt,
    StoredDelivery,
)
from streams.webhooks import rules
from streams.webhooks.ports import Answer
from streams.webhooks.records import fresh, rearmed
from tests.builders import ACME, NOW, build_decision_event, build_endpoint

ENDPOINT = build_endpoint()
BROKEN = Answer(latency_ms=3, status=500, failure=FailureKind.STATUS)
TAKEN = Answer(latency_ms=3, status=204)
MOMENT = timedelta(milliseconds=1)
"""Times are kept to the millisecond."""

draws = st.floats(min_value=1 - rules.JITTER, max_value=1 + rules.JITTER)
failures = st.builds(
    Answer,
    latency_ms=st.integers(0, 15_000),
    status=st.none() | st.integers(300, 599).filter(lambda status: status != rules.GONE),
    failure=st.sampled_from(FailureKind),
    retry_after_s=st.none() | st.floats(min_value=0, max_value=10**7),
)


def new() -> StoredDelivery:
    """A delivery nobody attempted."""
    return fresh(build_decision_event(), ENDPOINT, NOW)


def after(stored: StoredDelivery, answer: Answer, at: datetime, draw: float = 1.0) -> StoredDelivery:
    """The delivery after an attempt that took no time."""
    return rules.attempted(stored, answer, at, at, lambda _low, _high: draw)


@given(answers=st.lists(failures, min_size=10, max_size=10), draw=draws)
def test_a_receiver_that_never_takes_it_is_tried_at_each_step_and_no_more(
    answers: list[Answer], draw: float
) -> None:
    """G55: each step after the one before it, within jitter, or when the receiver asked to be asked."""
    stored, at = new(), NOW
    for step, answer in enumerate(answers[:9], start=1):
        stored = after(stored, answer, at, draw)
        assert stored.delivery.status is DeliveryStatus.PENDING
        assert stored.delivery.next_attempt_at is not None
        asked = min(timedelta(seconds=answer.retry_after_s or 0), timedelta(hours=24))
        waited, at = stored.delivery.next_attempt_at - at, stored.delivery.next_attempt_at
        assert abs(waited - max(rules.SCHEDULE[step] * draw, asked)) <= MOMENT
    stored = after(stored, answers[9], at, draw)
    assert (stored.delivery.status, stored.delivery.next_attempt_at) == (DeliveryStatus.FAILED, None)
    assert [attempt.number for attempt in stored.delivery.attempts] == list(range(1, 11))


def test_the_schedule_is_the_published_one() -> None:
    """75 h 35 min and 5 s in all."""
    assert sum(rules.SCHEDULE, timedelta()) == timedelta(hours=75, minutes=35, seconds=5)


@given(step=st.integers(0, 9))
def test_whatever_step_takes_it_ends_it(step: int) -> None:
    """A 2xx is an end."""
    stored = after(new().model_copy(update={"step": step}), TAKEN, NOW)

    assert (stored.delivery.status, stored.delivery.next_attempt_at) == (DeliveryStatus.DELIVERED, None)


@given(step=st.integers(0, 9))
def test_a_receiver_that_is_gone_is_not_asked_again(step: int) -> None:
    """G55: 410."""
    gone = Answer(latency_ms=3, status=410, failure=FailureKind.STATUS)
    stored = after(new().model_copy(update={"step": step}), gone, NOW)

    assert (stored.delivery.status, stored.delivery.next_attempt_at) == (DeliveryStatus.FAILED, None)


@given(step=st.integers(0, 9), answer=st.one_of(failures, st.just(TAKEN)))
def test_what_is_sent_never_changes(step: int, answer: Answer) -> None:
    """Byte for byte the same at every attempt."""
    stored = new().model_copy(update={"step": step})

    assert after(stored, answer, NOW).payload == stored.payload


@given(draw=draws)
def test_the_drawn_wait_stays_within_the_jitter(draw: float) -> None:
    """The bounds a draw is asked for are those of the jitter."""
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return draw

    rules.attempted(new(), BROKEN, NOW, NOW, uniform)

    assert asked == [(0.9, 1.1)]


def test_only_the_last_thirty_attempts_are_kept() -> None:
    """Numbers go on over replays."""
    stored = new()
    for _ in range(40):
        stored = rearmed(after(stored, BROKEN, NOW), NOW)

    assert [attempt.number for attempt in stored.delivery.attempts] == list(range(11, 41))


def test_a_retry_waits_for_its_time() -> None:
    """A message that comes twice is attempted once."""
    stored = after(new(), BROKEN, NOW)

    due = [rules.is_due(stored, NOW + timedelta(seconds=wait)) for wait in (0, 4, 4.5, 5)]

    assert due == [False, False, True, True]


def test_the_first_attempt_waits_for_no_clock() -> None:
    """Who fanned it out may be ahead of who attempts it."""
    assert rules.is_due(new(), NOW - timedelta(minutes=1))


@pytest.mark.parametrize(
    "status", [DeliveryStatus.DELIVERED, DeliveryStatus.FAILED, DeliveryStatus.CANCELLED]
)
def test_what_has_ended_is_not_due(status: DeliveryStatus) -> None:
    """Whatever a message says."""
    stored = new()
    ended = stored.delivery.model_copy(update={"status": status})

    assert not rules.is_due(stored.model_copy(update={"delivery": ended}), NOW + timedelta(days=9))


def note(at: datetime, *, succeeded: bool = False, gone: bool = False) -> NoteAttempt:
    """How an attempt went."""
    endpoint_id = ENDPOINT.endpoint.endpoint_id
    return NoteAttempt(tenant_id=ACME, endpoint_id=endpoint_id, at=at, succeeded=succeeded, gone=gone)


def healthy(**known: datetime) -> EndpointHealth:
    """What is known of the endpoint."""
    return EndpointHealth(tenant_id=ACME, endpoint_id=ENDPOINT.endpoint.endpoint_id, **known)


def test_an_endpoint_is_given_up_after_five_days_of_failures() -> None:
    """G55; the moment before is too early."""
    health = rules.after_note(healthy(), note(NOW))
    late = NOW + timedelta(days=5)

    reasons = [rules.reason_to_disable(health, note(at)) for at in (NOW, late - MOMENT, late)]

    assert reasons == [None, None, DisabledReason.FAILED_FOR_5_DAYS]


@given(
    notes=st.lists(
        st.tuples(st.integers(0, 20), st.booleans()).map(
            lambda one: note(NOW + timedelta(days=one[0]), succeeded=one[1])
        ),
        unique_by=lambda one: one.at,
    )
)
def test_an_endpoint_that_took_something_within_five_days_is_not_given_up(notes: list[NoteAttempt]) -> None:
    """In whatever order the notes come in that are not older than what is known."""
    health = healthy()
    for one in sorted(notes, key=lambda one: one.at):
        health = rules.after_note(health, one)
        if rules.reason_to_disable(health, one) is not None:
            since = one.at - rules.GIVEN_UP_AFTER
            assert not any(other.succeeded and since <= other.at <= one.at for other in notes)


def test_a_late_note_of_an_old_failure_says_nothing() -> None:
    """Notes pass through the log, and one may be written again."""
    health = healthy(last_success_at=NOW)

    assert rules.after_note(health, note(NOW - timedelta(seconds=1))) is health


def test_a_success_soon_after_another_is_not_written_down() -> None:
    """Once a minute is enough."""
    health = healthy(last_success_at=NOW)
    soon, later = NOW + timedelta(seconds=59), NOW + timedelta(seconds=60)

    assert rules.after_note(health, note(soon, succeeded=True)) is health
    assert rules.after_note(health, note(later, succeeded=True)).last_success_at == later


def test_a_success_after_failures_is_written_down_at_once() -> None:
    """The five days begin anew."""
    health = healthy(last_success_at=NOW, failing_since=NOW + timedelta(seconds=1))

    assert rules.after_note(health, note(NOW + timedelta(seconds=2), succeeded=True)).failing_since is None


def test_who_is_gone_is_disabled_at_once() -> None:
    """G55: 410."""
    assert rules.reason_to_disable(healthy(), note(NOW, gone=True)) is DisabledReason.GONE
