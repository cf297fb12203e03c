"""The stage for tests of retention: a decided verification and a clock to move."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from schemas.audit import AuditAction
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.events import EventType
from schemas.ids import PLATFORM, EvidenceId, TenantId, derive_id
from schemas.privacy import RedactVerification
from schemas.problems import NotFound
from schemas.tenant_settings import Retention, TenantSettings
from schemas.topics import Topic
from streams.audit.commit import CommitAndPublish
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention import rules
from streams.retention.handler import RedactEvidence
from streams.retention.scheduler import RetentionSweeper, SweepPace
from streams.runtime.producer import Outgoing
from streams.tenants.handler import TENANTS_INDEX
from streams.tenants.settings import SETTINGS, read_settings
from tests.builders import ACME, NOW, build_evidence_draft, build_tenant
from tests.handlers.verification_stage import Scene, Stage

DAY = timedelta(days=1)


class RetentionStage:
    """A tenant with verifications; what the sweeper writes is carried out when a test says so."""

    def __init__(self, scene: Scene | None = None, stores: Stores | None = None) -> None:
        self.stage = Stage(scene)
        if stores is not None:
            self.stage.stores = stores
        self.now = NOW
        self.written: list[RedactVerification] = []
        self.sweeper = self.new_sweeper()

    @property
    def stores(self) -> Stores:
        """The stores as they are now; a test may put others in their place."""
        return self.stage.stores

    def new_sweeper(self, pace: SweepPace | None = None) -> RetentionSweeper:
        """A sweeper as a process that just started has it."""
        return RetentionSweeper(self.stores, self._write, lambda: self.now, pace)

    async def _write(self, *records: Outgoing) -> None:
        for record in records:
            command = RedactVerification.from_bytes(record.value or b"")
            assert (record.topic, record.key) == (Topic.RETENTION_COMMANDS, command.verification_id.encode())
            self.written.append(command)

    async def furnish(self, *tenants: TenantId) -> None:
        """Make the tenants."""
        for tenant_id in tenants or (ACME,):
            body = build_tenant(tenant_id=tenant_id).to_bytes()
            record = Record(PLATFORM, RecordKind.TENANT, tenant_id, body, NOW, indexes=(TENANTS_INDEX,))
            await self.stores.journal.commit(Change(PLATFORM, (record,)))

    async def choose(self, tenant_id: TenantId = ACME, **retention: Any) -> None:
        """Keep what the tenant chose."""
        settings = TenantSettings(retention=Retention(**retention))
        try:
            current = await self.stores.records.get(tenant_id, RecordKind.SETTINGS, SETTINGS)
            record = replace(current, body=settings.to_bytes(), version=current.version + 1)
        except NotFound:
            record = Record(tenant_id, RecordKind.SETTINGS, SETTINGS, settings.to_bytes(), NOW)
        await self.stores.journal.commit(Change(tenant_id, (record,)))

    async def put(self, name: str, at: datetime = NOW, **changes: Any) -> EvidenceId:
        """Store a document's image that no verification refers to."""
        evidence_id = EvidenceId(derive_id("evd", name))
        draft = build_evidence_draft(evidence_id=evidence_id, created_at=at, **changes)
        await self.stores.evidence.put([draft])
        return evidence_id

    async def give(self, commands: Sequence[RedactVerification]) -> None:
        """Let the handler carry the commands out."""
        stores = self.stores
        handler = RedactEvidence(
            stores,
            lambda tenant_id: read_settings(stores.records, tenant_id),
            CommitAndPublish(stores.journal, self.stage.announcer),
            lambda: self.now,
            self._pause,
        )
        for command in commands:
            await handler(command)

    async def _pause(self, seconds: float) -> None:
        """Pass no time."""

    async def round(self) -> int:
        """Sweep as a process that just started, and carry out what was asked; return how much that was."""
        self.written.clear()
        sent = await self.new_sweeper().sweep()
        await self.give(list(self.written))
        return sent

    async def passes(self, days: float) -> None:
        """Move the clock to so many days after the verification."""
        self.now = NOW + timedelta(days=days)

    async def policies(self) -> dict[EvidenceKind, RetentionPolicy]:
        """What the verification says of each piece."""
        references = rules.evidence_of(await self.stage.stored())
        return {one.kind: one.retention_policy for one in references}

    def actions(self) -> list[AuditAction]:
        """The rows retention wrote, in their order."""
        ours = {AuditAction.EVIDENCE_DELETED, AuditAction.VERIFICATION_REDACTED}
        rows = self.stage.shelves.audit.get(ACME, {}).values()
        return [row.action for row in rows if row.action in ours]

    def published(self) -> list[EventType]:
        """The events retention published."""
        events = self.stage.shelves.events.values()
        return [event.type for event in events if event.type is EventType.VERIFICATION_REDACTED]
