"""The stage for tests of the session handler: what actors send each other waits until it is carried out."""

from datetime import timedelta
from typing import Any

from schemas.enums import DocumentType, EvidenceKind, FlowStatus, FlowType, ReaderClass
from schemas.flows import Flow, FlowConfiguration, FlowDocument, FlowRevision, StoredFlow
from schemas.ids import ChallengeId, EvidenceId, FlowId, SessionId, UserId, derive_id
from schemas.movements import Challenge, Movements
from schemas.people import SentActor
from schemas.problems import Refused
from schemas.sessions import (
    AddCapture,
    CancelSession,
    ExpireSession,
    OpenSession,
    RecordOutcome,
    SessionChanged,
    SessionCommand,
    SessionCommandBase,
    SessionOpening,
    StartSession,
    StoredSession,
    SubmitSession,
    stored_of,
)
from schemas.verifications import DeclaredDocument, Submission, SubmitVerification
from streams.aggregate import AnsweredRequests
from streams.flows.rules import REQUIRED_CHECKS
from streams.ports.records import Change, Record, RecordKind
from streams.sessions import rules
from streams.sessions.events import next_record
from streams.sessions.handler import ChangeSession
from streams.sessions.queries import opening_label
from streams.verification.handler import EvaluateVerification
from streams.verification.records import submission_label
from tests.builders import ACME, KEY, SUBJECT, build_evidence_draft
from tests.handlers.verification_stage import DOCUMENT, SELFIE, DictState, Scene, Stage

FLOW = FlowId(derive_id("vf", "acme", "flow"))
SESSION = SessionId(derive_id("vs", "acme", "first"))
PASSPORT = FlowDocument(
    code="NG_PASSPORT", country="NG", document_type=DocumentType.PASSPORT, display_name="Passport",
    reader=ReaderClass.TD3_MRZ,
)  # fmt: skip


