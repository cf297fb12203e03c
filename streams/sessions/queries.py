"""Look up what opening a session needs: the flow, the subject's open session, and a reference face."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from pydantic import ValidationError

from schemas.base import rfc3339
from schemas.enums import EvidenceKind, FlowStatus, FlowType, VerificationStatus
from schemas.flows import FlowRevision, StoredFlow
from schemas.ids import EvidenceId, SessionId, TenantId, UserId
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.sessions import OpenSession, SessionOpening, SessionSlot, StoredSession, stored_of
from schemas.verifications import StoredVerification
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.privacy.sealing import subject_erased
from streams.sessions import rules
from streams.verification.records import by_subject_and_status
from streams.verification.sandbox import PREFIX

MOST_FLOWS: Final = 256
"""Flows whose parsed form is remembered, some kilobytes each."""

_PAGE: Final = 20
_MOST_LOOKED_AT: Final = 200
"""Approved verifications of one subject searched for a portrait that is still stored."""


def opening_label(session_id: SessionId) -> str:
    """Return the vault label under which the front seals `SessionOpening`."""
    return f"opening:{session_id}"


def opened_index(moment: datetime) -> tuple[str, str]:
    """Return the index of the slots whose session was opened in the month of the time."""
    return "opened", rfc3339(moment)[:7]


@lru_cache(maxsize=MOST_FLOWS)
def _read_flow(body: bytes) -> StoredFlow:
    """Return the flow of a record that was just read; it is parsed once per version."""
    return StoredFlow.from_bytes(body)


@dataclass(frozen=True, slots=True)
class Holder:
    """The session in the subject's slot under the flow, if any."""

    slot: Record | None
    stored: StoredSession | None
    """The session opened last, None when there is none."""

    def taken_by(self, command: OpenSession, now: datetime) -> Record:
        """Return the slot's record with the session about to be opened."""
        return Record(
            tenant_id=command.tenant_id,
            kind=RecordKind.SESSION_SLOT,
            id=rules.slot_id(command),
            body=SessionSlot(session_id=command.session_id).to_bytes(),
            created_at=self.slot.created_at if self.slot else now,
            version=self.slot.version + 1 if self.slot else 1,
            indexes=(opened_index(now),),
        )


class OpeningQueries:
    """Read-only queries for opening a session."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def find(self, command: OpenSession) -> Sequence[Record | None]:
        """Return the session, the flow and the slot as they stand, None for what is not there."""
        return await self._stores.records.find(
            command.tenant_id,
            (RecordKind.SESSION, command.session_id),
            (RecordKind.FLOW, command.flow_id),
            (RecordKind.SESSION_SLOT, rules.slot_id(command)),
        )

    def revision(self, command: OpenSession, record: Record | None) -> FlowRevision:
        """Return the flow's latest revision; for a preview its draft, as revision 0.

        Raises:
            Refused: NOT_FOUND, FLOW_ARCHIVED, FLOW_NOT_PUBLISHED.
        """
        if record is None:
            raise Refused.because(ProblemCode.NOT_FOUND, "No such flow for this caller.")
        flow = _read_flow(record.body).flow
        if flow.status is FlowStatus.ARCHIVED:
            raise Refused.because(ProblemCode.FLOW_ARCHIVED, "The flow is archived; it opens no sessions.")
        if command.draft is not None:
            return FlowRevision(
                revision=0,
                configuration=command.draft,
                published_at=command.requested_at,
                published_by=UserId(command.key_id),
            )
        if flow.published is None:
            raise Refused.because(ProblemCode.FLOW_NOT_PUBLISHED, "The flow was never published.")
        return flow.published

    async def holder(self, command: OpenSession, slot: Record | None) -> Holder:
        """Return the subject's slot with its session, completing an interrupted opening first."""
        if slot is None:
            return Holder(None, None)
        last = (RecordKind.SESSION, SessionSlot.from_bytes(slot.body).session_id)
        (found,) = await self._stores.records.find(command.tenant_id, last)
        if found is None:  # its commit was interrupted: committing it again writes the rest
            await self._stores.journal.commit(Change(command.tenant_id, (slot,)))
            (found,) = await self._stores.records.find(command.tenant_id, last)
        return Holder(slot, stored_of(found.body) if found is not None else None)

    async def unseal(self, command: OpenSession) -> SessionOpening:
        """Return the unsealed `SessionOpening`.

        Raises:
            Refused: VALIDATION_FAILED when the subject was erased meanwhile, STORE_FAILED when it can no
                longer be opened.
        """
        label = opening_label(command.session_id)
        try:
            plain = await self._stores.vault.open(
                command.tenant_id, command.subject_id, label, command.sealed_opening
            )
            return SessionOpening.from_bytes(plain)
        except Erased:
            raise subject_erased() from None
        except (Damaged, ValidationError):
            raise Refused.because(ProblemCode.STORE_FAILED, "The request can no longer be read.") from None

    async def reference(self, command: OpenSession, revision: FlowRevision) -> EvidenceId | None:
        """Return the portrait a BIOMETRIC session compares with; None for others (G7, G100).

        A sandbox subject needs an approved verification too, but no portrait: no model reads it. The one of
        a preview needs neither.

        Raises:
            Refused: NO_REFERENCE_FACE.
        """
        if revision.configuration.flow_type is not FlowType.BIOMETRIC or command.draft is not None:
            return None
        index = by_subject_and_status(command.livemode, command.subject_id, VerificationStatus.APPROVED)
        before: Position | None = None
        for _ in range(_MOST_LOOKED_AT // _PAGE):
            page = await self._stores.records.page(
                command.tenant_id, RecordKind.VERIFICATION, index, limit=_PAGE, before=before
            )
            for record in page:
                portrait = await self._portrait(command.tenant_id, record)
                if portrait is not None or command.subject_id.startswith(PREFIX):
                    return portrait
            if len(page) < _PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        message = "The subject has no approved verification with a portrait to compare with."
        raise Refused.because(ProblemCode.NO_REFERENCE_FACE, message)

    async def _portrait(self, tenant_id: TenantId, record: Record) -> EvidenceId | None:
        verification = StoredVerification.from_bytes(record.body).verification
        for evidence in verification.evidence:
            if evidence.kind is EvidenceKind.PORTRAIT:
                try:
                    await self._stores.evidence.get(tenant_id, evidence.id)
                except (NotFound, Erased, Damaged):
                    return None
                return evidence.id
        return None
