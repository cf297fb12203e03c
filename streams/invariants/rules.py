"""Check invariants I1 to I10 between records, events and audit rows. Pure."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from schemas.audit import AuditAction, AuditEvent
from schemas.base import Frozen
from schemas.enums import SessionStatus, TextEnum, VerificationStatus
from schemas.ids import AuditEventId, SessionId, TenantId, VerificationId, derive_id
from schemas.sessions import VerificationSession
from schemas.verifications import StoredVerification
from streams.ports.records import Position, Record
from streams.sessions.rules import MOST_ATTEMPTS, UNDER_WAY
from streams.sessions.rules import verification_id as attempt_id
from streams.verification import events, review_case
from streams.verification.records import first_decision_id

_TENANT: Final = re.compile(rb"ten_[0-9a-hjkmnp-tv-z]{26}")


class Invariant(TextEnum):
    """The invariants; `MEANING` describes them."""

    I1 = "I1"
    I2 = "I2"
    I3 = "I3"
    I4 = "I4"
    I5 = "I5"
    I6 = "I6"
    I7 = "I7"
    I8 = "I8"
    I9 = "I9"
    I10 = "I10"


MEANING: Final[Mapping[Invariant, str]] = MappingProxyType(
    {
        Invariant.I1: "Every accepted command came to an end: one decision, a refusal or a dead letter.",
        Invariant.I2: "A command that is sent again leads to the same record.",
        Invariant.I3: "Every decision has each of its audit rows once, and the audit chains are unbroken.",
        Invariant.I4: "Every decision was published, in the same words each time, and sent to each endpoint.",
        Invariant.I5: "A status moved only along allowed edges, and a final one never changed.",
        Invariant.I6: "Nothing of one tenant carries the id of another.",
        Invariant.I7: "Every verification that was answered can be read, with its session and case.",
        Invariant.I8: "Every piece of evidence opens, and no file of evidence is without a row.",
        Invariant.I9: "A planted value is in no topic, record, audit row or log.",
        Invariant.I10: "Reading the audit log page by page returns each row once, in order.",
    }
)
"""Each invariant as a sentence."""

COUNTED: Final[Mapping[Invariant, str]] = MappingProxyType(
    {
        Invariant.I1: "commands in the log",
        Invariant.I2: "commands sent again",
        Invariant.I3: "decisions",
        Invariant.I4: "decisions and deliveries to endpoints",
        Invariant.I5: "verifications",
        Invariant.I6: "verifications and deliveries to endpoints",
        Invariant.I7: "verifications and answers",
        Invariant.I8: "references to evidence and files of evidence",
        Invariant.I9: "comparisons with records of the log and files",
        Invariant.I10: "audit rows",
    }
)
"""What is counted as checked."""

NOT_BUILT: Final[Mapping[Invariant, str]] = MappingProxyType(
    {
        Invariant.I2: "it shows only when a request is sent again with its Idempotency-Key",
        Invariant.I3: "signed checkpoints",
        Invariant.I5: "flows, hosted sessions, conclusions of reviewers",
        Invariant.I6: "exports",
        Invariant.I9: "traces; core dumps are not looked at",
    }
)
"""Parts of an invariant that this version cannot check."""


class Violation(Frozen):
    """One violation of an invariant."""

    invariant: Invariant
    about: str
    """The id or position of what violates it; never a personal value."""
    found: str


def violation(invariant: Invariant, about: str, found: str) -> Violation:
    """Return a violation of the invariant."""
    return Violation(invariant=invariant, about=about, found=found)


def judge_record(tenant_id: TenantId, record: Record, first: StoredVerification) -> Iterator[Violation]:
    """Yield the violations of a verification's record; `first` is the body as first answered."""
    try:
        now = StoredVerification.from_bytes(record.body).verification
    except ValidationError:
        yield violation(Invariant.I5, record.id, "the record holds no verification")
        return
    yield from judge_tenant(tenant_id, record.id, record.body)
    if now.verification_id != record.id:
        yield violation(Invariant.I6, record.id, "its verification_id is not the one of this command")
    if first.verification.decision_id != first_decision_id(tenant_id, VerificationId(record.id)):
        yield violation(Invariant.I6, record.id, "its first decision_id is not the one of this tenant")
    if now.decision_id != first.verification.decision_id and now.review_case_id is None:
        yield violation(
            Invariant.I6, record.id, "its decision_id is not the first one, and nobody reviewed it"
        )
    if not _is_own_session(tenant_id, record.id, first.session_id):
        yield violation(Invariant.I6, record.id, "its session_id is not the one of this tenant and command")
    before = first.verification
    ended = before.status is not VerificationStatus.REVIEW_REQUIRED
    if ended and (now.status, now.decision) != (before.status, before.decision):
        yield violation(
            Invariant.I5, record.id, f"went from {before.status}, which is an end, to {now.status}"
        )


