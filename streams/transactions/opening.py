"""Seal the parts of a transaction, and open them: all, what is shown, or what is counted and decided again.

What rules read is most of a stored transaction, and says the same few words again and again: it is compressed
before it is sealed. It is shown as it was written, and features and backtests never look at it.
"""

import zlib
from collections.abc import Sequence
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
from streams.transactions.shown_rules import WrittenRule


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


class _PartsToDecide(msgspec.Struct):
    request: msgspec.Raw
    rules: tuple[PastRule, ...] = ()
    checks: msgspec.Raw = msgspec.Raw(b"[]")
    circumstances: msgspec.Raw = msgspec.Raw(b"null")


class _PartsToCount(msgspec.Struct):
    request: msgspec.Raw


class PartsToShow(msgspec.Struct):
    """What is shown of a transaction's parts, as JSON."""

    request: msgspec.Raw
    rules: msgspec.Raw
    checks: msgspec.Raw


class _Parts(msgspec.Struct):
    """`SealedParts` as they are written."""

    request: msgspec.Raw
    rules: tuple[WrittenRule, ...] = ()
    checks: msgspec.Raw = msgspec.Raw(b"[]")
    circumstances: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


LEVEL: Final = 1
"""Of zlib: higher ones save 8 % more of fifty rules and take twice the time."""

_STORED: Final = msgspec.json.Decoder(_Stored)
_TO_DECIDE: Final = msgspec.json.Decoder(_PartsToDecide)
_TO_COUNT: Final = msgspec.json.Decoder(_PartsToCount)
_TO_SHOW: Final = msgspec.json.Decoder(PartsToShow)
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
    parts = _TO_DECIDE.decode(await _open(stores, tenant_id, about, subject_id, stored.sealed_parts))
    first = FirstDecision(
        decision=stored.decisions[0].decision,
        rules=parts.rules,
        checks=_CHECKS.validate_json(bytes(parts.checks)),
        circumstances=_CIRCUMSTANCES.validate_json(bytes(parts.circumstances)),
    )
    request = TransactionRequest.from_bytes(bytes(parts.request))
    return OpenedTransaction(request, OUTCOME_CLASS[first.decision], first)


async def open_counted(
    stores: Stores, tenant_id: TenantId, record: Record
) -> tuple[TransactionRequest, OutcomeClass]:
    """Return what features count of a stored transaction: of its parts the request alone is read.

    Raises as `open_parts` does.
    """
    if record.kind is RecordKind.HISTORIC_TRANSACTION:
        imported = StoredHistory.from_bytes(record.body)
        return await open_history(stores, tenant_id, imported), imported.outcome
    stored = _STORED.decode(record.body)
    about, subject_id = TransactionId(record.id), SubjectId(stored.transaction.subject_id)
    parts = _TO_COUNT.decode(await _open(stores, tenant_id, about, subject_id, stored.sealed_parts))
    return TransactionRequest.from_bytes(bytes(parts.request)), OUTCOME_CLASS[stored.decisions[0].decision]


async def open_history(stores: Stores, tenant_id: TenantId, stored: StoredHistory) -> HistoricTransaction:
    """Return an imported transaction; raises as `open_parts` does."""
    label = request_label(stored.transaction_id)
    opened = await stores.vault.open(tenant_id, stored.subject_id, label, stored.sealed_request)
    return HistoricTransaction.from_bytes(opened)


def parts_json(
    request: TransactionRequest,
    rules: tuple[WrittenRule, ...],
    checks: Sequence[ShownCheck],
    circumstances: Circumstances | None,
) -> bytes:
    """Return the parts as `seal_parts` takes them."""
    parts = _Parts(msgspec.Raw(request.to_bytes()), rules)
    if checks:
        parts.checks = msgspec.Raw(_CHECKS.dump_json(tuple(checks), exclude_none=True))
    if circumstances is not None:
        parts.circumstances = msgspec.Raw(circumstances.to_bytes())
    return msgspec.json.encode(parts)


async def seal_parts(
    stores: Stores, tenant_id: TenantId, about: TransactionId, subject_id: SubjectId, parts: bytes
) -> str:
    """Return the parts compressed and sealed under the subject's key; raises `Erased`."""
    sealed_as = parts_label(about)
    return await stores.vault.seal(tenant_id, subject_id, sealed_as, zlib.compress(parts, LEVEL))


async def open_shown(stores: Stores, tenant_id: TenantId, stored: StoredTransaction) -> PartsToShow:
    """Return what is shown of a transaction's parts; raises as `open_parts` does."""
    about, subject_id = stored.transaction.transaction_id, stored.transaction.subject_id
    return _TO_SHOW.decode(await _open(stores, tenant_id, about, subject_id, stored.sealed_parts))


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
    """Return the parts as JSON; the first that were sealed are not compressed and lack nulls."""
    opened = await stores.vault.open(tenant_id, subject_id, parts_label(about), sealed)
    if opened.startswith(b"{"):
        return msgspec.json.encode(_PARTS.decode(opened))
    try:
        return zlib.decompress(opened)
    except zlib.error as error:
        raise Damaged(str(error)) from error
