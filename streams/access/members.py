"""A tenant's members as they are kept: found by id or by e-mail address, added, and changed one at a time."""

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.audit import AuditEvent
from schemas.ids import PLATFORM, TenantId, UserId
from schemas.people import Reviewer, ReviewerEmail
from schemas.problems import NotFound, ProblemCode, Refused
from streams.access.people import People, keyed_hash
from streams.ports import Change, Conflict, Record, RecordKind, Records

MEMBERS_INDEX: Final = ("all", "reviewer")
"""Lists a tenant's members."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A member as read, with the version a change of it must follow."""

    reviewer: Reviewer
    version: int


@dataclass(frozen=True, slots=True)
class Amended:
    """A member as it shall be, and what is committed with it; every further record is a new one."""

    reviewer: Reviewer
    rows: tuple[AuditEvent, ...] = ()
    records: tuple[Record, ...] = ()


Amend = Callable[[Reviewer], Awaitable[Amended]]
"""Tells how a member changes; asked again when somebody else changed it first. What it raises is raised."""


def reviewer_record(reviewer: Reviewer, version: int) -> Record:
    """Return the member as it is kept, with its tenant."""
    return Record(
        tenant_id=reviewer.tenant_id,
        kind=RecordKind.REVIEWER,
        id=reviewer.reviewer_id,
        body=reviewer.to_bytes(),
        created_at=reviewer.created_at,
        version=version,
        indexes=(MEMBERS_INDEX,),
    )


def normal_email(email: str) -> str:
    """Return the one form under which an address is known: trimmed, NFC, in lower case."""
    return unicodedata.normalize("NFC", email.strip()).lower()


def email_record(reviewer: Reviewer, key: bytes) -> Record:
    """Return what finds the member by address, of all tenants; the key of the record does not show it."""
    owner = ReviewerEmail(tenant_id=reviewer.tenant_id, reviewer_id=reviewer.reviewer_id)
    return Record(
        tenant_id=PLATFORM,
        kind=RecordKind.REVIEWER_EMAIL,
        id=email_id(reviewer.email, key),
        body=owner.to_bytes(),
        created_at=reviewer.created_at,
    )


def email_id(email: str, key: bytes) -> str:
    """Return the id of the record that finds a member by this address."""
    return keyed_hash(key, "email", normal_email(email))


async def load_member(records: Records, tenant_id: TenantId, reviewer_id: UserId) -> Kept:
    """Return the member, or raise `NotFound`."""
    record = await records.get(tenant_id, RecordKind.REVIEWER, reviewer_id)
    return Kept(Reviewer.from_bytes(record.body), record.version)


async def find_by_email(people: People, email: str) -> Kept | None:
    """Return the member with this address, of whatever tenant; None costs as many reads (S27)."""
    try:
        record = await people.records.get(PLATFORM, RecordKind.REVIEWER_EMAIL, email_id(email, people.key))
        owner = ReviewerEmail.from_bytes(record.body)
    except NotFound:
        owner = ReviewerEmail(tenant_id=PLATFORM, reviewer_id=UserId("nobody"))
    try:
        return await load_member(people.records, owner.tenant_id, owner.reviewer_id)
    except NotFound:
        return None


async def add_member(
    people: People, reviewer: Reviewer, rows: Sequence[AuditEvent], further: Sequence[Record] = ()
) -> bool:
    """Add a member with its audit rows and further new records, such as a one-time token.

    Returns False when this very member was added before, by an earlier try of the same request.

    Raises:
        Refused: MEMBER_EXISTS; the address belongs to another member, of this or another tenant.
    """
    finding = email_record(reviewer, people.key)
    records = (finding, reviewer_record(reviewer, 1), *further)
    committed = await people.commit(Change(reviewer.tenant_id, records, tuple(rows)))
    if not committed.won and committed.record.body != finding.body:
        message = "The e-mail address belongs to a member already."
        raise Refused.at("/email", ProblemCode.MEMBER_EXISTS, message)
    return committed.won


async def amend(people: People, tenant_id: TenantId, reviewer_id: UserId, change: Amend) -> Reviewer:
    """Change a member; its version decides, and who loses looks again.

    Returns the member as it stands then. When the change leaves it as it was and writes nothing,
    nothing is committed.

    Raises:
        NotFound: The tenant has no such member.
    """
    while True:
        kept = await load_member(people.records, tenant_id, reviewer_id)
        amended = await change(kept.reviewer)
        if amended == Amended(kept.reviewer):
            return kept.reviewer
        records = (reviewer_record(amended.reviewer, kept.version + 1), *amended.records)
        try:
            committed = await people.commit(Change(tenant_id, records, amended.rows))
        except Conflict:
            continue  # somebody else changed the member just now
        if committed.won:
            return amended.reviewer
