"""Assess the wallet of a transaction, and write the transfers of money that moved to the ledger (G124)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from schemas.enums import CheckKind, DecisionOutcome
from schemas.ids import SubjectId, TenantId, TransactionId
from schemas.policies import FieldValue
from schemas.policy_documents import WalletShares
from schemas.problems import FieldProblem, ProblemCode, Refused
from schemas.transaction_decisions import (
    CheckOutcome,
    ScreenedTarget,
    ShownCheck,
    StoredTransaction,
    StoredTransfer,
)
from schemas.transactions import (
    OUTCOME_CLASS,
    Chain,
    Direction,
    OutcomeClass,
    TransactionRequest,
    TransactionType,
    TransactionWallet,
    WalletRole,
)
from schemas.wallets import AddressInvalid, WalletAddress, WalletRisk
from streams.ports.records import Record
from streams.transactions.checks import CheckContext
from streams.transactions.rules import GRAVITY
from streams.wallets.formats import read
from streams.wallets.judging import JudgeWallets, NodeNames
from streams.wallets.ports import ListedWallets, Node, WalletLists
from streams.wallets.records import transfer_record
from streams.wallets.rules import Thresholds

_SUBJECTS_PART: Final = {
    (Direction.INBOUND, WalletRole.SOURCE): True,
    (Direction.OUTBOUND, WalletRole.DESTINATION): False,
}
"""Whether the subject is paid by the wallet; other pairs are wallets of the subject's own."""


@dataclass(frozen=True, slots=True)
class AssessedWallet:
    """The wallet's row among the checks, and what rules may read of it."""

    shown: ShownCheck
    fields: dict[str, FieldValue]


@dataclass(frozen=True, slots=True)
class TransactionWallets:
    """Assesses wallets of transactions by the lists of the tenant and its own ledger."""

    lists: WalletLists
    judge: JudgeWallets

    async def assess(
        self, wallet: TransactionWallet, shares: WalletShares, context: CheckContext
    ) -> AssessedWallet:
        """Return what is known of the wallet; where no list has a wallet the money waits.

        Raises:
            StoreUnavailable: The ledger cannot be read.
        """
        lists = await self.lists.current(context.tenant_id, livemode=context.livemode, state=context.lists)
        judged = await self.judge(
            context.tenant_id,
            address_of(wallet),
            wallet.address,
            lists,
            context.at,
            Thresholds(shares.block_share, shares.flag_share),
            livemode=context.livemode,
        )
        risk = judged.risk
        return AssessedWallet(
            _shown(risk, lists),
            {
                "wallet.sanctioned": risk.sanctioned,
                "wallet.risk_level": risk.risk_level,
                "wallet.score": risk.score,
            },
        )

    def transfers_of(
        self, tenant_id: TenantId, subject_id: SubjectId, request: TransactionRequest
    ) -> Iterator[StoredTransfer]:
        """Yield the edges that the transaction is, once its money has moved; it names nobody in them."""
        wallet, names = request.wallet, self.judge.names
        if request.type is not TransactionType.CRYPTO_TRANSFER or wallet is None:
            return
        amount = None if request.base_amount is None else request.base_amount.amount
        own = names.wallet(address_of(wallet).normalized)
        paid = _SUBJECTS_PART.get((request.direction, wallet.role))
        if paid is not None:
            subject = names.subject(tenant_id, subject_id)
            source, destination = (own, subject) if paid else (subject, own)
            yield StoredTransfer(source=source, destination=destination, base_amount=amount)
        counterparty = None if request.counterparty is None else request.counterparty.wallet
        if counterparty is not None:
            other = _node(names, counterparty, wallet.chain)
            source, destination = (own, other) if wallet.role is WalletRole.SOURCE else (other, own)
            yield StoredTransfer(source=source, destination=destination, base_amount=amount)


def address_of(wallet: TransactionWallet) -> WalletAddress:
    """Return the wallet's address in its one spelling.

    Raises:
        Refused: ADDRESS_INVALID, with the rule it fails.
    """
    try:
        return read(wallet.address, wallet.chain)
    except AddressInvalid as invalid:
        code = ProblemCode.ADDRESS_INVALID
        field = FieldProblem(code=code, message=str(invalid), pointer="/wallet/address", rule=invalid.rule)
        raise Refused.because(code, f"{invalid.rule}: {invalid}", field) from None


def transfer_records(tenant_id: TenantId, stored: StoredTransaction) -> Iterator[Record]:
    """Yield the ledger's records of a transaction whose money moves by its decision, else none."""
    transaction = stored.transaction
    if OUTCOME_CLASS[transaction.decision] is OutcomeClass.GO:
        about, at = transaction.transaction_id, transaction.occurred_at
        yield from moved(tenant_id, about, stored.transfers, at, livemode=transaction.livemode)


def moved(
    tenant_id: TenantId,
    about: TransactionId,
    transfers: Iterable[StoredTransfer],
    occurred_at: datetime,
    *,
    livemode: bool,
) -> Iterator[Record]:
    """Yield the ledger's records of a transaction whose money has moved."""
    for number, transfer in enumerate(transfers):
        yield transfer_record(
            tenant_id,
            f"{about}.{number}",
            Node(transfer.source),
            Node(transfer.destination),
            transfer.base_amount,
            occurred_at,
            livemode=livemode,
        )


def _node(names: NodeNames, written: str, chain: Chain) -> Node:
    """Return the node of the counterparty's wallet; one of no known format is known by its text."""
    try:
        return names.wallet(read(written, chain).normalized)
    except AddressInvalid:
        return names.wallet(written)


def _shown(risk: WalletRisk, lists: ListedWallets) -> ShownCheck:
    decision = risk.decision
    if not lists.clears:
        decision = max(decision, DecisionOutcome.HOLD, key=GRAVITY.__getitem__)
    return ShownCheck(
        check=CheckKind.SANCTIONS,
        target=ScreenedTarget.WALLET,
        result=_result(risk, lists),
        decision=None if decision is DecisionOutcome.ALLOW else decision,
        score=str(risk.score),
        list_versions=dict(lists.versions),
        matches=tuple(exposure.model_dump(mode="json", exclude_none=True) for exposure in risk.exposures),
        findings=tuple(reason.code for reason in risk.reasons),
    )


def _result(risk: WalletRisk, lists: ListedWallets) -> CheckOutcome:
    if risk.sanctioned:
        return CheckOutcome.MATCH
    if not lists.clears:
        return CheckOutcome.ERROR
    return CheckOutcome.POSSIBLE if risk.exposures else CheckOutcome.CLEAR
