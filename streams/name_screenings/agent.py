"""Wire the agent of name screenings and dispositions to its topic; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable

import faust

from schemas.dispositions import DispositionCreated, ScreeningCommand
from schemas.name_screenings import NamesScreened
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Carry = Callable[[ScreeningCommand], Awaitable[NamesScreened | DispositionCreated | None]]


def register(app: faust.App, guard: Guard, carry: Carry) -> None:
    """Attach the agent. Commands are keyed by what they make, so a repeated one waits for the first."""
    contract = Contract(ScreeningCommand, lambda command: command.key)
    attach(app, guard, Topic.SCREENING_COMMANDS, "screenings", contract, carry)
