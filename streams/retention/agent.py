"""Wires the agent of retention to its topic; it has no table, what is left to do is in the store."""

from collections.abc import Awaitable, Callable

import faust

from schemas.retention import RedactVerification
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Redact = Callable[[RedactVerification], Awaitable[None]]
"""Removes what of a verification is past its date."""


def register(app: faust.App, guard: Guard, redact: Redact) -> None:
    """Attach the agent. Commands are keyed by verification id, so each verification has one writer here."""
    contract = Contract(RedactVerification, lambda command: command.verification_id)
    attach(app, guard, Topic.RETENTION_COMMANDS, "retention", contract, redact)
