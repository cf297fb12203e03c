"""Finds evidence that is past its date, through its index by age, and asks for its removal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.base import to_milliseconds
from schemas.enums import RetentionPolicy
from schemas.ids import PLATFORM, ErasureId, EvidenceId, TenantId, VerificationId
from schemas.privacy import RedactVerification
from schemas.problems import StoreUnavailable
from schemas.tenant_settings import Retention
from schemas.topics import Topic
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position, RecordKind
from streams.ports.stores import Stores
from streams.retention import rules
from streams.retention.erasure_records import APPROVED_INDEX, erase_command
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import Outgoing
from streams.runtime.supervisor import Figure
from streams.tenants.handler import TENANTS_INDEX
from streams.tenants.settings import read_settings

log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
"""Between two rounds; a piece is asked for within one round of its date."""

TENANTS_PAGE: Final = 100

Write = Callable[..., Awaitable[None]]
"""Writes records to the log; raises `StoreUnavailable`."""


@dataclass(frozen=True, slots=True)
class SweepPace:
    """How much one round takes up."""

    page: int = 200
    most: int = 2_000
    """Verifications asked for in one round; the next takes the others. Bounds memory and the topic, and how
    long an erasure waits behind them."""
    again_after: timedelta = timedelta(minutes=15)
    """A verification that was asked for and is still there is asked for again."""


@dataclass(slots=True)
class Backlog:
    """What is past its date and still stored."""

    pieces: int = 0
    """Of evidence; a round looks at no more than it asks for."""
    erasures: int = 0
    """Approved, and not carried out."""
    oldest_s: float = 0.0
    """How long the oldest piece has been past its date."""


class RetentionSweeper:
    """Asks for every verification of which something is past its date; asking twice changes nothing."""

    def __init__(
        self, stores: Stores, write: Write, now: Callable[[], datetime], pace: SweepPace | None = None
    ) -> None:
        self._stores = stores
        self._write = write
        self._now = now
        self._pace = pace or SweepPace()
        self._asked: dict[tuple[str, ...], datetime] = {}
        """When each was asked for last; at most those of the rounds within `again_after`."""
        self._found = Backlog()
        self.backlog = Backlog()
        """What the last whole round found, nothing in a process that is not responsible."""

    async def sweep(self) -> int:
        """Ask for what is past its date; return for how many verifications.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        now = to_milliseconds(self._now())
        self._found = Backlog()
        fresh = now - self._pace.again_after
        self._asked = {key: at for key, at in self._asked.items() if fresh < at <= now}
        sent, before = 0, None
        while sent < self._pace.most:
            page = await self._stores.records.page(
                PLATFORM, RecordKind.TENANT, TENANTS_INDEX, limit=TENANTS_PAGE, before=before
            )
            for record in page:
                sent += await self._sweep_tenant(TenantId(record.id), now, self._pace.most - sent)
            if len(page) < TENANTS_PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        self.backlog = self._found
        return sent

    async def _sweep_tenant(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        retention = (await read_settings(self._stores.records, tenant_id)).retention
        sent = await self._ask_erasures(tenant_id, now)
        for policy in rules.TIMED:
            sent += await self._sweep_policy(tenant_id, policy, retention, now, most - sent)
        return sent

    async def _ask_erasures(self, tenant_id: TenantId, now: datetime) -> int:
        """Ask for approved erasures that were not carried out yet."""
        listed = await self._stores.records.page(
            tenant_id, RecordKind.ERASURE, APPROVED_INDEX, limit=self._pace.page
        )
        self._found.erasures += len(listed)
        fresh = [one for one in listed if (tenant_id, one.id) not in self._asked]
        await self._write(*(erase_command(tenant_id, ErasureId(one.id), now) for one in fresh))
        self._asked.update({(tenant_id, one.id): now for one in fresh})
        return len(fresh)

    async def _sweep_policy(
        self, tenant_id: TenantId, policy: RetentionPolicy, retention: Retention, now: datetime, most: int
    ) -> int:
        """Walk what is older than the policy's period; evidence on legal hold is passed over."""
        stored_for = rules.period(policy, retention)
        if stored_for is None:
            return 0
        sent, after = 0, None
        while sent < most:
            page = await self._stores.ages.oldest(
                tenant_id,
                policy,
                created_until=now - stored_for,
                limit=self._pace.page,
                after=after,
            )
            due = [row for row in page if rules.due_at(row, retention) is not None]
            self._note(due, now - stored_for)
            sent += await self._ask(due, now)
            if len(page) < self._pace.page:
                break
            after = Position(page[-1].created_at, page[-1].evidence_id)
        return sent

    def _note(self, rows: Sequence[EvidenceRow], created_until: datetime) -> None:
        self._found.pieces += len(rows)
        for row in rows[:1]:  # the oldest of the page
            late_s = (created_until - row.created_at).total_seconds()
            self._found.oldest_s = max(self._found.oldest_s, late_s)

    async def _ask(self, rows: Sequence[EvidenceRow], now: datetime) -> int:
        pieces: dict[tuple[TenantId, VerificationId, RetentionPolicy], list[EvidenceId]] = {}
        for row in rows:
            key = (row.tenant_id, row.verification_id, row.retention_policy)
            if key not in self._asked:
                pieces.setdefault(key, []).append(row.evidence_id)
        await self._write(*(_command(*key[:2], ids, now) for key, ids in pieces.items()))
        self._asked.update(dict.fromkeys(pieces, now))
        return len(pieces)

    async def run(self, is_responsible: Callable[[], bool], every_s: float = EVERY_S) -> None:
        """Sweep for ever while this process is the one that does; what is away is tried at the next round."""
        while True:
            try:
                asked = await self._sweep_if(is_responsible)
            except StoreUnavailable:
                log.warning("retention.sweep_waiting")
            else:
                if asked:
                    log.info("retention.swept", verifications=asked)
            await asyncio.sleep(every_s)

    async def _sweep_if(self, is_responsible: Callable[[], bool]) -> int:
        if is_responsible():
            return await self.sweep()
        self.backlog = Backlog()
        return 0

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The metrics; none names a tenant."""
        return (
            Figure(
                "veristream_retention_backlog",
                "What is past its date and still stored: pieces of evidence, approved erasures.",
                "kind",
                lambda: {"evidence": self.backlog.pieces, "erasures": self.backlog.erasures},
            ),
            Figure(
                "veristream_retention_oldest_seconds",
                "How long the oldest piece of evidence has been past its date.",
                "kind",
                lambda: {"evidence": self.backlog.oldest_s},
            ),
        )


async def count_backlog(stores: Stores, now: Callable[[], datetime]) -> Backlog:
    """Count once what is past its date and still stored, and ask for nothing.

    Raises:
        StoreUnavailable: Nothing could be counted.
    """

    async def write(*_: Outgoing) -> None:
        """Leave what is due to the service."""

    sweeper = RetentionSweeper(stores, write, now)
    await sweeper.sweep()
    return sweeper.backlog


@asynccontextmanager
async def sweeping_evidence(
    sweeper: RetentionSweeper, is_responsible: Callable[[], bool], every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Sweep in the background for the length of the context."""
    async with beside(lambda: sweeper.run(is_responsible, every_s), "retention-sweeper", every_s):
        yield


def _command(
    tenant_id: TenantId, verification_id: VerificationId, evidence_ids: Sequence[EvidenceId], now: datetime
) -> Outgoing:
    command = RedactVerification(
        tenant_id=tenant_id,
        verification_id=verification_id,
        evidence_ids=tuple(evidence_ids),
        requested_at=now,
    )
    return Outgoing(Topic.RETENTION_COMMANDS, verification_id.encode(), command.to_bytes())
