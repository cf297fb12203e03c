"""Wires the agent of retention to its topic; it has no table, what is left to do is in the store."""

from collections.abc import Awaitable, Callable

import faust

from schemas.privacy import RetentionCommand
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Carry = Callable[[RetentionCommand], Awaitable[None]]
"""Removes what of a verification is past its date, or erases a subject."""


def register(app: faust.App, guard: Guard, carry: Carry) -> None:
    """Attach the agent. Commands are keyed by verification or erasure, so each has one writer here."""
    contract = Contract(RetentionCommand, lambda command: command.key)
    attach(app, guard, Topic.RETENTION_COMMANDS, "retention", contract, carry)
