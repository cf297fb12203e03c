"""Features by other keys than the subject: what its actor asks the actor of a device, an account, an address.

A key is named by its keyed hash alone, and nothing here names a person (G130).
"""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Event, Frozen
from schemas.ids import TenantId, TransactionId
from schemas.policies import DistinctField, Feature
from schemas.transactions import Direction, OutcomeClass, TransactionType


class KeyedAmount(Frozen):
    """An amount of money: `minor` times 10 ** -`scale` of the currency."""

    minor: int
    scale: int
    currency: str


class KeyedEvent(Frozen):
    """A transaction as the features see it."""

    t_ms: int
    type: TransactionType
    direction: Direction
    amount: KeyedAmount
    base_amount: KeyedAmount | None = None
    hashes: dict[DistinctField, str] = Field(default_factory=dict)
    """Keyed hashes, in hexadecimal."""


class KeyedCommandBase(Command):
    """The fields of every command about a key; records are keyed by `key`."""

    tenant_id: TenantId
    key: str
    """Tenant, mode, kind of key and a keyed hash of its value."""
    livemode: bool
    transaction_id: TransactionId
    counted_since: int
    """Since when this kind of key is counted by without a gap (`CountedKeys.since`)."""
    event: KeyedEvent


class ComputeFeatures(KeyedCommandBase):
    """Compute features of a transaction that is being decided, and remember that it is."""

    kind: Literal["compute"] = "compute"
    features: tuple[Feature, ...]


class CountTransaction(KeyedCommandBase):
    """Count a transaction whose decision is stored; the same one again changes nothing."""

    kind: Literal["count"] = "count"
    outcome: OutcomeClass


class KeyedCommand(RootModel[Annotated[ComputeFeatures | CountTransaction, Field(discriminator="kind")]]):
    """Any command about a key."""


class KeyedValue(Frozen):
    """The value of a feature: a whole number, or money, or neither (null)."""

    number: int | None = None
    money: str | None = None
    exact: bool = True


class FeaturesComputed(Event):
    """The answer to `ComputeFeatures`: a value for each feature, by its name."""

    values: dict[str, KeyedValue]
