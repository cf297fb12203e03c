"""Wire the agent of review cases to its topic and its table; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.reviews import CaseChanged, CaseCommand
from schemas.topics import Topic
from streams.aggregate import AnsweredRequests
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import ValueTable

TABLE: Final = "reviews"

Carry = Callable[[CaseCommand], Awaitable[CaseChanged]]


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[AnsweredRequests]], Carry]) -> None:
    """Attach the agent. Commands are keyed by case id, so one actor sees every change of a case in turn."""
    memory = ValueTable(app, TABLE, Topic.REVIEW_COMMANDS, AnsweredRequests, guard.keys)
    contract = Contract(CaseCommand, lambda command: command.root.review_case_id)
    attach(app, guard, Topic.REVIEW_COMMANDS, "reviews", contract, build(memory))
