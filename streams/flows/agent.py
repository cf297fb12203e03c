"""Wire the agent of flows to its topic and its table; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.flows import FlowChanged, FlowCommand
from schemas.topics import Topic
from streams.aggregate import AnsweredRequests
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import ValueTable

TABLE: Final = "flows"

Carry = Callable[[FlowCommand], Awaitable[FlowChanged]]


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[AnsweredRequests]], Carry]) -> None:
    """Attach the agent. Commands are keyed by flow id, so one actor sees every change of a flow in turn."""
    memory = ValueTable(app, TABLE, Topic.FLOW_COMMANDS, AnsweredRequests, guard.keys)
    contract = Contract(FlowCommand, lambda command: command.root.flow_id)
    attach(app, guard, Topic.FLOW_COMMANDS, "flows", contract, build(memory))
