"""The traffic of the bench of a year, made by the use cases of the product, and every sweep there is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from schemas.audit import AuditAction, SealAudit
from schemas.enums import EvidenceKind, FlowType
from schemas.ids import (
    PLATFORM,
    EvidenceId,
    ReviewerSessionId,
    SessionId,
    SubjectId,
    TransactionId,
    UserId,
    VerificationId,
    derive_id,
)
from schemas.people import OneTimeToken, ReviewerSession, TokenPurpose
from schemas.privacy import RedactVerification, RetentionCommand
from schemas.sessions import SessionOpening
from schemas.transaction_decisions import HoldWatch
from schemas.webhooks import DeliveryStatus
from streams.audit.commit import CommitAndPublish, act
from streams.audit.handler import SealChain
from streams.audit.rows import write_row
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention.expiry import RecordExpiry
from streams.retention.handler import RedactEvidence
from streams.retention.rules import SYSTEM
from streams.retention.scheduler import RetentionSweeper
from streams.runtime.producer import Outgoing
from streams.runtime.record_removal import Removal
from streams.sessions.queries import opening_label
from streams.sessions.removal import SessionRemoval
from streams.sign_in.session_cookies import session_record
from streams.tenants.handler import TENANTS_INDEX
from streams.tenants.settings import read_settings
from streams.verification import records
from streams.verification.removal import PictureRemoval
from streams.webhooks.records import delivery_records, endpoint_record, fresh, tenant_record
from streams.webhooks.removal import DeliveryRemoval
from tests.builders import (
    ACME,
    build_command,
    build_decision_event,
    build_endpoint,
    build_evidence_draft,
    build_submission,
    build_tenant,
)
from tests.handlers.session_stage import SessionStage
from tests.handlers.verification_stage import DOCUMENT, SELFIE, Scene

LEFT_BY_PAYMENTS = (
    RecordKind.CONTACT_USE, RecordKind.HISTORY_IMPORT, RecordKind.TRANSFER,
    RecordKind.BACKTEST, RecordKind.BACKTEST_TEXT, RecordKind.BACKTEST_WATCH,
)  # fmt: skip
"""Kinds that end by their age alone."""


@dataclass(slots=True)
class YearTraffic:
    """One tenant with one endpoint; a unit of traffic is a new subject with all that one brings."""

    stores: Stores
    image: int
    """Bytes of an image."""
    stage: SessionStage = field(init=False)
    removals: Sequence[Removal] = field(init=False)
    swept_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        """Set the stage over the stores."""
        self.stage = SessionStage(Scene(digests=True))
        self.stage.stores = self.stores
        classes = (DeliveryRemoval, SessionRemoval, PictureRemoval, RecordExpiry)
        self.removals = [each(self.stores, lambda: self.swept_at) for each in classes]

    async def furnish(self, now: datetime) -> None:
        """Make the tenant, a flow and the endpoint."""
        body = build_tenant().to_bytes()
        tenant = Record(PLATFORM, RecordKind.TENANT, ACME, body, now, indexes=(TENANTS_INDEX,))
        endpoint = build_endpoint(created_at=now)
        stored = (tenant, endpoint_record(endpoint, 1), tenant_record(ACME, now))
        await self.stores.journal.commit(Change(ACME, stored))
        await self.stage.publish(FlowType.FULL_IDENTITY)

    async def play(self, now: datetime, name: str) -> None:
        """Bring a new subject, a cancelled session, a delivery, a sign-in, a token, a view and a payment."""
        self.stage.now = now
        subject = SubjectId(f"subject-{name}")
        await self._verify(now, name, subject)
        await self._open_and_cancel(name, subject)
        await self._deliver(now, name)
        await self._sign_in(now, name)
        await self._pay(now, name)
        while events := await self.stores.journal.pending_events(100):
            await self.stores.journal.mark_emitted([event.id for event in events])
        await SealChain(self.stores.audit_log)(SealAudit(tenant_id=ACME))

    async def _verify(self, now: datetime, name: str, subject: SubjectId) -> None:
        ids = {
            kind: EvidenceId(derive_id("evd", name, kind))
            for kind in (EvidenceKind.IMAGE, EvidenceKind.SELFIE)
        }
        run = VerificationId(derive_id("ver", name))
        common: dict[str, Any] = {"subject_id": subject, "verification_id": run}
        for kind, evidence_id in ids.items():
            start = DOCUMENT if kind is EvidenceKind.IMAGE else SELFIE
            draft = build_evidence_draft(
                (start + name.encode()).ljust(self.image, b"."),
                evidence_id=evidence_id, kind=kind, retention_policy=records.RETENTION_OF[kind],
                created_at=now, **common,
            )  # fmt: skip
            await self.stores.evidence.put([draft])
        sealed = await self.stores.vault.seal(
            ACME, subject, records.submission_label(run), build_submission().to_bytes()
        )
        command = build_command(
            requested_at=now, sealed_submission=sealed, document_evidence_id=ids[EvidenceKind.IMAGE],
            selfie_evidence_id=ids[EvidenceKind.SELFIE], **common,
        )  # fmt: skip
        await self.stage.handler(command)

    async def _open_and_cancel(self, name: str, subject: SubjectId) -> None:
        session_id = SessionId(derive_id("vs", name))
        sealed = await self.stores.vault.seal(
            ACME, subject, opening_label(session_id), SessionOpening().to_bytes()
        )
        await self.stage.give(await self.stage.opening(session_id, subject_id=subject, sealed_opening=sealed))
        cancel = self.stage.cancel().model_copy(update={"session_id": session_id})
        await self.stage.give(cancel)

    async def _deliver(self, now: datetime, name: str) -> None:
        event = build_decision_event(id=derive_id("evt", name), timestamp=now)
        stored = fresh(event, build_endpoint(created_at=now), now)
        changes = {"status": DeliveryStatus.DELIVERED, "next_attempt_at": None}
        over = stored.model_copy(update={"delivery": stored.delivery.model_copy(update=changes)})
        await self.stores.journal.commit(Change(ACME, delivery_records(over, None)))

    async def _sign_in(self, now: datetime, name: str) -> None:
        member = UserId(derive_id("usr", "member"))
        session = ReviewerSession(
            session_id=ReviewerSessionId(derive_id("rs", name)), lookup=derive_id("rs", name)[3:],
            secret_hash="0" * 64, tenant_id=ACME, reviewer_id=member,
            created_at=now, seen_at=now, expires_at=now + timedelta(hours=12),
        )  # fmt: skip
        token = OneTimeToken(
            tenant_id=ACME, reviewer_id=member, purpose=TokenPurpose.INVITATION,
            created_at=now, expires_at=now + timedelta(days=7),
        )  # fmt: skip
        issued = Record(
            PLATFORM, RecordKind.TOKEN, derive_id("tok", name), token.to_bytes(), now, indexes=(BY_AGE,)
        )
        await self.stores.journal.commit(Change(ACME, (session_record(session, 1), issued)))
        row = write_row(
            derive_id("aud", name), AuditAction.EVIDENCE_VIEWED, SYSTEM, "x", now, detail="Viewed."
        )
        await self.stores.journal.commit(act(ACME, row))

    async def _pay(self, now: datetime, name: str) -> None:
        """Leave what a payment on hold, an import, a backtest and a wallet's transfer leave behind."""
        hold = HoldWatch(
            tenant_id=ACME, transaction_id=TransactionId(derive_id("txn", name)), subject_key="key",
            livemode=True, due=now + timedelta(days=3),
        )  # fmt: skip
        left = [
            Record(ACME, kind, derive_id("use", name), b"{}", now, indexes=(BY_AGE,))
            for kind in LEFT_BY_PAYMENTS
        ]
        watch = Record(PLATFORM, RecordKind.HOLD_WATCH, name, hold.to_bytes(), now, indexes=(BY_AGE,))
        await self.stores.journal.commit(Change(ACME, (*left, watch)))

    async def sweep(self, now: datetime) -> None:
        """Let everything that sweeps sweep once, and carry out what was asked."""
        stores, asked = self.stores, list[RedactVerification]()

        async def write(*sent: Outgoing) -> None:
            commands = [RetentionCommand.model_validate_json(one.value or b"").root for one in sent]
            asked.extend(one for one in commands if isinstance(one, RedactVerification))

        await RetentionSweeper(stores, write, lambda: now).sweep()
        redact = RedactEvidence(
            stores,
            lambda tenant_id: read_settings(stores.records, tenant_id),
            CommitAndPublish(stores.journal, self.stage.announcer),
            lambda: now,
            self.stage._pause,
        )
        for command in asked:
            await redact(command)
        self.swept_at = now
        for removal in self.removals:
            await removal.sweep()
