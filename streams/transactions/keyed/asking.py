"""Ask the actors of a transaction's keys for features, and have its decision counted."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Protocol

import structlog

from schemas.ids import TransactionId
from schemas.keyed_features import ComputeFeatures, CountTransaction, FeaturesComputed, KeyedValue
from schemas.policies import Feature, FeatureKey, FeatureValue
from schemas.problems import DecisionPending, Overloaded, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.transaction_decisions import ScreenTransaction, TransactionCommandBase
from schemas.transactions import OutcomeClass, TransactionRequest
from streams.policies.in_use import features_by_key
from streams.runtime.producer import Outgoing
from streams.transactions.keyed.rows import message_of
from streams.transactions.keyed_hashes import KeyedHashes, keys_of, row_key
from streams.transactions.velocity import event_of

log = structlog.get_logger(__name__)

PAYMENT_WAITS: Final = timedelta(seconds=2)
"""So long somebody waits for the decision (G39)."""

ANSWER_S: Final = 1.0
"""How long a payment that waits allows the actors of its keys."""

UNHURRIED_ANSWER_S: Final = 30.0
"""The same when nobody waits any more, as after a restart: then the right value is worth more."""

UNKNOWN: Final = FeatureValue(None, exact=False, available=False)
"""The value of a feature whose key did not answer: a rule that reads it is an ERROR (G114)."""

Since = Mapping[FeatureKey, int]
"""The kinds of keys that are counted by (`schemas.policy_records.CountedKeys.since`)."""


class AskKey(Protocol):
    """Asks the actor of one key."""

    async def __call__(self, command: ComputeFeatures, timeout_s: float, /) -> FeaturesComputed:
        """Return its answer.

        Raises:
            DecisionPending, Overloaded, Refused, StoreUnavailable: There is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeyedFeatures:
    """Features by the keys of a transaction that its policy counts by."""

    hashes: KeyedHashes
    ask: AskKey
    write: Callable[..., Awaitable[None]]
    """Writes records to the log, in their order."""
    clock: Callable[[], datetime]
    counts: Counter[str] = field(default_factory=Counter)
    """Questions by their end."""

    async def compute(
        self,
        command: ScreenTransaction,
        request: TransactionRequest,
        features: Iterable[Feature],
        since: Since,
    ) -> dict[str, FeatureValue]:
        """Return the features by other keys than the subject; those of a key that is missing are null."""
        by_key = features_by_key(features)
        by_key.pop(FeatureKey.SUBJECT_ID, None)
        found = {feature.name: FeatureValue(None) for those in by_key.values() for feature in those}
        if not by_key:
            return found
        timeout_s = self._patience_s(command)
        answers = [
            self._ask(ComputeFeatures(**fields, features=by_key[kind]), timeout_s)
            for kind, fields in self._messages(command, command.transaction_id, request, since)
            if kind in by_key
        ]
        for answer in await asyncio.gather(*answers):
            found |= answer
        return found

    async def count(
        self,
        command: TransactionCommandBase,
        about: TransactionId,
        request: TransactionRequest,
        outcome: OutcomeClass,
        since: Since,
    ) -> None:
        """Count a stored decision in the rows of its keys; a later question finds it there.

        Raises:
            StoreUnavailable: The log did not take it; counting again is safe.
        """
        if since:
            commands = [
                CountTransaction(**fields, outcome=outcome)
                for _, fields in self._messages(command, about, request, since)
            ]
            topic = Topic.TRANSACTION_KEYS
            await self.write(*(Outgoing(topic, one.key.encode(), one.to_bytes()) for one in commands))

    def _messages(
        self,
        command: TransactionCommandBase,
        about: TransactionId,
        request: TransactionRequest,
        since: Since,
    ) -> Iterator[tuple[FeatureKey, dict[str, Any]]]:
        """Yield the fields of a command about each key of the transaction that is counted by."""
        tenant_id, livemode = command.tenant_id, command.livemode
        event = message_of(event_of(self.hashes, tenant_id, request))
        for kind, hashed in keys_of(self.hashes, tenant_id, request, livemode=livemode).items():
            if kind in since:
                yield (
                    kind,
                    {
                        "tenant_id": tenant_id,
                        "key": row_key(tenant_id, kind, hashed, livemode=livemode),
                        "livemode": livemode,
                        "transaction_id": about,
                        "counted_since": since[kind],
                        "event": event,
                    },
                )

    def _patience_s(self, command: ScreenTransaction) -> float:
        waits = self.clock() - command.requested_at < PAYMENT_WAITS
        return ANSWER_S if waits else UNHURRIED_ANSWER_S

    async def _ask(self, command: ComputeFeatures, timeout_s: float) -> dict[str, FeatureValue]:
        try:
            answer = await self.ask(command, timeout_s)
        except (DecisionPending, Overloaded, Refused, StoreUnavailable) as error:
            self.counts["unavailable"] += 1
            log.warning("features.unavailable", tenant_id=command.tenant_id, error=type(error).__name__)
            return dict.fromkeys((feature.name for feature in command.features), UNKNOWN)
        self.counts["answered"] += 1
        return {name: _value(value) for name, value in answer.values.items()}


def _value(found: KeyedValue) -> FeatureValue:
    value = found.number if found.money is None else Decimal(found.money)
    return FeatureValue(value, found.exact)
