"""Transactions: the vocabularies of a payment and of what its decision does with the money (G39, G40)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from schemas.enums import DecisionOutcome


class TransactionType(StrEnum):
    """What kind of movement of money it is."""

    PAYMENT = "PAYMENT"
    TRANSFER = "TRANSFER"
    DEPOSIT = "DEPOSIT"
    WITHDRAWAL = "WITHDRAWAL"
    CARD = "CARD"
    PAYOUT = "PAYOUT"
    REFUND = "REFUND"
    EXCHANGE = "EXCHANGE"
    CRYPTO_TRANSFER = "CRYPTO_TRANSFER"
    STREAM_TICK = "STREAM_TICK"


class Direction(StrEnum):
    """Whether the money comes to the subject or leaves it."""

    INBOUND = "INBOUND"
    OUTBOUND = "OUTBOUND"


class OutcomeClass(StrEnum):
    """What a decision does with the money: it moves, it waits, it does not move (G40)."""

    GO = "GO"
    WAIT = "WAIT"
    STOP = "STOP"


OUTCOME_CLASS: Final[Mapping[DecisionOutcome, OutcomeClass]] = MappingProxyType(
    {
        DecisionOutcome.ALLOW: OutcomeClass.GO,
        DecisionOutcome.FLAG: OutcomeClass.GO,
        DecisionOutcome.WARN: OutcomeClass.GO,
        DecisionOutcome.BLOCK_RECOMMENDED: OutcomeClass.GO,
        DecisionOutcome.HOLD: OutcomeClass.WAIT,
        DecisionOutcome.REVIEW_REQUIRED: OutcomeClass.WAIT,
        DecisionOutcome.BLOCK: OutcomeClass.STOP,
        DecisionOutcome.END_STREAM: OutcomeClass.STOP,
        DecisionOutcome.SUSPEND: OutcomeClass.STOP,
    }
)
"""The outcomes in the order in which they are merged, the most severe last (G40)."""
