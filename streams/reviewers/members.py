"""Store a tenant's members: find by id or e-mail address, add, and change with optimistic locking."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from schemas.audit import AuditEvent
from schemas.ids import PLATFORM, TenantId, UserId
from schemas.people import Reviewer, ReviewerEmail
from schemas.problems import NotFound
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.reviewers.addresses import bind_address, email_record, member_exists, read_email
from streams.reviewers.context import People

MEMBERS_INDEX: Final = ("all", "reviewer")
"""Lists a tenant's members."""


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member and the version of its record."""

    reviewer: Reviewer
    version: int


@dataclass(frozen=True, slots=True)
class Amended:
    """A changed member with the audit rows and new records committed with it."""

    reviewer: Reviewer
    rows: tuple[AuditEvent, ...] = ()
    records: tuple[Record, ...] = ()


Amend = Callable[[Reviewer], Awaitable[Amended]]
"""Return the changed member; called again after a conflict. Its exceptions propagate."""


def reviewer_record(reviewer: Reviewer, version: int) -> Record:
    """Return the member's record."""
    return Record(
        tenant_id=reviewer.tenant_id,
        kind=RecordKind.REVIEWER,
        id=reviewer.reviewer_id,
        body=reviewer.to_bytes(),
        created_at=reviewer.created_at,
        version=version,
        indexes=() if reviewer.withdrawn else (MEMBERS_INDEX,),
    )


async def load_member(records: Records, tenant_id: TenantId, reviewer_id: UserId) -> StoredMember:
    """Return the member, or raise `NotFound`; a withdrawn one is not found."""
    record = await records.get(tenant_id, RecordKind.REVIEWER, reviewer_id)
    reviewer = Reviewer.from_bytes(record.body)
    if reviewer.withdrawn:
        raise NotFound(reviewer_id)
    return StoredMember(reviewer, record.version)


async def find_by_email(people: People, email: str) -> StoredMember | None:
    """Return the member of any tenant who signs in with this address; None costs as many reads (S27).

    A member whose invitation is not redeemed is not found.
    """
    owner, _ = await read_email(people, PLATFORM, email)
    found = await _load_owner(people, owner or ReviewerEmail(tenant_id=PLATFORM, reviewer_id=None))
    return None if found is None or found.reviewer.password_hash is None else found


async def find_in_tenant(people: People, tenant_id: TenantId, email: str) -> StoredMember:
    """Return the tenant's member with this address, or raise `NotFound`."""
    owner, _ = await read_email(people, tenant_id, email)
    found = None if owner is None else await _load_owner(people, owner)
    if found is None:
        raise NotFound(email)
    return found


async def _load_owner(people: People, owner: ReviewerEmail) -> StoredMember | None:
    try:
        return await load_member(people.records, owner.tenant_id, owner.reviewer_id or UserId("nobody"))
    except NotFound:
        return None


async def add_member(
    people: People, reviewer: Reviewer, rows: Sequence[AuditEvent], further: Sequence[Record] = ()
) -> bool:
    """Add a member with its audit rows and further new records, such as a one-time token.

    A member with a password is bound to its address at once; one without, when it redeems its invitation,
    so whether another tenant's member has the address makes no difference here.

    Returns False when this very member was added before, by an earlier try of the same request.

    Raises:
        Refused: MEMBER_EXISTS; the address belongs to another member of the tenant, or the member has a
            password and signs in with an address that another tenant's member signs in with.
    """
    if reviewer.password_hash is not None:
        await bind_address(people, reviewer)
    while True:
        owner, version = await read_email(people, reviewer.tenant_id, reviewer.email)
        if owner is not None and owner.reviewer_id is not None:
            if owner.reviewer_id == reviewer.reviewer_id:
                return False
            raise member_exists()
        finding = email_record(reviewer, people.key, version + 1)
        records = (finding, reviewer_record(reviewer, 1), *further)
        with suppress(Conflict):  # the address changed concurrently: read again
            if (await people.commit(Change(reviewer.tenant_id, records, tuple(rows)))).won:
                return True


async def amend(people: People, tenant_id: TenantId, reviewer_id: UserId, change: Amend) -> Reviewer:
    """Change a member, retrying on conflict.

    Returns the member as it stands then. When the change leaves it as it was and writes nothing,
    nothing is committed.

    Raises:
        NotFound: The tenant has no such member.
    """
    while True:
        stored = await load_member(people.records, tenant_id, reviewer_id)
        amended = await change(stored.reviewer)
        if amended == Amended(stored.reviewer):
            return stored.reviewer
        records = (reviewer_record(amended.reviewer, stored.version + 1), *amended.records)
        try:
            committed = await people.commit(Change(tenant_id, records, amended.rows))
        except Conflict:
            continue  # changed concurrently
        if committed.won:
            return amended.reviewer