def _is_own_session(tenant_id: TenantId, verification_id: str, session_id: SessionId) -> bool:
    """Return whether the verification is direct, or an attempt of the session."""
    attempts = range(1, MOST_ATTEMPTS + 1)
    hosted = {attempt_id(tenant_id, session_id, attempt) for attempt in attempts}
    return session_id == derive_id("vs", tenant_id, verification_id) or verification_id in hosted


def judge_tenant(tenant_id: TenantId, about: str, raw: bytes) -> Iterator[Violation]:
    """Yield a violation if the bytes name another tenant."""
    others = {found for found in _TENANT.findall(raw) if found != tenant_id.encode()}
    if others:
        yield violation(Invariant.I6, about, "names another tenant")


def judge_session(stored: StoredVerification, session: VerificationSession | None) -> Iterator[Violation]:
    """Yield a violation if the session disagrees with its verification."""
    about = stored.session_id
    if session is None:
        yield violation(Invariant.I7, about, "the session of a verification cannot be read")
        return
    if session.status in UNDER_WAY:
        return  # the outcome is not recorded yet; the scheduler repeats it
    verification = stored.verification
    agreed = (verification.verification_id, SessionStatus(verification.status), verification.decision)
    if (session.verification_id, session.status, session.decision) != agreed:
        yield violation(
            Invariant.I5, about, f"the session is {session.status}, its verification {verification.status}"
        )


def judge_audit(
    tenant_id: TenantId, stored: StoredVerification, rows: Mapping[AuditEventId, AuditEvent]
) -> Iterator[Violation]:
    """Yield the audit rows of a decision that are missing or name another decision."""
    verification = stored.verification
    evaluated, *opened = events.audit_ids(tenant_id, stored)
    expected = [(evaluated, AuditAction.VERIFICATION_EVALUATED)]
    expected += [(event_id, AuditAction.CASE_OPENED) for event_id in opened]
    for event_id, action in expected:
        row = rows.get(event_id)
        about = f"{event_id} ({action} of {verification.verification_id})"
        if row is None:
            yield violation(Invariant.I3, about, "is not in the audit log")
        elif (row.action, row.decision_id, row.subject_id) != (
            action,
            verification.decision_id,
            verification.subject_id,
        ):
            yield violation(Invariant.I3, about, "names another action, decision or subject")


def judge_actions(rows: Sequence[AuditEvent]) -> Iterator[Violation]:
    """Yield decisions with more than one audit row of evaluation or of opening a case."""
    seen: dict[tuple[str, str], AuditEventId] = {}
    for row in rows:
        if row.decision_id is None or row.action not in {
            AuditAction.VERIFICATION_EVALUATED,
            AuditAction.CASE_OPENED,
        }:
            continue
        other = seen.setdefault((row.action, row.decision_id), row.event_id)
        if other != row.event_id:
            yield violation(Invariant.I3, row.event_id, f"is a second {row.action} of {row.decision_id}")


def judge_walk(rows: Sequence[AuditEvent], sealed: Collection[AuditEventId]) -> Iterator[Violation]:
    """Yield the rows that the pages have twice, out of order, or not at all.

    `sealed` are the rows in the chain before the first page was read.
    """
    seen: set[AuditEventId] = set()
    last: Position | None = None
    for row in rows:
        place = Position(row.created_at, row.event_id)
        if row.event_id in seen:
            yield violation(Invariant.I10, row.event_id, "is twice on the pages of the audit log")
        elif last is not None and (place.created_at, place.id) > (last.created_at, last.id):
            yield violation(Invariant.I10, row.event_id, "stands out of order on the pages of the audit log")
        seen.add(row.event_id)
        last = place
    for event_id in sorted(set(sealed) - seen):
        yield violation(Invariant.I10, event_id, "is in the chain and on no page of the audit log")


def case_expected(stored: StoredVerification, tenant_id: TenantId) -> str | None:
    """Return the id of the review case a decision must have opened, or None."""
    if stored.verification.status is not VerificationStatus.REVIEW_REQUIRED:
        return None
    return review_case.case_id(tenant_id, stored.verification.verification_id)


def hidden(canaries: Sequence[str]) -> tuple[tuple[bytes, ...], ...]:
    """Return the encodings to search for each planted value, in lower case."""
    return tuple(
        tuple({form.encode().lower(), json.dumps(form)[1:-1].encode().lower()})
        for form in canaries
        if form.strip()
    )


def judge_canaries(
    needles: Sequence[Sequence[bytes]], where: str, *haystacks: bytes | None
) -> Iterator[Violation]:
    """Yield the numbers of the planted values found, never the values."""
    for number, forms in enumerate(needles, start=1):
        if any(form in hay.lower() for hay in haystacks if hay for form in forms):
            yield violation(Invariant.I9, where, f"holds canary {number}")
