"""Wire the agent of name screenings to its topic; the use case is in `handler`."""

from collections.abc import Awaitable, Callable

import faust

from schemas.name_screenings import NamesScreened, ScreenNames
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Carry = Callable[[ScreenNames], Awaitable[NamesScreened]]


def register(app: faust.App, guard: Guard, carry: Carry) -> None:
    """Attach the agent. Commands are keyed by screening id, so a repeated one waits for the first."""
    contract = Contract(ScreenNames, lambda command: command.screening_id)
    attach(app, guard, Topic.SCREENING_COMMANDS, "screenings", contract, carry)
