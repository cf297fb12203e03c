"""E-mail addresses of members: normal form, records, and binding to one member."""

import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import PLATFORM, TenantId, UserId
from schemas.people import Reviewer, ReviewerEmail
from schemas.problems import NotFound, ProblemCode, Refused
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.reviewers.context import People, keyed_hash

MAY_BIND: Final = timedelta(seconds=30)
"""How long the password may take to be stored after its address was bound."""

COUNTS_AS_BOUND: Final = timedelta(seconds=120)
"""How long a binding without a password counts; the rest allows for clock differences."""


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


async def read_email(people: People, tenant_id: TenantId, email: str) -> tuple[ReviewerEmail | None, int]:
    """Return the owner of the address by the tenant's (or the platform's) record, and the record's version.

    (None, 0) when there is no such record.
    """
    try:
        record = await people.records.get(tenant_id, RecordKind.REVIEWER_EMAIL, email_id(email, people.key))
    except NotFound:
        return None, 0
    return ReviewerEmail.from_bytes(record.body), record.version


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
        raise member_exists()
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


def member_exists() -> Refused:
    """Return the refusal of an address that belongs to another member."""
    message = "The e-mail address belongs to a member already."
    return Refused.at("/email", ProblemCode.MEMBER_EXISTS, message)
