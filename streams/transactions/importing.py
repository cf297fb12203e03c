"""Import transactions of the past: stored once by their reference, counted once, and not decided (G119)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from schemas.base import to_milliseconds
from schemas.ids import SubjectId
from schemas.problems import ProblemCode, Refused
from schemas.transaction_decisions import ImportHistory
from schemas.transaction_history import HistoricTransaction, HistoryImported, SealedHistory, StoredHistory
from schemas.transactions import OutcomeClass
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Change, RecordKind
from streams.ports.stores import Stores
from streams.privacy.sealing import open_subject_id, subject_erased
from streams.transactions.keyed.asking import KeyedFeatures
from streams.transactions.keyed_hashes import KeyedHashes, keys_of
from streams.transactions.published import PublishedPolicies
from streams.transactions.records import by_reference, history_id, history_record, request_label
from streams.transactions.velocity import VelocityRows
from streams.transactions.wallets import TransactionWallets, moved


def history_label(import_id: str, part: int) -> str:
    """Return the vault label under which the front seals the transactions of a command."""
    return f"history:{import_id}:{part}"


@dataclass(frozen=True, slots=True)
class ImportTransactions:
    """Executes each command once; the same command again stores and counts nothing twice."""

    stores: Stores
    hashes: KeyedHashes
    rows: VelocityRows
    wallets: TransactionWallets
    keyed: KeyedFeatures
    policies: PublishedPolicies
    clock: Callable[[], datetime]

    async def __call__(self, command: ImportHistory) -> HistoryImported:
        """Store the transactions, then count those of this import in the rows of subject and keys.

        Raises:
            Refused: The subject was erased, or the command can no longer be read.
            StoreUnavailable: Some may be stored; the same command stores and counts the others.
        """
        try:
            subject_id = await open_subject_id(self.stores.vault, command.tenant_id, command.subject_id)
            history = await self._open(command, subject_id)
            stored = [self._store(command, subject_id, one) for one in history]
            accepted = await asyncio.gather(*stored)
        except Erased:
            raise subject_erased() from None
        new = [one for one, is_new in zip(history, accepted, strict=True) if is_new]
        if new:
            await self._count(command, subject_id, new)
        return HistoryImported(accepted=len(new), duplicates=len(history) - len(new))

    async def _open(self, command: ImportHistory, subject_id: SubjectId) -> tuple[HistoricTransaction, ...]:
        label = history_label(command.import_id, command.part)
        try:
            opened = await self.stores.vault.open(
                command.tenant_id, subject_id, label, command.sealed_history
            )
            return SealedHistory.from_bytes(opened).transactions
        except (Damaged, ValidationError):
            message = "The history can no longer be read; send it again."
            raise Refused.because(ProblemCode.STORE_FAILED, message) from None

    async def _store(
        self, command: ImportHistory, subject_id: SubjectId, historic: HistoricTransaction
    ) -> bool:
        """Store a transaction unless its reference is known; return whether it came with this import."""
        tenant_id, livemode, reference = command.tenant_id, command.livemode, historic.reference
        index = by_reference(livemode, reference)
        if await self.stores.records.page(tenant_id, RecordKind.TRANSACTION, index, limit=1):
            return False
        about = history_id(tenant_id, reference, livemode=livemode)
        label = request_label(about)
        sealed = await self.stores.vault.seal(tenant_id, subject_id, label, historic.to_bytes())
        stored = StoredHistory(
            transaction_id=about,
            subject_id=subject_id,
            subject_key=command.subject_key,
            livemode=livemode,
            import_id=command.import_id,
            occurred_at=historic.occurred_at,
            outcome=historic.outcome,
            sealed_request=sealed,
            keys=keys_of(self.hashes, tenant_id, historic, livemode=livemode),
        )
        record = history_record(tenant_id, stored, reference, to_milliseconds(self.clock()))
        transfers = self.wallets.transfers_of(tenant_id, subject_id, historic)
        went = historic.outcome is OutcomeClass.GO
        ledger = moved(tenant_id, about, transfers, historic.occurred_at, livemode=livemode) if went else ()
        committed = await self.stores.journal.commit(Change(tenant_id, (record, *ledger)))
        known = StoredHistory.from_bytes(committed.record.body)
        return committed.won or known.import_id == command.import_id

    async def _count(
        self, command: ImportHistory, subject_id: SubjectId, history: list[HistoricTransaction]
    ) -> None:
        row = await self.rows.load(command, subject_id, to_milliseconds(self.clock()))
        since = (await self.policies(command.tenant_id)).counted_since
        for one in history:
            about = history_id(command.tenant_id, one.reference, livemode=command.livemode)
            self.rows.add(command, row, about, one, one.outcome)
            await self.keyed.count(command, about, one, one.outcome, since)
