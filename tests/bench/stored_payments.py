"""Store very many payments of a tenant as its service would, without HTTP and without the log.

Each is built and committed by the product's own functions: its record with all indexes, its event, its
audit row in the chain, its subject's key and its sealed parts; they are spread over the past `SPREAD`. Only
what the rules came to is computed once and written of all: what a payment without a past is decided. The rows
of the subjects go into the changelog of their table, as many as a worker keeps. The commands and the events
of the log are left out; nobody reads them again.
"""

import asyncio
import ctypes
import random
import sys
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types

from app.adapters.security.crypto import Purpose
from app.composition.stores import Deployment, new_id, now, open_existing
from app.kafka.cluster import open_broker, prepare_topics
from app.settings import Settings
from schemas.base import to_milliseconds
from schemas.ids import KeyId, TenantId
from schemas.topics import Topic
from schemas.transaction_decisions import AppliedPolicy, ScreenTransaction
from schemas.transactions import OUTCOME_CLASS, TransactionRequest
from streams.ports.records import Change
from streams.ports.stores import Stores
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.tables import MOST_BYTES_PER_PARTITION, Ages, partition_of, table_of
from streams.runtime.topics import changelog_of
from streams.transactions import row as velocity_row
from streams.transactions.agent import MOST_PER_PARTITION, TABLE
from streams.transactions.change import Outcome, Standing, change_of, stored_transaction
from streams.transactions.comparing import Judged, circumstances_of
from streams.transactions.features import Earlier
from streams.transactions.fields import fields_of
from streams.transactions.keyed_hashes import KeyedHashes, keys_of
from streams.transactions.opening import parts_json, seal_parts
from streams.transactions.published import StoredPolicies
from streams.transactions.records import transaction_id
from streams.transactions.row import VelocityRow, newest_id
from streams.transactions.rules import Decided, SubjectState, decide
from streams.transactions.shown_rules import WrittenRule, shown_rules
from streams.transactions.velocity import event_of
from tests.bench.fifty_rules import CUSTOMERS, payment

SPREAD: Final = timedelta(days=80)
"""How long ago the first was: within the longest window."""

AT_ONCE: Final = 512
"""Payments under way, of as many customers: those of one customer come one after the other."""

IN_A_CHANGE: Final = 64
"""Payments committed by one change."""

REPORT_EVERY_S: Final = 15.0

_LOCKED: Final = list[object]()
"""What `lock_in_memory` mapped."""


