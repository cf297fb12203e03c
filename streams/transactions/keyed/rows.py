"""The row of a key: its velocity row, and the transactions that are being decided; pure.

A transaction is noted as undecided when its features are computed, so that those decided at the same time
see it, and moves to the velocity row with the outcome once its decision is stored.
"""

from typing import Final

import msgspec

from schemas.keyed_features import KeyedAmount, KeyedEvent, KeyedValue
from schemas.policies import FeatureValue
from schemas.transactions import OutcomeClass
from streams.transactions import row as velocity_row
from streams.transactions.row import Amount, VelocityEvent, VelocityRow

MOST_UNDECIDED: Final = 512
"""Transactions of a key noted as undecided; beyond it the oldest is forgotten."""

UNDECIDED_MS: Final = 60_000
"""For how long a transaction is noted as undecided: one whose decision failed must not count for ever."""


class Undecided(msgspec.Struct, array_like=True):
    """A transaction that is being decided."""

    transaction_id: str
    noted_ms: int
    event: bytes
    """`KeyedEvent` as JSON."""


class KeyedRow(msgspec.Struct, array_like=True):
    """What is known of the transactions of a key."""

    row: bytes
    """Of the decided ones: `VelocityRow`."""
    since: int
    """The `CountedKeys.since` under which it was rebuilt."""
    rebuilt_ms: int
    settled: bool = False
    """Whether it was rebuilt once more after those decided before it was counted by had all been stored."""
    undecided: list[Undecided] = []

    def note(self, transaction_id: str, event: KeyedEvent, now_ms: int) -> None:
        """Note a transaction as being decided, once."""
        self.forget(transaction_id)
        self.undecided.append(Undecided(transaction_id, now_ms, event.to_bytes()))
        del self.undecided[:-MOST_UNDECIDED]

    def forget(self, transaction_id: str) -> None:
        """Forget that a transaction is being decided."""
        self.undecided = [one for one in self.undecided if one.transaction_id != transaction_id]

    def with_undecided(self, now_ms: int) -> VelocityRow:
        """Return the velocity row with those that are being decided; they have no outcome yet."""
        self.undecided = [one for one in self.undecided if now_ms - one.noted_ms < UNDECIDED_MS]
        row = velocity_row.decode(self.row)
        for one in self.undecided:
            velocity_row.add(row, one.transaction_id, event_of(KeyedEvent.from_bytes(one.event)))
        return row


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(KeyedRow)


def encode(row: KeyedRow) -> bytes:
    """Return the row as the table stores it."""
    return _ENCODER.encode(row)


def decode(stored: bytes) -> KeyedRow:
    """Return the row that `encode` gave."""
    return _DECODER.decode(stored)


def event_of(event: KeyedEvent, outcome: OutcomeClass | None = None) -> VelocityEvent:
    """Return the transaction of a message."""
    base = event.base_amount
    return VelocityEvent(
        t_ms=event.t_ms,
        type=event.type,
        direction=event.direction,
        amount=Amount(**dict(event.amount)),
        base_amount=None if base is None else Amount(**dict(base)),
        outcome=outcome,
        hashes={name: bytes.fromhex(hashed) for name, hashed in event.hashes.items()},
    )


def message_of(event: VelocityEvent) -> KeyedEvent:
    """Return the transaction as a message carries it."""
    base = event.base_amount
    return KeyedEvent(
        t_ms=event.t_ms,
        type=event.type,
        direction=event.direction,
        amount=_amount(event.amount),
        base_amount=None if base is None else _amount(base),
        hashes={name: hashed.hex() for name, hashed in event.hashes.items()},
    )


def shown(found: FeatureValue) -> KeyedValue:
    """Return the value of a feature as an answer carries it."""
    if isinstance(found.value, int):
        return KeyedValue(number=found.value, exact=found.exact)
    money = None if found.value is None else f"{found.value:f}"
    return KeyedValue(money=money, exact=found.exact)


def _amount(amount: Amount) -> KeyedAmount:
    return KeyedAmount(minor=amount.minor, scale=amount.scale, currency=amount.currency)
