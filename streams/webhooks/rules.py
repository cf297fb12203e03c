"""Schedule of deliveries, results of attempts, and changes of endpoints (G38, G54, G55). Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.webhooks import (
    Attempt,
    DeliveryStatus,
    DisabledReason,
    EndpointHealth,
    FailureKind,
    NoteAttempt,
    SealedSecret,
    StoredDelivery,
    StoredEndpoint,
)
from streams.webhooks.ports import Answer

Uniform = Callable[[float, float], float]
"""Return a uniformly distributed random number between two bounds."""

SCHEDULE: Final = (
    timedelta(0),
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""Delay of each attempt after the previous one (G55, Standard Webhooks); 75 h 35 min in total."""

JITTER: Final = 0.1
"""Jitter as a share of a step, so that retries do not come all at once (G55)."""

LONGEST_RETRY_AFTER: Final = timedelta(hours=24)
"""Upper bound of `Retry-After` (G55)."""

LOST_AFTER: Final = timedelta(seconds=10)
"""A delivery not attempted for this long counts as lost and is offered again."""

EARLY: Final = timedelta(milliseconds=500)
"""How much before its time a retry may be made: by so much the clocks of two machines may differ; no more
than the jitter of the shortest step."""

GIVEN_UP_AFTER: Final = timedelta(days=5)
"""An endpoint at which every attempt failed for so long is disabled (G55)."""

SUCCESS_EVERY: Final = timedelta(minutes=1)
"""Shortest interval between two stored successes."""

STORED_ATTEMPTS: Final = 30
"""Number of latest attempts stored with a delivery."""

STORED_FOR: Final = timedelta(days=30)
"""How long after its last attempt a delivery is stored at least, and an event can be replayed (G56)."""

WRITABLE_FOR: Final = STORED_FOR + timedelta(hours=12)
"""Nothing begins or restarts a delivery later, so that nobody writes what is being removed; it allows for
commands that waited."""

REMOVED_AFTER: Final = STORED_FOR + timedelta(days=1)
"""When a delivery is removed; clocks differ by less than what lies between."""

GONE: Final = 410
"""RFC 9110 section 15.5.11: the receiver is gone for good."""

SLOW_MS: Final = 5_000
"""A receiver that takes longer than this to answer counts as slow."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The timing of deliveries; tests pass another."""

    schedule: tuple[timedelta, ...] = SCHEDULE
    lost_after: timedelta = LOST_AFTER
    early: timedelta = EARLY


STANDARD: Final = Pace()
"""What is promised to tenants."""


def is_due(stored: StoredDelivery, now: datetime, early: timedelta = EARLY) -> bool:
    """Return whether an attempt is due; the first always is, however clocks differ."""
    delivery = stored.delivery
    if delivery.status is not DeliveryStatus.PENDING or delivery.next_attempt_at is None:
        return False
    return stored.step == 0 or delivery.next_attempt_at <= now + early


def is_past(stored: StoredDelivery, period: timedelta, now: datetime) -> bool:
    """Return whether the delivery is over and its last attempt at least the period ago."""
    delivery = stored.delivery
    last_at = delivery.attempts[-1].at if delivery.attempts else delivery.created_at
    return delivery.status is not DeliveryStatus.PENDING and last_at <= now - period


def is_deliverable(event: DecisionEvent, now: datetime) -> bool:
    """Return whether the event is recent enough for a delivery of it to be begun or restarted."""
    return event.timestamp > now - WRITABLE_FOR


def is_in_force(endpoint: StoredEndpoint) -> bool:
    """Return whether anything is sent to the endpoint at all."""
    return endpoint.endpoint.active and not endpoint.deleted


def cancelled(stored: StoredDelivery) -> StoredDelivery:
    """Return the delivery as cancelled, because its endpoint is not in force any more."""
    changes = {"status": DeliveryStatus.CANCELLED, "next_attempt_at": None}
    return stored.model_copy(update={"delivery": stored.delivery.model_copy(update=changes)})


def next_number(stored: StoredDelivery) -> int:
    """Return the number of the next attempt, counted over all replays."""
    attempts = stored.delivery.attempts
    return attempts[-1].number + 1 if attempts else 1


def attempted(
    stored: StoredDelivery,
    answer: Answer,
    began: datetime,
    now: datetime,
    uniform: Uniform,
    schedule: tuple[timedelta, ...] = SCHEDULE,
) -> StoredDelivery:
    """Return the delivery after an attempt that ran from `began` to `now`, with its next attempt."""
    attempt = Attempt(
        number=next_number(stored),
        at=began,
        latency_ms=answer.latency_ms,
        status=answer.status,
        failure=answer.failure,
        answer=answer.text,
    )
    status, following = _outcome(stored.step + 1, answer, now, uniform, schedule)
    changes = {
        "attempts": (*stored.delivery.attempts, attempt)[-STORED_ATTEMPTS:],
        "status": status,
        "next_attempt_at": following,
    }
    delivery = stored.delivery.model_copy(update=changes)
    return stored.model_copy(update={"delivery": delivery, "step": stored.step + 1})


