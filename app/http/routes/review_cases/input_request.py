"""Request more input of a subject: open the session before the case is concluded (G26)."""

from dataclasses import dataclass
from typing import Final

from app.http.endpoints import Call
from app.http.ports import FrontPorts
from schemas.enums import CaseStatus
from schemas.ids import FlowId, KeyId, SessionId, derive_id
from schemas.problems import ProblemCode, Refused
from schemas.reviews import ReviewCase
from schemas.sessions import OpenSession, SessionChanged, SessionOpening, row_of
from schemas.topics import Topic
from schemas.verifications import StoredVerification
from streams.audit.rows import seal_actor
from streams.ports.records import RecordKind
from streams.privacy.sealing import seal_subject_id
from streams.sessions.queries import opening_label

ANSWER_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Opens the session of a REQUEST_INPUT; what forbids it forbids the conclusion too."""

    ports: FrontPorts

    async def __call__(
        self, call: Call, case: ReviewCase, version: int, flow_id: str | None
    ) -> tuple[str, str]:
        """Return the flow and the session; the same request about the same version opens the same session.

        Raises:
            Refused: CASE_ALREADY_CONCLUDED, a flow that is missing, or what forbids opening a session.
        """
        if case.status is CaseStatus.CONCLUDED:
            raise Refused.because(ProblemCode.CASE_ALREADY_CONCLUDED, "The case was concluded already.")
        flow = flow_id or await self._flow_of(call, case)
        if flow is None:
            message = "Name the flow that asks the subject again; it came without one."
            raise Refused.at("/flow_id", ProblemCode.VALIDATION_FAILED, message)
        command = await self._open_session(call, case, version, flow)
        opened = await self.ports.request_reply.request(
            Topic.SESSION_COMMANDS, command.session_id, command, SessionChanged, ANSWER_S
        )
        return flow, opened.session_id

    async def _open_session(self, call: Call, case: ReviewCase, version: int, flow: str) -> OpenSession:
        vault, tenant_id = self.ports.stores.vault, call.tenant_id
        session_id = SessionId(derive_id("vs", tenant_id, case.review_case_id, str(version), flow))
        label = opening_label(session_id)
        return OpenSession(
            tenant_id=tenant_id,
            session_id=session_id,
            actor=await seal_actor(vault, tenant_id, call.actor),
            requested_at=self.ports.clock(),
            subject_id=await seal_subject_id(vault, tenant_id, case.subject_id),
            flow_id=FlowId(flow),
            livemode=case.livemode,
            key_id=KeyId(call.person.reviewer_id),
            sealed_opening=await vault.seal(tenant_id, case.subject_id, label, SessionOpening().to_bytes()),
            fingerprint=derive_id("fp", case.review_case_id, flow),
        )

    async def _flow_of(self, call: Call, case: ReviewCase) -> str | None:
        """Return the flow of the subject's session, None for a direct verification or a transaction."""
        records = self.ports.stores.records
        if case.verification_id is None:
            return None
        claimed = await records.get(call.tenant_id, RecordKind.VERIFICATION, case.verification_id)
        session_id = StoredVerification.from_bytes(claimed.body).session_id
        row = await records.get(call.tenant_id, RecordKind.SESSION, session_id)
        return row_of(row.body).flow_id
