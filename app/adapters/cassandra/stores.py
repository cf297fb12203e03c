"""Open the stores of many nodes over one keyspace and one folder of evidence."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.adapters.cassandra.audit_log import CassandraAuditLog
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.deployment_check import check_folder, check_root_key
from app.adapters.cassandra.evidence import CassandraEvidenceStore
from app.adapters.cassandra.evidence_ages import CassandraEvidenceAges
from app.adapters.cassandra.feed import CassandraEventFeed
from app.adapters.cassandra.feed_positions import SETTLE_S
from app.adapters.cassandra.journal import CassandraJournal
from app.adapters.cassandra.keys import CassandraVault, SubjectKeys
from app.adapters.cassandra.keyspace import check_schema
from app.adapters.cassandra.record_removal import CassandraRecordRemoval
from app.adapters.cassandra.records import CassandraRecords
from app.adapters.cassandra.session import Session
from app.adapters.files.blobs import BlobFiles
from app.adapters.security.crypto import Keys
from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.security.keyring import KeyRing
from streams.ports.stores import Stores


@asynccontextmanager
async def open_cassandra_stores(
    address: Address, keyspace: str, blobs_dir: Path, keys: Keys, *, durable: bool = True
) -> AsyncIterator[Stores]:
    """Open the stores of a keyspace that `migrate` made; every process must see the same `blobs_dir`.

    From then on Cassandra may go and come back: meanwhile every call is `StoreUnavailable`. Without
    `durable` a loss of power may cost evidence files that were just written; for tests.

    Raises:
        StoreUnavailable: No node answers.
        StoreRefused: Credentials, TLS or names are wrong, or the folder is another store's.
        SchemaRefused: The keyspace was not migrated, or by a newer version.
        RootKeyRefused: The store was sealed under another root key, or the sender's key is not of it.
    """
    async with open_session(address, keyspace) as session:
        await check_schema(session)
        await check_root_key(session, keys)
        await check_folder(session, blobs_dir)
        yield build_stores(session, blobs_dir, keys, durable=durable)


def build_stores(
    session: Session,
    blobs_dir: Path,
    keys: Keys,
    *,
    durable: bool = True,
    settle_s: float = SETTLE_S,
) -> Stores:
    """Return the stores over a session; nothing is looked at. `settle_s`: see `feed_positions`."""
    subjects = SubjectKeys(session, KeyRing(keys))
    journal = CassandraJournal(session, settle_s=settle_s)
    evidence = CassandraEvidenceStore(session, subjects, BlobFiles(blobs_dir, durable=durable))
    return Stores(
        journal=journal,
        records=CassandraRecords(session, journal.finish),
        audit_log=CassandraAuditLog(session, ChainKeyRing(keys)),
        evidence=evidence,
        vault=CassandraVault(subjects),
        feed=CassandraEventFeed(session, settle_s),
        ages=CassandraEvidenceAges(session, evidence),
        removal=CassandraRecordRemoval(session),
    )
