"""Wire the agent of sessions to its topic and its table; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.sessions import SessionChanged, SessionCommand
from schemas.topics import Topic
from streams.aggregate import AnsweredRequests
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import ValueTable

TABLE: Final = "sessions"

Carry = Callable[[SessionCommand], Awaitable[SessionChanged]]


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[AnsweredRequests]], Carry]) -> None:
    """Attach the agent. Commands are keyed by session id, so one actor sees every change in turn."""
    memory = ValueTable(app, TABLE, Topic.SESSION_COMMANDS, AnsweredRequests, guard.keys)
    contract = Contract(SessionCommand, lambda command: command.root.session_id)
    attach(app, guard, Topic.SESSION_COMMANDS, "sessions", contract, build(memory))
