"""Open stored transactions: all that is stored of one, or what counting and deciding it again need.

What rules read is most of a stored transaction; features and backtests never look at it, so it is not made.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from pydantic import TypeAdapter

from schemas.enums import DecisionOutcome
from schemas.ids import SubjectId, TenantId, TransactionId
from schemas.policies import RuleOutcome
from schemas.transaction_decisions import Circumstances, SealedParts, ShownCheck, StoredTransaction
from schemas.transaction_history import HistoricTransaction, StoredHistory
from schemas.transactions import OUTCOME_CLASS, OutcomeClass, TransactionRequest
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.records import parts_label, request_label


class PastRule(msgspec.Struct, frozen=True):
    """What a rule came to, without what it read."""

    id: str
    result: RuleOutcome
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """How a transaction was decided first, and from what."""

    decision: DecisionOutcome
    rules: tuple[PastRule, ...]
    checks: tuple[ShownCheck, ...]
    circumstances: Circumstances | None
    """As `SealedParts` has them."""


@dataclass(frozen=True, slots=True)
class OpenedTransaction:
    """A stored transaction as features and backtests need it."""

    request: TransactionRequest
    outcome: OutcomeClass
    """Of the first decision, or as it was imported."""
    decided: FirstDecision | None
    """None: it was imported."""


class _Transaction(msgspec.Struct):
    subject_id: str


class _Step(msgspec.Struct):
    decision: DecisionOutcome


class _Stored(msgspec.Struct):
    transaction: _Transaction
    sealed_parts: str
    decisions: tuple[_Step, ...]


class _Parts(msgspec.Struct):
    request: msgspec.Raw
    rules: tuple[PastRule, ...] = ()
    checks: msgspec.Raw = msgspec.Raw(b"[]")
    circumstances: msgspec.Raw = msgspec.Raw(b"null")


_STORED: Final = msgspec.json.Decoder(_Stored)
_PARTS: Final = msgspec.json.Decoder(_Parts)
_CHECKS: Final = TypeAdapter(tuple[ShownCheck, ...])
_CIRCUMSTANCES: Final = TypeAdapter(Circumstances | None)


async def open_transaction(stores: Stores, tenant_id: TenantId, record: Record) -> OpenedTransaction:
    """Return what is needed of a stored transaction, decided or imported; raises as `open_parts` does."""
    if record.kind is RecordKind.HISTORIC_TRANSACTION:
        imported = StoredHistory.from_bytes(record.body)
        return OpenedTransaction(await open_history(stores, tenant_id, imported), imported.outcome, None)
    stored = _STORED.decode(record.body)
    label, subject_id = parts_label(TransactionId(record.id)), SubjectId(stored.transaction.subject_id)
    parts = _PARTS.decode(await stores.vault.open(tenant_id, subject_id, label, stored.sealed_parts))
    first = FirstDecision(
        decision=stored.decisions[0].decision,
        rules=parts.rules,
        checks=_CHECKS.validate_json(bytes(parts.checks)),
        circumstances=_CIRCUMSTANCES.validate_json(bytes(parts.circumstances)),
    )
    request = TransactionRequest.from_bytes(bytes(parts.request))
    return OpenedTransaction(request, OUTCOME_CLASS[first.decision], first)


async def open_history(stores: Stores, tenant_id: TenantId, stored: StoredHistory) -> HistoricTransaction:
    """Return an imported transaction; raises as `open_parts` does."""
    label = request_label(stored.transaction_id)
    opened = await stores.vault.open(tenant_id, stored.subject_id, label, stored.sealed_request)
    return HistoricTransaction.from_bytes(opened)


async def open_parts(stores: Stores, tenant_id: TenantId, stored: StoredTransaction) -> SealedParts:
    """Return the sealed parts of a transaction.

    Raises:
        Erased: The subject was erased.
        Damaged: They are not what was sealed.
    """
    transaction = stored.transaction
    label = parts_label(transaction.transaction_id)
    opened = await stores.vault.open(tenant_id, transaction.subject_id, label, stored.sealed_parts)
    return SealedParts.from_bytes(opened)