class SessionStage(Stage):
    """One deployment with the handlers of sessions and verifications; rebuilt at will, as after a death."""

    def __init__(self, scene: Scene | None = None, *, with_liveness: bool = True) -> None:
        super().__init__(scene, with_liveness=with_liveness)
        self.handed: list[SubmitVerification] = []
        self.outcomes: list[RecordOutcome] = []
        self.memory: DictState[AnsweredRequests] = DictState()
        self.moving = True
        """Whether the person makes the movements after the selfie."""
        self._requests = 0

    async def hand(self, command: SubmitVerification) -> None:
        """Keep what was sent to be evaluated."""
        self.handed.append(command)

    async def report(self, outcome: RecordOutcome) -> None:
        """Keep what the session was reported."""
        self.outcomes.append(outcome)

    @property
    def sessions(self) -> ChangeSession:
        """The handler of sessions over what the stage holds now."""
        return ChangeSession(self.stores, lambda: self.now, self.memory, self.announcer, self.hand)

    @property
    def evaluate(self) -> EvaluateVerification:
        """The handler of verifications, which tells sessions."""
        handler = self.handler
        handler._send_outcome = self.report
        return handler

    async def publish(
        self, flow_type: FlowType = FlowType.FULL_IDENTITY, documents: tuple[FlowDocument, ...] = ()
    ) -> None:
        """Put a published flow into the store."""
        frozen = FlowConfiguration(
            flow_type=flow_type, required_checks=REQUIRED_CHECKS[flow_type], documents=documents
        )
        revision = FlowRevision(
            revision=1, configuration=frozen, published_at=self.now, published_by=UserId("usr_1")
        )
        flow = Flow(
            flow_id=FLOW, name="flow", status=FlowStatus.ACTIVE, flow_type=flow_type, documents=(),
            created_at=self.now, updated_at=self.now, published=revision, published_revision=1,
        )  # fmt: skip
        record = Record(ACME, RecordKind.FLOW, FLOW, StoredFlow(flow=flow).to_bytes(), self.now)
        await self.stores.journal.commit(Change(ACME, (record,)))

    async def opening(self, session_id: SessionId = SESSION, **changes: Any) -> OpenSession:
        """The command that opens a session."""
        sealed = await self.stores.vault.seal(
            ACME, SUBJECT, opening_label(session_id), SessionOpening().to_bytes()
        )
        values: dict[str, Any] = {
            **self.common(session_id), "subject_id": SUBJECT, "flow_id": FLOW, "livemode": True,
            "key_id": KEY, "sealed_opening": sealed, "fingerprint": "f" * 64,
        }  # fmt: skip
        return OpenSession(**values | changes)

    def common(self, session_id: SessionId = SESSION) -> dict[str, Any]:
        """What every command says; each is another request."""
        self._requests += 1
        actor = SentActor(actor_type="SUBJECT", actor_id=session_id, request_id=f"req-{self._requests}")
        return {"tenant_id": ACME, "session_id": session_id, "actor": actor, "requested_at": self.now}

    async def give(self, command: SessionCommandBase) -> SessionChanged:
        """Hand a command to the handler."""
        return await self.sessions(SessionCommand.model_validate(command.model_dump()))

    async def start(self) -> None:
        """Open a session and accept the notice."""
        await self.give(await self.opening())
        await self.give(StartSession(**self.common(), accepted=True, notice_version="1"))

    async def capture(self, kind: EvidenceKind, image: bytes | None = None) -> AddCapture:
        """Keep an image and let the session refer to it."""
        attempt = rules.attempt_of(await self.session())
        run = rules.verification_id(ACME, SESSION, attempt)
        content = image or (DOCUMENT if kind is EvidenceKind.IMAGE else SELFIE)
        evidence_id = EvidenceId(derive_id("evd", run, kind, content.hex()))
        draft = build_evidence_draft(content, evidence_id=evidence_id, kind=kind, verification_id=run)
        await self.stores.evidence.put([draft])
        command = AddCapture(**self.common(), attempt=attempt, what=kind, evidence_id=evidence_id)
        await self.give(command)
        if self.moving and kind is EvidenceKind.SELFIE:
            await self.move()
        return command

    async def move(self) -> None:
        """Finish a challenge of no movements; those with frames have tests of their own."""
        record = await self.stores.records.get(ACME, RecordKind.SESSION, SESSION)
        stored = await self.session()
        challenge = Challenge(
            challenge_id=ChallengeId("chl_1"), movements=(), drawn_at=self.now, expires_at=self.now
        )
        made = stored.model_copy(update={"movements": Movements(drawings=1, challenge=challenge)})
        await self.stores.journal.commit(Change(ACME, (next_record(record, made),)))

    async def submission(self, last4: str | None = None) -> SubmitSession:
        """The command that hands the images in."""
        attempt = rules.attempt_of(await self.session())
        label = submission_label(rules.verification_id(ACME, SESSION, attempt))
        plain = Submission(declared=DeclaredDocument(number_last4=last4)).to_bytes()
        sealed = await self.stores.vault.seal(ACME, SUBJECT, label, plain)
        return SubmitSession(**self.common(), attempt=attempt, sealed_submission=sealed)

    async def run(self, last4: str | None = None) -> StoredSession:
        """Take the pictures, hand them in, evaluate them, and return what became of the session."""
        for kind in rules.NEEDS[(await self.session()).session.flow_type]:
            await self.capture(kind)
        await self.give(await self.submission(last4))
        await self.settle()
        return await self.session()

    async def settle(self) -> None:
        """Carry out everything that was sent."""
        while self.handed or self.outcomes:
            for command in [self.handed.pop(0) for _ in list(self.handed)]:
                try:
                    await self.evaluate(command)
                except Refused:
                    continue
            for outcome in [self.outcomes.pop(0) for _ in list(self.outcomes)]:
                await self.give(outcome)

    async def session(self, session_id: SessionId = SESSION) -> StoredSession:
        """Return the session as it is kept."""
        record = await self.stores.records.get(ACME, RecordKind.SESSION, session_id)
        stored = stored_of(record.body)
        assert stored is not None
        return stored

    def cancel(self) -> CancelSession:
        """The command that cancels."""
        return CancelSession(**self.common())

    def expire(self) -> ExpireSession:
        """The command that expires."""
        return ExpireSession(**self.common())

    def passes(self, **passed: timedelta) -> None:
        """Let time pass."""
        self.now += passed["by"]

    def audited(self) -> list[str]:
        """The actions in the audit log."""
        return [row.action.value for row in self.shelves.audit.get(ACME, {}).values()]

    def emitted(self) -> list[str]:
        """The types of events that were committed."""
        return [event.type.value for event in self.shelves.events.values()]
