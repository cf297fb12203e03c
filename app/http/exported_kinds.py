"""Kinds of records that are listed by subject, and how the export of a subject shows one."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from schemas.base import Frozen
from schemas.dispositions import Disposition
from schemas.ids import SubjectId, TenantId
from schemas.name_screenings import NameScreening
from schemas.transaction_history import HistoricTransaction, StoredHistory
from schemas.wallets import WalletAssessment
from streams.dispositions.records import Hashes, by_subject_key
from streams.dispositions.records import shown as shown_disposition
from streams.name_screenings.records import shown as shown_screening
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.opening import open_history
from streams.verification.records import Index, by_subject
from streams.wallets.handler import shown_assessment


class ListedKind(NamedTuple):
    """A kind of record that is listed by subject, and how one is shown."""

    folder: str
    name: str
    """In `schema.json`."""
    model: type[Frozen]
    shown: Callable[[Stores, TenantId, Record], Awaitable[Frozen]]


LISTED: Final = {
    RecordKind.NAME_SCREENING: ListedKind(
        "name-screenings",
        "name_screening",
        NameScreening,
        lambda stores, tenant_id, record: shown_screening(stores.vault, tenant_id, record.body),
    ),
    RecordKind.WALLET_ASSESSMENT: ListedKind(
        "wallet-assessments",
        "wallet_assessment",
        WalletAssessment,
        lambda stores, _, record: shown_assessment(stores.vault, record),
    ),
    RecordKind.HISTORIC_TRANSACTION: ListedKind(
        "historic-transactions",
        "historic_transaction",
        HistoricTransaction,
        lambda stores, tenant_id, record: open_history(
            stores, tenant_id, StoredHistory.from_bytes(record.body)
        ),
    ),
    RecordKind.DISPOSITION: ListedKind(
        "dispositions",
        "disposition",
        Disposition,
        lambda stores, tenant_id, record: shown_disposition(stores.vault, tenant_id, record.body),
    ),
}
"""What a subject's export holds beside verifications, transactions and sessions."""


def index_of(
    kind: RecordKind, hashes: Hashes, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
) -> Index:
    """Return the index under which the records of a kind about a subject are listed."""
    if kind is RecordKind.DISPOSITION:
        return by_subject_key(hashes.subject_key(tenant_id, subject_id, livemode=livemode))
    return by_subject(livemode, subject_id)
