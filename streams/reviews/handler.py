"""Execute the commands about review cases; the case's actor is the only writer (G42, G43, G87)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.enums import CaseStatus, EvidenceKind, RetentionPolicy
from schemas.events import DecisionEvent, EventType
from schemas.ids import DecisionId, TenantId, UserId
from schemas.people import PERMISSIONS_OF, Permission, Reviewer
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.reviews import (
    AppealKey,
    AssignCase,
    CaseChanged,
    CaseCommand,
    CaseCommandBase,
    ConcludeCase,
    Conclusion,
    OpenAppeal,
    ReopenCase,
    ReviewCase,
    StoredCase,
)
from schemas.tenant_settings import TenantSettings
from schemas.verifications import StoredVerification
from streams.aggregate import (
    Aggregates,
    AnsweredRequests,
    Pause,
    key_reused,
    not_found,
    retry_conflicts,
    with_request,
)
from streams.audit.rows import open_actor
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Record, RecordKind, Records
from streams.ports.stores import Stores, WorkingState
from streams.reviews import rules
from streams.reviews.decisions import superseded
from streams.reviews.dispositions import CaseDispositions
from streams.reviews.events import (
    Move,
    case_events,
    keyed,
    moved,
    note_of,
    row_of,
    session_after,
    verification_event,
    verification_record,
)
from streams.reviews.transactions import transaction_effects
from streams.verification import records as verification_records
from streams.verification import review_case
from streams.verification.policy import VerificationPolicy

IMAGES: Final = frozenset({EvidenceKind.IMAGE, EvidenceKind.SELFIE, EvidenceKind.PORTRAIT})
"""Evidence a reviewer must have viewed, where the tenant requires it."""

_NEEDED: Final[Mapping[type[CaseCommandBase], Permission]] = {
    ConcludeCase: Permission.CASES_CONCLUDE,
    ReopenCase: Permission.CASES_OVERTURN,
}
"""The permission of each command that needs more than CASES_WORK; the routes require it too."""


class ChangeCase:
    """Execute each command about a case once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        policy: VerificationPolicy,
        settings: Callable[[TenantId], Awaitable[TenantSettings]],
        clock: Callable[[], datetime],
        state: WorkingState[AnsweredRequests],
        announcer: EventPublisher,
        dispositions: CaseDispositions,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._dispositions = dispositions
        self._stores = stores
        self._policy = policy
        self._settings = settings
        self._clock = clock
        self._cases = Aggregates(stores.journal, announcer, state)
        self._pause = pause

    async def __call__(self, message: CaseCommand) -> CaseChanged:
        """Change the case as the command says; the result is in the store.

        Raises:
            Refused: NOT_FOUND, CASE_ALREADY_CONCLUDED, CASE_CLAIMED, SECOND_REVIEWER_MUST_DIFFER,
                EVIDENCE_NOT_VIEWED, PERMISSION_DENIED, PRECONDITION_FAILED, IDEMPOTENCY_KEY_REUSED, or what
                is wrong with the command.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: The case, or what it decides, changed at every attempt.
        """
        command = message.root
        if self._cases.has_answered(command.tenant_id, command.review_case_id, _id(command)):
            return CaseChanged(review_case_id=command.review_case_id)
        if isinstance(command, OpenAppeal):
            return await retry_conflicts(lambda: self._appeal(command), self._pause)
        return await retry_conflicts(lambda: self._change(command), self._pause)

    async def _require_permitted(self, command: CaseCommandBase) -> Reviewer:
        """Return the acting member, checking the permission again since the front end did.

        Raises:
            Refused: PERMISSION_DENIED; no active member of the tenant has the role for it now.
        """
        member = await self._member(command.tenant_id, UserId(command.actor.actor_id or ""))
        needed = _NEEDED.get(type(command), Permission.CASES_WORK)
        if member is None or not member.active or needed not in PERMISSIONS_OF[member.role]:
            message = f"This needs an active member who holds the permission {needed} now."
            raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
        if (
            not isinstance(command, AssignCase)
            and getattr(command, "reviewer_id", None) != member.reviewer_id
        ):
            raise Refused.because(ProblemCode.PERMISSION_DENIED, "Nobody acts in a colleague's name.")
        return member

    async def _change(self, command: Any) -> CaseChanged:
        answered = CaseChanged(review_case_id=command.review_case_id)
        record = await self._find(command.tenant_id, RecordKind.REVIEW_CASE, command.review_case_id)
        stored = StoredCase.from_bytes(record.body)
        if _id(command) in stored.requests:
            self._cases.remember(command.tenant_id, command.review_case_id, stored.requests)
            return answered
        member = await self._require_permitted(command)
        move = await self._move(command, member, stored, to_milliseconds(self._clock()))
        if isinstance(command, ConcludeCase) and command.seen not in {None, record.version}:
            message = "The case has another version now; read it again."
            raise Refused.because(ProblemCode.PRECONDITION_FAILED, message)
        await self._commit(command, move, record)
        return answered

    async def _move(
        self, command: CaseCommandBase, member: Reviewer, stored: StoredCase, now: datetime
    ) -> Move:
        if isinstance(command, ConcludeCase):
            return await self._conclude(command, member, stored, now)
        if isinstance(command, AssignCase):
            await self._require_member(command.tenant_id, command.reviewer_id)
        return moved(command, stored, now)

    async def _conclude(
        self, command: ConcludeCase, member: Reviewer, stored: StoredCase, now: datetime
    ) -> Move:
        settings = await self._settings(command.tenant_id)
        conclusion = Conclusion(
            reviewer_id=command.reviewer_id,
            outcome=command.outcome,
            reason_codes=command.reason_codes,
            note=command.sealed_note,
            concluded_at=now,
            flow_id=command.flow_id,
            session_id=command.session_id,
            dispositions=command.dispositions,
        )
        await self._dispositions.check(command.tenant_id, stored.case, conclusion)
        viewed = not settings.require_evidence_view or await self._all_viewed(command, stored.case)
        oneself = rules.is_about(stored.case.subject_id, member)
        overturns = command.may_overturn and Permission.CASES_OVERTURN in PERMISSIONS_OF[member.role]
        deciding = rules.Deciding(conclusion, overturns, settings.four_eyes, viewed, oneself)
        after = rules.concluded(stored, deciding)
        said = {"outcome": command.outcome, "reason_codes": list(command.reason_codes)}
        case_id, status = command.review_case_id, after.case.status
        if status is CaseStatus.AWAITING_SECOND:
            detail = f"Review case {case_id} was concluded by a first person; a second one must agree."
            return Move(after, AuditAction.CASE_FIRST_CONCLUDED, detail, said=said)
        if status is CaseStatus.ESCALATED:
            detail = f"Two people disagreed on review case {case_id}; it was escalated."
            return Move(after, AuditAction.CASE_ESCALATED, detail, EventType.CASE_ESCALATED, said)
        detail = f"Review case {case_id} was concluded with {command.outcome}."
        return Move(after, AuditAction.CASE_CONCLUDED, detail, EventType.CASE_CONCLUDED, said)

    async def _all_viewed(self, command: ConcludeCase, case: ReviewCase) -> bool:
        """Return whether the reviewer viewed every stored image of the verification."""
        if case.verification_id is None:
            return True
        record = await self._find(command.tenant_id, RecordKind.VERIFICATION, case.verification_id)
        verification = StoredVerification.from_bytes(record.body).verification
        document = verification.document.evidence if verification.document else ()
        wanted = {
            one.id
            for one in (*verification.evidence, *document)
            if one.kind in IMAGES and one.retention_policy is not RetentionPolicy.REDACTED
        }
        index = viewed_index(case.verification_id, command.reviewer_id)
        seen = await self._stores.records.page(command.tenant_id, RecordKind.ACT, index, limit=500)
        return wanted <= {record.body.decode() for record in seen}

    async def _require_member(self, tenant_id: TenantId, reviewer_id: UserId) -> None:
        member = await self._member(tenant_id, reviewer_id)
        if member is None or not member.active:
            message = "The tenant has no such active member."
            raise Refused.at("/reviewer_id", ProblemCode.VALIDATION_FAILED, message)

    async def _member(self, tenant_id: TenantId, reviewer_id: UserId) -> Reviewer | None:
        try:
            record = await self._stores.records.get(tenant_id, RecordKind.REVIEWER, reviewer_id)
        except NotFound:
            return None
        return Reviewer.from_bytes(record.body)

    async def _appeal(self, command: OpenAppeal) -> CaseChanged:
        """Open an appeal, or return the case that the key or the decision already has."""
        used = await self._used(command)
        if used is not None:
            replayed = used.request_id != _id(command)
            return CaseChanged(review_case_id=used.review_case_id, replayed=replayed)
        current = await self._find(command.tenant_id, RecordKind.VERIFICATION, command.verification_id)
        stored = StoredVerification.from_bytes(current.body)
        now = to_milliseconds(self._clock())
        due = timedelta(hours=self._policy.review_due_h)
        try:
            standing = await self._stores.records.get(
                command.tenant_id, RecordKind.REVIEW_CASE, command.review_case_id
            )
        except NotFound:
            standing = None
        if standing is not None:
            if command.key is not None:
                await self._stores.journal.commit(Change(command.tenant_id, keyed(command, now)))
            requests = StoredCase.from_bytes(standing.body).requests
            self._cases.remember(command.tenant_id, command.review_case_id, requests)
            return CaseChanged(review_case_id=command.review_case_id)
        case = rules.appeal_of(stored, command.review_case_id, now, due)
        opened = StoredCase(case=case.model_copy(update={"notes": (note_of(command, now),)}))
        record = Record(command.tenant_id, RecordKind.REVIEW_CASE, case.review_case_id, b"", now, version=0)
        detail = f"Review case {case.review_case_id} was opened by an appeal."
        move = Move(opened, AuditAction.CASE_OPENED, detail, EventType.CASE_OPENED)
        await self._commit(command, move, record, keyed(command, now))
        return CaseChanged(review_case_id=command.review_case_id)

    async def _used(self, command: OpenAppeal) -> AppealKey | None:
        """Return the first answer of the request's key, or None before its first use.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        if command.key is None:
            return None
        try:
            record = await self._stores.records.get(command.tenant_id, RecordKind.TOKEN, command.key)
        except NotFound:
            return None
        if record.fingerprint != command.fingerprint:
            raise key_reused()
        return AppealKey.from_bytes(record.body)

    async def _commit(
        self, command: CaseCommandBase, move: Move, record: Record, more: tuple[Record, ...] = ()
    ) -> None:
        """Commit the case with its effects on the verification, and publish the events."""
        requests = with_request(move.stored.requests, _id(command))
        stored = move.stored.model_copy(update={"requests": requests})
        version = record.version + 1
        changed = replace(
            record, body=stored.to_bytes(), version=version, indexes=review_case.indexes(stored.case)
        )
        actor = await open_actor(self._stores.vault, command.tenant_id, command.actor)
        effects = await self._effects(command.tenant_id, stored.case, actor)
        judged: tuple[Record, ...] = ()
        rows: tuple[AuditEvent, ...] = ()
        if move.action is AuditAction.CASE_CONCLUDED:
            judged, rows = await self._dispositions.made_by(
                command.tenant_id, stored.case, _id(command), actor, stored.case.updated_at
            )
        change = Change(
            command.tenant_id,
            (changed, *effects.records, *judged, *more),
            (row_of(command, move, actor, version, effects.decision_id), *effects.rows, *rows),
            (*case_events(command.tenant_id, move, version, effects.decision_id), *effects.events),
        )
        await self._cases.commit(change, command.review_case_id, requests)

    async def _effects(self, tenant_id: TenantId, case: ReviewCase, actor: Actor) -> "_Effects":
        """Return the case's effects on its transaction, or on its verification, session and decisions."""
        if case.transaction_id is not None:
            try:
                made = await transaction_effects(self._stores.records, tenant_id, case, actor)
            except NotFound:
                raise not_found() from None
            return _Effects(made.records, made.events, made.decision_id, made.rows)
        if case.verification_id is None:
            return _Effects()
        current = await self._find(tenant_id, RecordKind.VERIFICATION, case.verification_id)
        before = StoredVerification.from_bytes(current.body)
        after = rules.reviewed(before, case, tenant_id)
        if after == before:
            return _Effects(decision_id=before.verification.decision_id)
        records = [verification_record(current, after)]
        events: tuple[DecisionEvent, ...] = ()
        if after.verification.decision_id != before.verification.decision_id:
            records += await superseded(self._stores.records, current, before, after, case)
            events = (verification_event(tenant_id, after, case.updated_at, current.version + 1),)
        records += await self._session_records(tenant_id, after, case.updated_at)
        return _Effects(tuple(records), events, after.verification.decision_id)

    async def _session_records(
        self, tenant_id: TenantId, stored: StoredVerification, now: datetime
    ) -> list[Record]:
        try:
            current = await self._stores.records.get(tenant_id, RecordKind.SESSION, stored.session_id)
        except NotFound:
            return []
        return [session_after(current, stored, now)]

    async def _find(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        try:
            return await self._stores.records.get(tenant_id, kind, record_id)
        except NotFound:
            raise not_found() from None


@dataclass(frozen=True, slots=True)
class _Effects:
    """Further records and events of a change of a case."""

    records: tuple[Record, ...] = ()
    events: tuple[DecisionEvent, ...] = ()
    decision_id: DecisionId | None = None
    rows: tuple[AuditEvent, ...] = ()


def viewed_index(verification_id: str, reviewer_id: str) -> tuple[str, str]:
    """Return the index of a reviewer's views of a verification's evidence."""
    return "viewed", f"{verification_id}|{reviewer_id}"


async def find_decision(records: Records, tenant_id: TenantId, decision_id: str) -> Record | None:
    """Return the verification whose current decision this is, or None."""
    index = verification_records.by_decision(DecisionId(decision_id))
    found = await records.page(tenant_id, RecordKind.VERIFICATION, index, limit=1)
    return found[0] if found else None


def _id(command: CaseCommandBase) -> str:
    return command.actor.request_id
