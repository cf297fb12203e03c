"""Wires the verification agent to its topic and its table; what happens is in the handler."""

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
"""The table of what the agent remembers; its changelog is created under this name."""

Evaluate = Callable[[SubmitVerification], Awaitable[VerificationDecided]]
"""Carries `SubmitVerification` out; a replay answers what the first one did."""


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[Remembered]], Evaluate]) -> None:
    """Attach the agent. Commands are keyed by verification id, so one actor sees every replay.

    `build` makes the handler from the actor's memory.
    """
    memory = ValueTable(app, TABLE, Topic.VERIFICATION_COMMANDS, Remembered, guard.keys)
    contract = Contract(SubmitVerification, lambda command: command.verification_id)
    attach(app, guard, Topic.VERIFICATION_COMMANDS, "verification", contract, build(memory))