@dataclass(slots=True)
class PaymentStorage:
    """Stores payments of a tenant in test mode, one batch after the other."""

    stores: Stores
    tenant_id: TenantId
    hashes: KeyedHashes
    policy: AppliedPolicy
    decided: Decided
    """What a payment without a past is decided."""
    chance: random.Random = field(default_factory=lambda: random.Random(2))
    key_id: KeyId = field(default_factory=lambda: KeyId(new_id("key")))
    rows: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    """By subject; that of the subject which paid last is the last."""
    _rules: tuple[WrittenRule, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Write the rules once."""
        self._rules = shown_rules(self.decided)

    async def store(self, count: int) -> None:
        """Store so many, and print how far it is."""
        begun = reported = time.monotonic()
        first = now() - SPREAD
        for done in range(0, count, AT_ONCE):
            at = to_milliseconds(first + SPREAD * (done / count))
            customers = self.chance.sample(range(CUSTOMERS), min(AT_ONCE, count - done))
            changes = await asyncio.gather(*(self._change(customer, at) for customer in customers))
            groups = [changes[start : start + IN_A_CHANGE] for start in range(0, len(changes), IN_A_CHANGE)]
            await asyncio.gather(*map(self._commit, groups))
            if time.monotonic() > reported + REPORT_EVERY_S:
                reported = time.monotonic()
                stored = done + len(changes)
                sys.stdout.write(f"{stored:,} of {count:,} stored, {stored / (reported - begun):.0f}/s\n")
                sys.stdout.flush()

    async def _change(self, customer: int, at: datetime) -> Change:
        """Return what the decision of a payment changes, and count the payment in its subject's row."""
        request = TransactionRequest.model_validate_json(payment(self.chance, customer, at))
        command = self._command(request, at)
        row = self._row(command.subject_key)
        circumstances = circumstances_of(SubjectState(), {}, newest_id(row).hex())
        keys = keys_of(self.hashes, self.tenant_id, request, livemode=False)
        judged = Judged(self.decided, circumstances)
        outcome = Outcome(command, request.subject_id, request, judged, self.policy, at, keys=keys)
        about = command.transaction_id
        parts = parts_json(request, self._rules, (), circumstances)
        sealed = await seal_parts(self.stores, self.tenant_id, about, request.subject_id, parts)
        event = event_of(self.hashes, self.tenant_id, request, OUTCOME_CLASS[self.decided.decision])
        velocity_row.add(row, about, event)
        self.rows[command.subject_key] = velocity_row.encode(row)
        self.rows.move_to_end(command.subject_key)
        return change_of(outcome, stored_transaction(outcome, sealed), Standing())

    def _row(self, key: str) -> VelocityRow:
        encoded = self.rows.get(key)
        return VelocityRow() if encoded is None else velocity_row.decode(encoded)

    def _command(self, request: TransactionRequest, at: datetime) -> ScreenTransaction:
        request_id = new_id("req")
        return ScreenTransaction(
            tenant_id=self.tenant_id,
            subject_key=self.hashes.subject_key(self.tenant_id, request.subject_id, livemode=False),
            subject_id=request.subject_id,
            livemode=False,
            requested_at=at,
            transaction_id=transaction_id(self.tenant_id, request_id, livemode=False),
            fingerprint=self.hashes.of(self.tenant_id, "request", request_id).hex(),
            sealed_request="",  # it is not stored
            key_id=self.key_id,
            request_id=request_id,
        )

    async def _commit(self, changes: Sequence[Change]) -> None:
        """Commit the changes as one, and mark its events as published."""
        journal = self.stores.journal
        records = tuple(record for change in changes for record in change.records)
        audit = tuple(row for change in changes for row in change.audit)
        events = tuple(event for change in changes for event in change.events)
        await journal.commit(Change(self.tenant_id, records, audit, events))
        await journal.mark_emitted([event.id for event in events])


async def store_payments(data_dir: Path, tenant_id: TenantId, count: int) -> None:
    """Store so many payments of a tenant, whose policy is published and whose service is stopped."""
    settings = Settings(data_dir=data_dir)
    async with open_existing(settings) as deployment:
        hashes = KeyedHashes(deployment.keys.derive(Purpose.TRANSACTION_HASHES))
        storage = await storage_of(deployment.stores, tenant_id, hashes)
        await storage.store(count)
        async with open_broker(settings) as access:
            await prepare_topics(access)
            await _write_changelog(access, deployment, _newest(storage.rows))


async def storage_of(stores: Stores, tenant_id: TenantId, hashes: KeyedHashes) -> PaymentStorage:
    """Return what stores payments that the tenant's published policy decided."""
    published = await StoredPolicies(stores.records)(tenant_id)
    assert published.compiled is not None
    request = TransactionRequest.model_validate_json(payment(random.Random(1)))
    features = Earlier(VelocityRow(), {}).features(
        published.compiled.features, event_of(hashes, tenant_id, request)
    )
    decided = decide(published.compiled, fields_of(request, ()), features, (), SubjectState())
    return PaymentStorage(stores, tenant_id, hashes, published.applied, decided)


def lock_in_memory(path: Path) -> None:
    """Lock a file in the page cache (mlock(2)) until this process ends, as a larger memory would.

    Raises:
        OSError: This user may not lock so much.
    """
    content: np.memmap[Any, np.dtype[np.uint8]] = np.memmap(path, np.uint8, "r")
    system = ctypes.CDLL(None, use_errno=True)
    if system.mlock(ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(content.nbytes)):
        raise OSError(ctypes.get_errno(), "mlock", str(path))
    _LOCKED.append(content)


def _newest(rows: OrderedDict[str, bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the rows that a worker keeps of each partition, the newest last."""
    partitions: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
    for key, value in rows.items():
        partitions[partition_of(Topic.TRANSACTION_COMMANDS, key)][key.encode()] = value
    for partition, entries in partitions.items():
        ages = Ages(MOST_PER_PARTITION, MOST_BYTES_PER_PARTITION)
        for raw_key, value in entries.items():
            ages.renew(raw_key, value)
        excess = set(ages.forget_excess())
        yield from ((partition, *entry) for entry in entries.items() if entry[0] not in excess)


async def _write_changelog(
    access: LogAccess, deployment: Deployment, rows: Iterator[tuple[int, bytes, bytes]]
) -> None:
    """Write the rows as the table of a worker does."""
    keys, table, topic = deployment.record_keys, table_of(TABLE), changelog_of(GROUP, TABLE)
    async with AIOKafkaProducer(**access.client(), acks="all", linger_ms=50) as producer:
        sent = [
            await producer.send(topic, keys.seal_entry(table, key, value), key, partition)
            for partition, key, value in rows
        ]
        await asyncio.gather(*sent)
