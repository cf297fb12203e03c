"""Seal the parts of a transaction, and open them: all of them, or what counting and deciding again need.

What rules read is most of a stored transaction, and says the same few words again and again: it is compressed
before it is sealed. Features and backtests never look at it, so for them it is not made.
"""

import zlib
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
from streams.ports.errors import Damaged
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


LEVEL: Final = 1
"""Of zlib: higher ones save 8 % more of fifty rules and take twice the time."""

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
    about, subject_id = TransactionId(record.id), SubjectId(stored.transaction.subject_id)
    parts = _PARTS.decode(await _open(stores, tenant_id, about, subject_id, stored.sealed_parts))
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


async def seal_parts(
    stores: Stores, tenant_id: TenantId, about: TransactionId, subject_id: SubjectId, parts: SealedParts
) -> str:
    """Return the parts compressed and sealed under the subject's key; raises `Erased`."""
    compressed = zlib.compress(parts.to_bytes(), LEVEL)
    return await stores.vault.seal(tenant_id, subject_id, parts_label(about), compressed)


async def open_parts(stores: Stores, tenant_id: TenantId, stored: StoredTransaction) -> SealedParts:
    """Return the sealed parts of a transaction.

    Raises:
        Erased: The subject was erased.
        Damaged: They are not what was sealed.
    """
    about, subject_id = stored.transaction.transaction_id, stored.transaction.subject_id
    return SealedParts.from_bytes(await _open(stores, tenant_id, about, subject_id, stored.sealed_parts))


async def _open(
    stores: Stores, tenant_id: TenantId, about: TransactionId, subject_id: SubjectId, sealed: str
) -> bytes:
    """Return the parts as JSON; those that were sealed at first are not compressed."""
    opened = await stores.vault.open(tenant_id, subject_id, parts_label(about), sealed)
    try:
        return opened if opened.startswith(b"{") else zlib.decompress(opened)
    except zlib.error as error:
        raise Damaged(str(error)) from error
