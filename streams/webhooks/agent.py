"""Wire the agents of webhooks to their topics; the use cases are in the handlers."""

from collections.abc import Callable
from typing import Final

import faust

from schemas.topics import Topic
from schemas.webhooks import DeliveryCommand, EndpointHealth
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import ValueTable
from streams.webhooks.fanout import CONTRACT, FanOut
from streams.webhooks.handler import HandleDelivery

TABLE: Final = "deliveries"


def register_fan_out(app: faust.App, guard: Guard, fan_out: FanOut) -> None:
    """Attach the agent of events; it has no table, what was fanned out is in the store."""
    attach(app, guard, Topic.DECISIONS, "webhooks", CONTRACT, fan_out, fan_out.is_idle)


def register_deliveries(
    app: faust.App, guard: Guard, build: Callable[[WorkingState[EndpointHealth]], HandleDelivery]
) -> None:
    """Attach the agent of deliveries. Commands are keyed by endpoint, so its health has one writer."""
    memory = ValueTable(app, TABLE, Topic.WEBHOOK_DELIVERIES, EndpointHealth, guard.keys)
    contract = Contract(DeliveryCommand, lambda command: command.root.endpoint_id)
    attach(app, guard, Topic.WEBHOOK_DELIVERIES, "deliveries", contract, build(memory))