def _outcome(
    step: int, answer: Answer, now: datetime, uniform: Uniform, schedule: tuple[timedelta, ...]
) -> tuple[DeliveryStatus, datetime | None]:
    """Return the status of a delivery after `step` attempts, and when the next is due."""
    if answer.succeeded:
        return DeliveryStatus.DELIVERED, None
    if answer.status == GONE or step >= len(schedule):
        return DeliveryStatus.FAILED, None
    wait = max(schedule[step] * uniform(1 - JITTER, 1 + JITTER), _retry_after(answer))
    return DeliveryStatus.PENDING, to_milliseconds(now + wait)


def _retry_after(answer: Answer) -> timedelta:
    """Return the receiver's `Retry-After`, limited by `LONGEST_RETRY_AFTER`."""
    asked_s = answer.retry_after_s or 0.0
    return timedelta(seconds=min(max(asked_s, 0.0), LONGEST_RETRY_AFTER.total_seconds()))


def is_slow(answer: Answer) -> bool:
    """Return whether the receiver was slow."""
    return answer.failure is FailureKind.TIMEOUT or answer.latency_ms > SLOW_MS


def after_note(health: EndpointHealth, note: NoteAttempt) -> EndpointHealth:
    """Return the endpoint's health after an attempt; the same object when nothing is to be stored.

    Notes may arrive out of order: an older failure does not count against a later success.
    """
    if note.succeeded:
        return _after_success(health, note.at)
    if health.failing_since is not None or _is_before(note.at, health.last_success_at):
        return health
    return health.model_copy(update={"failing_since": note.at})


def _after_success(health: EndpointHealth, at: datetime) -> EndpointHealth:
    if _is_before(at, health.last_success_at) or _is_before(at, health.failing_since):
        return health
    last, failed = health.last_success_at, health.failing_since is not None
    if not failed and last is not None and at - last < SUCCESS_EVERY:
        return health
    return health.model_copy(update={"last_success_at": at, "failing_since": None})


def _is_before(at: datetime, other: datetime | None) -> bool:
    return other is not None and at < other


def reason_to_disable(health: EndpointHealth, note: NoteAttempt) -> DisabledReason | None:
    """Return why the endpoint is to be disabled, or None; `health` is the health after the note."""
    if note.gone:
        return DisabledReason.GONE
    since = health.failing_since
    if not note.succeeded and since is not None and note.at - since >= GIVEN_UP_AFTER:
        return DisabledReason.FAILED_FOR_5_DAYS
    return None


def excused(
    health: EndpointHealth, note: NoteAttempt, reason: DisabledReason, judged_from: datetime | None
) -> EndpointHealth | None:
    """Return the health without failures from before `judged_from`, or None when it is to be disabled.

    Failures count from the first one after that time.
    """
    if judged_from is None:
        return None
    if note.at < judged_from:
        return health
    since = health.failing_since
    if reason is DisabledReason.FAILED_FOR_5_DAYS and since is not None and since < judged_from:
        return health.model_copy(update={"failing_since": note.at})
    return None


LONGEST_OVERLAP: Final = timedelta(seconds=86_400)
"""How long a replaced secret may go on signing beside its successor (G38)."""

MOST_SECRETS: Final = 3
"""Secrets that sign at one time; a further rotation drops the oldest."""


def changed(stored: StoredEndpoint, values: Mapping[str, Any], now: datetime) -> StoredEndpoint:
    """Return the endpoint with changed fields; enabling it clears `disabled_reason`."""
    former = stored.endpoint
    endpoint = former.model_copy(update=dict(values))
    if endpoint.active:
        endpoint = endpoint.model_copy(update={"disabled_reason": None})
    anew = (endpoint.active and not former.active) or endpoint.url != former.url
    judged_from = now if anew else stored.judged_from
    return StoredEndpoint.from_bytes(
        stored.model_copy(update={"endpoint": endpoint, "judged_from": judged_from}).to_bytes()
    )


def rotated(stored: StoredEndpoint, sealed: str, overlap: timedelta, now: datetime) -> StoredEndpoint:
    """Return the endpoint with a new secret in force; the newest of the others go on signing beside it."""
    former, *others = stored.secrets
    ended = former.model_copy(update={"ends_at": now + overlap})
    beside = [one for one in (ended, *others) if one.ends_at is not None and one.ends_at > now]
    secrets = (SealedSecret(sealed=sealed), *beside)[:MOST_SECRETS]
    endpoint = stored.endpoint.model_copy(update={"secret_rotated_at": now})
    return StoredEndpoint.from_bytes(
        stored.model_copy(update={"endpoint": endpoint, "secrets": secrets}).to_bytes()
    )
