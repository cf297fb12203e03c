"""Wire the verification agent to its topic and its table; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import ValueTable
from streams.verification.change import Remembered

TABLE: Final = "verifications"
"""The agent's table; its changelog topic is named after it."""

Evaluate = Callable[[SubmitVerification], Awaitable[VerificationDecided]]
"""Execute `SubmitVerification`; a replay returns the first answer."""


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[Remembered]], Evaluate]) -> None:
    """Attach the agent. Commands are keyed by verification id, so one actor sees every replay.

    `build` makes the handler from the actor's memory.
    """
    memory = ValueTable(app, TABLE, Topic.VERIFICATION_COMMANDS, Remembered, guard.keys)
    contract = Contract(SubmitVerification, lambda command: command.verification_id)
    attach(app, guard, Topic.VERIFICATION_COMMANDS, "verification", contract, build(memory))
