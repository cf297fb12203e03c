"""The use cases of review cases; the case's actor is their one writer (G42, G43, G87)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.audit import AuditAction
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
    CaseWish,
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
from streams.audit.actors import open_actor
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Record, RecordKind, Records
from streams.ports.stores import Stores, WorkingState
from streams.reviews import rules
from streams.reviews.events import (
    Move,
    case_events,
    keyed,
    moved,
    note_of,
    row_of,
    session_after,
    superseded,
    verification_event,
    verification_record,
)
from streams.verification import records as verification_records
from streams.verification import review_case
from streams.verification.policy import VerificationPolicy

IMAGES: Final = frozenset({EvidenceKind.IMAGE, EvidenceKind.SELFIE, EvidenceKind.PORTRAIT})
"""What a reviewer must have looked at, where the tenant demands it."""

_NEEDED: Final[Mapping[type[CaseWish], Permission]] = {
    ConcludeCase: Permission.CASES_CONCLUDE,
    ReopenCase: Permission.CASES_OVERTURN,
}
"""What an act on a case needs beside CASES_WORK, as the routes ask for it too."""


class ChangeCase:
    """Carries out every command about a case once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        policy: VerificationPolicy,
        settings: Callable[[TenantId], Awaitable[TenantSettings]],
        clock: Callable[[], datetime],
        state: WorkingState[AnsweredRequests],
        announcer: EventPublisher,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._stores = stores
        self._policy = policy
        self._settings = settings
        self._clock = clock
        self._cases = Aggregates(stores.journal, announcer, state)
        self._pause = pause

    async def __call__(self, command: CaseCommand) -> CaseChanged:
        """Change the case as wished; what it then is stands in the store.

        Raises:
            Refused: NOT_FOUND, CASE_ALREADY_CONCLUDED, CASE_CLAIMED, SECOND_REVIEWER_MUST_DIFFER,
                EVIDENCE_NOT_VIEWED, PERMISSION_DENIED, IDEMPOTENCY_KEY_REUSED, or what is wrong with the
                wish.
            StoreUnavailable: Nothing is known; the same command may be given again.
            Conflict: The case, or what it decides, changed at every attempt.
        """
        wish = command.root
        if self._cases.has_answered(wish.tenant_id, wish.review_case_id, _id(wish)):
            return CaseChanged(review_case_id=wish.review_case_id)
        if isinstance(wish, OpenAppeal):
            return await retry_conflicts(lambda: self._appeal(wish), self._pause)
        return await retry_conflicts(lambda: self._change(wish), self._pause)

    async def _require_permitted(self, wish: CaseWish) -> Reviewer:
        """Return the member who acts; the front let them in, and since then much may have happened.

        Raises:
            Refused: PERMISSION_DENIED; no active member of the tenant has the role for it now.
        """
        member = await self._member(wish.tenant_id, UserId(wish.actor.actor_id or ""))
        needed = _NEEDED.get(type(wish), Permission.CASES_WORK)
        if member is None or not member.active or needed not in PERMISSIONS_OF[member.role]:
            message = f"This needs an active member who holds the permission {needed} now."
            raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
        if not isinstance(wish, AssignCase) and getattr(wish, "reviewer_id", None) != member.reviewer_id:
            raise Refused.because(ProblemCode.PERMISSION_DENIED, "Nobody acts in a colleague's name.")
        return member

    async def _change(self, wish: Any) -> CaseChanged:
        answered = CaseChanged(review_case_id=wish.review_case_id)
        record = await self._find(wish.tenant_id, RecordKind.REVIEW_CASE, wish.review_case_id)
        stored = StoredCase.from_bytes(record.body)
        if _id(wish) in stored.requests:
            self._cases.remember(wish.tenant_id, wish.review_case_id, stored.requests)
            return answered
        member = await self._require_permitted(wish)
        move = await self._move(wish, member, stored, to_milliseconds(self._clock()))
        await self._commit(wish, move, record)
        return answered

    async def _move(self, wish: CaseWish, member: Reviewer, stored: StoredCase, now: datetime) -> Move:
        if isinstance(wish, ConcludeCase):
            return await self._conclude(wish, member, stored, now)
        if isinstance(wish, AssignCase):
            await self._require_member(wish.tenant_id, wish.reviewer_id)
        return moved(wish, stored, now)

    async def _conclude(
        self, wish: ConcludeCase, member: Reviewer, stored: StoredCase, now: datetime
    ) -> Move:
        settings = await self._settings(wish.tenant_id)
        conclusion = Conclusion(
            reviewer_id=wish.reviewer_id,
            outcome=wish.outcome,
            reason_codes=wish.reason_codes,
            note=wish.sealed_note,
            concluded_at=now,
            flow_id=wish.flow_id,
            session_id=wish.session_id,
        )
        viewed = not settings.require_evidence_view or await self._all_viewed(wish, stored.case)
        oneself = rules.is_about(stored.case.subject_id, member)
        overturns = wish.may_overturn and Permission.CASES_OVERTURN in PERMISSIONS_OF[member.role]
        deciding = rules.Deciding(conclusion, overturns, settings.four_eyes, viewed, oneself)
        after = rules.concluded(stored, deciding)
        said = {"outcome": wish.outcome, "reason_codes": list(wish.reason_codes)}
        case_id, status = wish.review_case_id, after.case.status
        if status is CaseStatus.AWAITING_SECOND:
            detail = f"Review case {case_id} was concluded by a first person; a second one must agree."
            return Move(after, AuditAction.CASE_FIRST_CONCLUDED, detail, said=said)
        if status is CaseStatus.ESCALATED:
            detail = f"Two people disagreed on review case {case_id}; it was escalated."
            return Move(after, AuditAction.CASE_ESCALATED, detail, EventType.CASE_ESCALATED, said)
        detail = f"Review case {case_id} was concluded with {wish.outcome}."
        return Move(after, AuditAction.CASE_CONCLUDED, detail, EventType.CASE_CONCLUDED, said)

    async def _all_viewed(self, wish: ConcludeCase, case: ReviewCase) -> bool:
        """Tell whether the reviewer looked at every image of the verification that is still kept."""
        if case.verification_id is None:
            return True
        record = await self._find(wish.tenant_id, RecordKind.VERIFICATION, case.verification_id)
        verification = StoredVerification.from_bytes(record.body).verification
        document = verification.document.evidence if verification.document else ()
        wanted = {
            one.id
            for one in (*verification.evidence, *document)
            if one.kind in IMAGES and one.retention_policy is not RetentionPolicy.REDACTED
        }
        index = viewed_index(case.verification_id, wish.reviewer_id)
        seen = await self._stores.records.page(wish.tenant_id, RecordKind.ACT, index, limit=500)
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

    async def _appeal(self, wish: OpenAppeal) -> CaseChanged:
        """Open the case, or answer with the one that the key or the decision has already."""
        used = await self._used(wish)
        if used is not None:
            replayed = used.request_id != _id(wish)
            return CaseChanged(review_case_id=used.review_case_id, replayed=replayed)
        held = await self._find(wish.tenant_id, RecordKind.VERIFICATION, wish.verification_id)
        stored = StoredVerification.from_bytes(held.body)
        now = to_milliseconds(self._clock())
        due = timedelta(hours=self._policy.review_due_h)
        try:
            standing = await self._stores.records.get(
                wish.tenant_id, RecordKind.REVIEW_CASE, wish.review_case_id
            )
        except NotFound:
            standing = None
        if standing is not None:
            if wish.key is not None:
                await self._stores.journal.commit(Change(wish.tenant_id, keyed(wish, now)))
            requests = StoredCase.from_bytes(standing.body).requests
            self._cases.remember(wish.tenant_id, wish.review_case_id, requests)
            return CaseChanged(review_case_id=wish.review_case_id)
        case = rules.appeal_of(stored, wish.review_case_id, now, due)
        opened = StoredCase(case=case.model_copy(update={"notes": (note_of(wish, now),)}))
        record = Record(wish.tenant_id, RecordKind.REVIEW_CASE, case.review_case_id, b"", now, version=0)
        detail = f"Review case {case.review_case_id} was opened by an appeal."
        move = Move(opened, AuditAction.CASE_OPENED, detail, EventType.CASE_OPENED)
        await self._commit(wish, move, record, keyed(wish, now))
        return CaseChanged(review_case_id=wish.review_case_id)

    async def _used(self, wish: OpenAppeal) -> AppealKey | None:
        """Return what the request's key was answered with, None before its first use.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        if wish.key is None:
            return None
        try:
            record = await self._stores.records.get(wish.tenant_id, RecordKind.TOKEN, wish.key)
        except NotFound:
            return None
        if record.fingerprint != wish.fingerprint:
            raise key_reused()
        return AppealKey.from_bytes(record.body)

    async def _commit(
        self, wish: CaseWish, move: Move, record: Record, more: tuple[Record, ...] = ()
    ) -> None:
        """Commit the case with what it makes of its verification, and tell."""
        requests = with_request(move.stored.requests, _id(wish))
        stored = move.stored.model_copy(update={"requests": requests})
        version = record.version + 1
        changed = replace(
            record, body=stored.to_bytes(), version=version, indexes=review_case.indexes(stored.case)
        )
        effects = await self._effects(wish.tenant_id, stored.case)
        actor = await open_actor(self._stores.vault, wish.tenant_id, wish.actor)
        change = Change(
            wish.tenant_id,
            (changed, *effects.records, *more),
            (row_of(wish, move, actor, version, effects.decision_id),),
            (*case_events(wish.tenant_id, move, version, effects.decision_id), *effects.events),
        )
        await self._cases.commit(change, wish.review_case_id, requests)

    async def _effects(self, tenant_id: TenantId, case: ReviewCase) -> "_Effects":
        """Return what the case makes of its verification, its session row and its decision records."""
        if case.verification_id is None:
            return _Effects()
        held = await self._find(tenant_id, RecordKind.VERIFICATION, case.verification_id)
        before = StoredVerification.from_bytes(held.body)
        after = rules.reviewed(before, case, tenant_id)
        if after == before:
            return _Effects(decision_id=before.verification.decision_id)
        records = [verification_record(held, after)]
        events: tuple[DecisionEvent, ...] = ()
        if after.verification.decision_id != before.verification.decision_id:
            records += superseded(tenant_id, held, before, after, case)
            events = (verification_event(tenant_id, after, case.updated_at, held.version + 1),)
        records += await self._session_records(tenant_id, after, case.updated_at)
        return _Effects(tuple(records), events, after.verification.decision_id)

    async def _session_records(
        self, tenant_id: TenantId, stored: StoredVerification, now: datetime
    ) -> list[Record]:
        try:
            held = await self._stores.records.get(tenant_id, RecordKind.SESSION, stored.session_id)
        except NotFound:
            return []
        return [session_after(held, stored, now)]

    async def _find(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        try:
            return await self._stores.records.get(tenant_id, kind, record_id)
        except NotFound:
            raise not_found() from None


@dataclass(frozen=True, slots=True)
class _Effects:
    """What a change of a case changes beside it."""

    records: tuple[Record, ...] = ()
    events: tuple[DecisionEvent, ...] = ()
    decision_id: DecisionId | None = None


def viewed_index(verification_id: str, reviewer_id: str) -> tuple[str, str]:
    """Return the place under which a reviewer's looks at a verification's evidence are listed."""
    return "viewed", f"{verification_id}|{reviewer_id}"


async def find_decision(records: Records, tenant_id: TenantId, decision_id: str) -> Record | None:
    """Return the verification whose standing decision this is, None when there is none."""
    index = verification_records.by_decision(DecisionId(decision_id))
    found = await records.page(tenant_id, RecordKind.VERIFICATION, index, limit=1)
    return found[0] if found else None


def _id(wish: CaseWish) -> str:
    return wish.actor.request_id
