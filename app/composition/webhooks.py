"""Puts together what delivers webhooks: sender, dispatcher, sweep, and the search for what was never told."""

import random
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.adapters.webhooks.sender import TOTAL_S, open_sender
from schemas.events import API_VERSION
from streams.ports.stores import Stores
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Figure
from streams.webhooks.attempt import AttemptDelivery
from streams.webhooks.dispatcher import Dispatcher
from streams.webhooks.fanout import FanOut
from streams.webhooks.fanout_recovery import EVERY_S as REFAN_EVERY_S
from streams.webhooks.fanout_recovery import SETTLED_AFTER, FanOutRecovery, recovering_fan_out
from streams.webhooks.health import NoteAttempts
from streams.webhooks.rules import STANDARD, Pace
from streams.webhooks.scheduler import EVERY_S as SWEEP_EVERY_S
from streams.webhooks.scheduler import DeliveryScheduler, SweepPace, scheduling_deliveries
from streams.webhooks.urls import USUAL_PORTS

GRACE_S: Final = 1.0
"""How long a stop waits for attempts under way; what is abandoned is attempted again by the next worker."""


@dataclass(frozen=True, slots=True)
class WebhookPace:
    """How fast everything about deliveries goes; a test may pass a faster one, a deployment has this."""

    attempts: Pace = STANDARD
    sweep: SweepPace = field(default_factory=SweepPace)
    sweep_every_s: float = SWEEP_EVERY_S
    answer_within_s: float = TOTAL_S
    settled_after: timedelta = SETTLED_AFTER
    refan_every_s: float = REFAN_EVERY_S


FULL_PACE: Final = WebhookPace()
"""What is promised to tenants."""


@dataclass(frozen=True, slots=True)
class WebhookPorts:
    """What deliveries are made of."""

    stores: Stores
    writer: LogWriter
    clock: Callable[[], datetime]
    insecure: bool
    """Whether receivers may be called over http and on this machine (`webhooks_allow_insecure`)."""
    pace: WebhookPace = FULL_PACE
    ports: Collection[int] = USUAL_PORTS
    """Where receivers may listen (`webhooks_ports`)."""

    @property
    def fan_out(self) -> FanOut:
        """What makes an event's deliveries."""
        lost_after = self.pace.attempts.lost_after
        return FanOut(self.stores.records, self.stores.journal, self.writer.write, self.clock, lost_after)


@dataclass(frozen=True, slots=True)
class Delivering:
    """What delivers in this process."""

    ports: WebhookPorts
    streams: Collection[str]
    dispatcher: Dispatcher | None
    """None where deliveries are not among the streams."""

    @asynccontextmanager
    async def looked_after(self) -> AsyncIterator[None]:
        """Find what is due and what was never fanned out, beside the agents that are for it."""
        ports, pace = self.ports, self.ports.pace
        async with AsyncExitStack() as stack:
            if "deliveries" in self.streams:
                sweeper = DeliveryScheduler(ports.stores, ports.writer.write, ports.clock, pace.sweep)
                await stack.enter_async_context(scheduling_deliveries(sweeper, pace.sweep_every_s))
            if "webhooks" in self.streams:
                recovery = FanOutRecovery(ports.stores, ports.fan_out, ports.clock, pace.settled_after)
                await stack.enter_async_context(recovering_fan_out(recovery, pace.refan_every_s))
            yield

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What it tells of itself; never a tenant, an endpoint or a URL."""
        dispatcher = self.dispatcher
        if dispatcher is None:
            return ()
        return (
            Figure(
                "veristream_webhook_attempts_total",
                "Wishes to deliver, by how they ended.",
                "outcome",
                lambda: dict(dispatcher.ends),
            ),
            Figure(
                "veristream_webhook_deliveries",
                "Deliveries in this process.",
                "state",
                lambda: {"waiting": dispatcher.waiting, "under_way": dispatcher.under_way},
            ),
            Figure(
                "veristream_webhook_oldest_seconds",
                "How long the delivery that waits longest in this process has waited.",
                "state",
                lambda: {"waiting": dispatcher.oldest_s},
            ),
        )


@asynccontextmanager
async def open_delivering(ports: WebhookPorts, streams: Collection[str]) -> AsyncIterator[Delivering]:
    """Open a sender and what calls it, if deliveries are among the streams.

    Attempts under way at the end are given a moment.
    """
    if "deliveries" not in streams:
        yield Delivering(ports, streams, None)
        return
    within_s = ports.pace.answer_within_s
    uniform, note = random.SystemRandom().uniform, NoteAttempts(ports.writer.write)
    async with open_sender(
        insecure=ports.insecure, ports=ports.ports, version=API_VERSION, total_s=within_s
    ) as sender:
        attempt = AttemptDelivery(ports.stores, sender, note, ports.clock, uniform, ports.pace.attempts)
        async with Dispatcher(attempt, grace_s=GRACE_S) as dispatcher:
            yield Delivering(ports, streams, dispatcher)
