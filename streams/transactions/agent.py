"""Wire the agent of transactions to its topic and its table; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.topics import Topic
from schemas.transaction_decisions import TransactionCommand, TransactionScreened
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import BytesTable

TABLE: Final = "velocity"

MOST_PER_PARTITION: Final = 4_000
"""Rows remembered per partition, at most some 6 KB each; the store rebuilds the others."""

Carry = Callable[[TransactionCommand], Awaitable[TransactionScreened | None]]


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[bytes]], Carry]) -> None:
    """Attach the agent. Commands are keyed by subject, so one actor sees a subject's transactions in turn."""
    rows = BytesTable(app, TABLE, Topic.TRANSACTION_COMMANDS, guard.keys, MOST_PER_PARTITION)
    contract = Contract(TransactionCommand, lambda command: command.root.subject_key)
    attach(app, guard, Topic.TRANSACTION_COMMANDS, "transactions", contract, build(rows))
