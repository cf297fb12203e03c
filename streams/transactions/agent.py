"""Wire the agents of transactions to their topics and tables; the use cases are in the handlers."""

from collections.abc import Awaitable, Callable
from typing import Final

import faust

from schemas.keyed_features import FeaturesComputed, KeyedCommand
from schemas.topics import Topic
from schemas.transaction_decisions import TransactionCommand, TransactionScreened
from schemas.transaction_history import HistoryImported
from streams.ports.stores import WorkingState
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard
from streams.runtime.tables import BytesTable

TABLE: Final = "velocity"

KEYED_TABLE: Final = "keyed-velocity"

MOST_PER_PARTITION: Final = 16_000
"""Rows remembered per partition, of long ones fewer: as many as fit in the memory of a table.

The others are rebuilt from the store. A row of twenty payments takes about 1 KB, one of 64 some 6 KB.
"""

Carry = Callable[[TransactionCommand], Awaitable[TransactionScreened | HistoryImported | None]]
CarryKeyed = Callable[[KeyedCommand], Awaitable[FeaturesComputed | None]]


def register(app: faust.App, guard: Guard, build: Callable[[WorkingState[bytes]], Carry]) -> None:
    """Attach the agent. Commands are keyed by subject, so one actor sees a subject's transactions in turn."""
    rows = BytesTable(app, TABLE, Topic.TRANSACTION_COMMANDS, guard.keys, MOST_PER_PARTITION)
    contract = Contract(TransactionCommand, lambda command: command.root.subject_key)
    attach(app, guard, Topic.TRANSACTION_COMMANDS, "transactions", contract, build(rows))


def register_keyed(app: faust.App, guard: Guard, build: Callable[[WorkingState[bytes]], CarryKeyed]) -> None:
    """Attach the agent of the keys beside the subject; one actor sees a key's transactions in turn."""
    rows = BytesTable(app, KEYED_TABLE, Topic.TRANSACTION_KEYS, guard.keys, MOST_PER_PARTITION)
    contract = Contract(KeyedCommand, lambda command: command.root.key)
    attach(app, guard, Topic.TRANSACTION_KEYS, "transaction-keys", contract, build(rows))
