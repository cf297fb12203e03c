"""Transactions of the past that a tenant imports: they feed features; nothing is decided (G119)."""

from typing import Annotated, Any, Final

from pydantic import Field

from schemas.base import Event, Frozen, Timestamp
from schemas.ids import SubjectId, TransactionId
from schemas.policies import FeatureKey
from schemas.problems import FieldProblem
from schemas.transactions import OutcomeClass, OwnId, TransactionRequest

MOST_AT_ONCE: Final = 1_000
"""Transactions of one import."""


class HistoricTransaction(TransactionRequest):
    """A transaction that another system decided."""

    reference: OwnId
    """Required here: one that is known already counts once."""
    outcome: OutcomeClass = OutcomeClass.GO
    """What became of the money."""


class HistoryRequest(Frozen):
    """Transactions to import."""

    transactions: Annotated[tuple[HistoricTransaction, ...], Field(min_length=1, max_length=MOST_AT_ONCE)]


class UncheckedHistory(Frozen):
    """The request before each of its transactions is validated by itself."""

    transactions: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST_AT_ONCE)]


class RejectedHistory(Frozen):
    """A transaction that was not imported."""

    index: int
    """Its place in the request, from 0."""
    errors: tuple[FieldProblem, ...]


class HistoryImport(Frozen):
    """What became of an import."""

    accepted: int
    duplicates: int
    """Those whose reference was known already."""
    rejected: tuple[RejectedHistory, ...] = ()


class SealedHistory(Frozen):
    """The transactions of one command, sealed as a whole under the subject's key."""

    transactions: tuple[HistoricTransaction, ...]


class StoredHistory(Frozen):
    """A transaction of the past as it is stored."""

    transaction_id: TransactionId
    subject_id: SubjectId
    subject_key: str
    livemode: bool
    import_id: str
    """The import that it came with first."""
    occurred_at: Timestamp
    outcome: OutcomeClass
    sealed_request: str
    """`HistoricTransaction`, sealed under the subject's key, base64."""
    keys: dict[FeatureKey, str] = Field(default_factory=dict)
    """As in `StoredTransaction`."""


class HistoryImported(Event):
    """The answer to `ImportHistory`: every transaction of the command is stored and counted."""

    accepted: int
    """Of this import, whether stored now or when it was sent before."""
    duplicates: int
