"""When a delivery is attempted, what an attempt's result means, and when an endpoint is given up. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.base import to_milliseconds
from schemas.webhooks import (
    Attempt,
    DeliveryStatus,
    DisabledReason,
    EndpointHealth,
    FailureKind,
    NoteAttempt,
    StoredDelivery,
    StoredEndpoint,
)
from streams.webhooks.ports import Answer

Uniform = Callable[[float, float], float]
"""Draws a number between two, each as likely."""

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
"""How long after the attempt before it each attempt is made (G55, Standard Webhooks); 75 h 35 min in all."""

JITTER: Final = 0.1
"""By which part of itself a step may be shorter or longer, so that retries do not come all at once (G55)."""

LONGEST_RETRY_AFTER: Final = timedelta(hours=24)
"""What a receiver may ask for at most (G55)."""

LOST_AFTER: Final = timedelta(seconds=10)
"""After so long a delivery nobody attempted counts as lost: its message, or who had it, is gone."""

EARLY: Final = timedelta(milliseconds=500)
"""How much before its time a retry may be made: by so much the clocks of two machines may differ; no more
than the jitter of the shortest step."""

GIVEN_UP_AFTER: Final = timedelta(days=5)
"""An endpoint at which every attempt failed for so long is disabled (G55)."""

SUCCESS_EVERY: Final = timedelta(minutes=1)
"""A success so soon after another one is not written down."""

STORED_ATTEMPTS: Final = 30
"""Attempts kept with a delivery, the last ones."""

GONE: Final = 410
"""RFC 9110 section 15.5.11: the receiver wants no more of it, ever."""

SLOW_MS: Final = 5_000
"""Who takes longer than this to answer holds places that others wait for."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast deliveries go; tests pass another."""

    schedule: tuple[timedelta, ...] = SCHEDULE
    lost_after: timedelta = LOST_AFTER
    early: timedelta = EARLY


STANDARD: Final = Pace()
"""What is promised to tenants."""


def is_due(stored: StoredDelivery, now: datetime, early: timedelta = EARLY) -> bool:
    """Tell whether an attempt is to be made; the first may always be, whosever clock is behind."""
    delivery = stored.delivery
    if delivery.status is not DeliveryStatus.PENDING or delivery.next_attempt_at is None:
        return False
    return stored.step == 0 or delivery.next_attempt_at <= now + early


def is_in_force(endpoint: StoredEndpoint) -> bool:
    """Tell whether anything is sent to the endpoint at all."""
    return endpoint.endpoint.active and not endpoint.deleted


def cancelled(stored: StoredDelivery) -> StoredDelivery:
    """Return a delivery whose endpoint is not in force any more."""
    changes = {"status": DeliveryStatus.CANCELLED, "next_attempt_at": None}
    return stored.model_copy(update={"delivery": stored.delivery.model_copy(update=changes)})


def next_number(stored: StoredDelivery) -> int:
    """Return the number of the attempt to come, counted over all replays."""
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
    """Return the delivery after an attempt that `began` and is over `now`; what is next stands in it."""
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
    """Return where a delivery stands after so many attempts, and when the next is."""
    if answer.succeeded:
        return DeliveryStatus.DELIVERED, None
    if answer.status == GONE or step >= len(schedule):
        return DeliveryStatus.FAILED, None
    wait = max(schedule[step] * uniform(1 - JITTER, 1 + JITTER), _retry_after(answer))
    return DeliveryStatus.PENDING, to_milliseconds(now + wait)


def _retry_after(answer: Answer) -> timedelta:
    """Return how long the receiver asks to be left alone, within reason."""
    asked_s = answer.retry_after_s or 0.0
    return timedelta(seconds=min(max(asked_s, 0.0), LONGEST_RETRY_AFTER.total_seconds()))


def is_slow(answer: Answer) -> bool:
    """Tell whether the receiver held its place for long."""
    return answer.failure is FailureKind.TIMEOUT or answer.latency_ms > SLOW_MS


def after_note(health: EndpointHealth, note: NoteAttempt) -> EndpointHealth:
    """Return the endpoint's health after an attempt; the same object when nothing is to be written down.

    Notes may come out of order: an older failure says nothing against a later success.
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
    """Return why nothing more is to be sent to the endpoint, None while it is; `health` is after the note."""
    if note.gone:
        return DisabledReason.GONE
    since = health.failing_since
    if not note.succeeded and since is not None and note.at - since >= GIVEN_UP_AFTER:
        return DisabledReason.FAILED_FOR_5_DAYS
    return None


def excused(
    health: EndpointHealth, note: NoteAttempt, reason: DisabledReason, judged_from: datetime | None
) -> EndpointHealth | None:
    """Return the health of an endpoint that is spared, for what spoke against it was before `judged_from`.

    None: it is not spared. Failures count anew from the first one after that moment on.
    """
    if judged_from is None:
        return None
    if note.at < judged_from:
        return health
    since = health.failing_since
    if reason is DisabledReason.FAILED_FOR_5_DAYS and since is not None and since < judged_from:
        return health.model_copy(update={"failing_since": note.at})
    return None
