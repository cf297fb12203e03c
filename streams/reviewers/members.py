"""Store a tenant's members: find by id or e-mail address, add, and change with optimistic locking."""

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.audit import AuditEvent
from schemas.ids import PLATFORM, TenantId, UserId
from schemas.people import Reviewer, ReviewerEmail
from schemas.problems import NotFound, ProblemCode, Refused
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.reviewers.context import People, keyed_hash

MEMBERS_INDEX: Final = ("all", "reviewer")
"""Lists a tenant's members."""

MAY_BIND: Final = timedelta(seconds=30)
"""How long the password may take to be stored after its address was bound."""

COUNTS_AS_BOUND: Final = timedelta(seconds=120)
"""How long a binding without a password counts; the rest allows for clock differences."""


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


def normal_email(email: str) -> str:
    """Return the normal form of an address: trimmed, NFC, in lower case."""
    return unicodedata.normalize("NFC", email.strip()).lower()


def email_record(reviewer: Reviewer, key: bytes, version: int = 1) -> Record:
    """Return the record that maps the hashed address to the member within its tenant.

    The record of a withdrawn member says that the address is free again.
    """
    reviewer_id = None if reviewer.withdrawn else reviewer.reviewer_id
    owner = ReviewerEmail(tenant_id=reviewer.tenant_id, reviewer_id=reviewer_id)
    return Record(
        tenant_id=reviewer.tenant_id,
        kind=RecordKind.REVIEWER_EMAIL,
        id=email_id(reviewer.email, key),
        body=owner.to_bytes(),
        created_at=reviewer.created_at,
        version=version,
    )


def email_id(email: str, key: bytes) -> str:
    """Return the id of the record that finds a member by this address."""
    return keyed_hash(key, "email", normal_email(email))


async def load_member(records: Records, tenant_id: TenantId, reviewer_id: UserId) -> StoredMember:
    """Return the member, or raise `NotFound`; a withdrawn one is not found."""
    record = await records.get(tenant_id, RecordKind.REVIEWER, reviewer_id)
    reviewer = Reviewer.from_bytes(record.body)
    if reviewer.withdrawn:
        raise NotFound(reviewer_id)
    return StoredMember(reviewer, record.version)


async def read_email(people: People, tenant_id: TenantId, email: str) -> tuple[ReviewerEmail | None, int]:
    """Return the owner of the address by the tenant's (or the platform's) record, and the record's version.

    (None, 0) when there is no such record.
    """
    try:
        record = await people.records.get(tenant_id, RecordKind.REVIEWER_EMAIL, email_id(email, people.key))
    except NotFound:
        return None, 0
    return ReviewerEmail.from_bytes(record.body), record.version


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
            raise _exists()
        finding = email_record(reviewer, people.key, version + 1)
        records = (finding, reviewer_record(reviewer, 1), *further)
        with suppress(Conflict):  # the address changed concurrently: read again
            if (await people.commit(Change(reviewer.tenant_id, records, tuple(rows)))).won:
                return True


@dataclass(frozen=True, slots=True)
class Binding:
    """A bound address, and until when the password must be stored."""

    before: datetime | None
    """None: without limit, the member has a password already."""


async def require_unbound(people: People, reviewer: Reviewer) -> tuple[bool, int]:
    """Raise if another member signs in with the address, or is about to.

    Returns whether the address is bound to this member, and the version of the record that says so.

    Raises:
        Refused: MEMBER_EXISTS.
    """
    owner, version = await read_email(people, PLATFORM, reviewer.email)
    if owner is None:
        return False, version
    if owner.reviewer_id == reviewer.reviewer_id:
        return True, version
    if await _is_bound(people, owner):
        raise _exists()
    return False, version


async def _is_bound(people: People, owner: ReviewerEmail) -> bool:
    """Return whether the member has a password or is about to get its first."""
    try:
        record = await people.records.get(
            owner.tenant_id, RecordKind.REVIEWER, owner.reviewer_id or UserId("nobody")
        )
        reviewer = Reviewer.from_bytes(record.body)
    except NotFound:
        reviewer = None  # being added just now, or its process died
    if reviewer is not None and (reviewer.withdrawn or reviewer.password_hash is not None):
        return not reviewer.withdrawn
    return owner.bound_at is not None and people.clock() < owner.bound_at + COUNTS_AS_BOUND


async def bind_address(people: People, reviewer: Reviewer) -> Binding:
    """Bind the address to this member; from then on no other member gets a password under it.

    Of members of several tenants who redeem at once the record's version lets one through. A binding that
    no password followed, because its process died, ends by itself.

    Raises:
        Refused: MEMBER_EXISTS; another member signs in with the address.
    """
    while True:
        bound, version = await require_unbound(people, reviewer)
        if bound and reviewer.password_hash is not None:
            return Binding(None)
        now = people.clock()
        body = ReviewerEmail(tenant_id=reviewer.tenant_id, reviewer_id=reviewer.reviewer_id, bound_at=now)
        own = email_id(reviewer.email, people.key)
        record = Record(PLATFORM, RecordKind.REVIEWER_EMAIL, own, body.to_bytes(), now, version=version + 1)
        with suppress(Conflict):  # bound concurrently: read again
            if (await people.commit(Change(reviewer.tenant_id, (record,)))).won:
                return Binding(now + MAY_BIND)


def _exists() -> Refused:
    message = "The e-mail address belongs to a member already."
    return Refused.at("/email", ProblemCode.MEMBER_EXISTS, message)


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
