"""Build the agents of transactions: of subjects, and of the other keys that features count by."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import faust

from app.adapters.security.crypto import Keys, Purpose
from streams.dispositions.records import StoredDispositions
from streams.lists.loaded import ListStates
from streams.ports.events import EventPublisher
from streams.ports.screening import Screening
from streams.ports.stores import Stores, WorkingState
from streams.runtime.guard import Guard
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Figure
from streams.tenants.settings import read_settings
from streams.transactions import agent
from streams.transactions.checks import Checks
from streams.transactions.contact_checks import CONTACT_CHECKS, ContactChecks
from streams.transactions.counters import TransactionCounters
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed.asking import AskKey, KeyedFeatures
from streams.transactions.keyed.handler import KeyedVelocity
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.name_checks import name_checks
from streams.transactions.published import StoredPolicies
from streams.transactions.wallets import TransactionWallets
from streams.wallets.judging import JudgeWallets, NodeNames
from streams.wallets.ports import WalletLists


@dataclass(frozen=True, slots=True)
class TransactionAgents:
    """The agents that decide transactions, with their dependencies."""

    stores: Stores
    keys: Keys
    announcer: EventPublisher
    guard: Guard
    writer: LogWriter
    clock: Callable[[], datetime]
    ask_key: AskKey
    screening: Screening
    wallet_lists: WalletLists
    counters: TransactionCounters
    suppressions: StoredDispositions
    lists: ListStates

    def register(self, app: faust.App) -> None:
        """Attach the agents to an app."""
        hashes = KeyedHashes(self.keys.derive(Purpose.TRANSACTION_HASHES))
        agent.register(app, self.guard, lambda table: self._screen(hashes, table))
        rows = self.counters.rows
        agent.register_keyed(
            app, self.guard, lambda table: KeyedVelocity(self.stores, hashes, self.clock, table, rows)
        )

    def _screen(self, hashes: KeyedHashes, table: WorkingState[bytes]) -> ScreenTransactions:
        records = self.stores.records
        contacts = dict.fromkeys(CONTACT_CHECKS, ContactChecks(records, hashes))
        names = NodeNames(self.keys.derive(Purpose.WALLET_LEDGER))
        return ScreenTransactions(
            self.stores,
            hashes,
            StoredPolicies(records),
            Checks(name_checks(self.screening, self.suppressions) | contacts),
            TransactionWallets(self.wallet_lists, JudgeWallets(records, names)),
            lambda tenant_id: read_settings(records, tenant_id),
            self.clock,
            table,
            self.announcer,
            KeyedFeatures(hashes, self.ask_key, self.writer.write, self.clock, self.counters.key_questions),
            counters=self.counters,
            lists=self.lists,
            suppressions=self.suppressions,
        )


@dataclass(frozen=True, slots=True)
class PoliciesProbe:
    """Shows on `/readyz` how many tenants' payments wait for a policy that loads; no other tenant's do."""

    counters: TransactionCounters

    async def __call__(self) -> str | None:
        """Return None: a tenant's policy makes no process unusable for the others."""
        return None

    def shown(self) -> dict[str, int]:
        """Return how many published policies do not load any more; doctor names the tenants."""
        return {"unavailable": len(self.counters.without_policy)}


def transaction_figures(counters: TransactionCounters) -> list[Figure]:
    """Return what the agents of transactions of this process did."""
    said = {
        "veristream_transactions_decided_total": ("Transactions decided.", "outcome", counters.decisions),
        "veristream_transaction_check_errors_total": (
            "Checks of transactions that ended ERROR.",
            "cause",
            counters.check_errors,
        ),
        "veristream_transaction_key_questions_total": (
            "Questions to the actors of keys for features.",
            "end",
            counters.key_questions,
        ),
        "veristream_transaction_rows_total": (
            "Velocity rows needed, found in the table or rebuilt.",
            "source",
            counters.rows,
        ),
    }
    return [
        Figure(name, meaning, label, partial(dict[str, float], counts))
        for name, (meaning, label, counts) in said.items()
    ]
