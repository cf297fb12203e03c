"""Keep at least one active owner in each tenant, also under concurrent changes (G48, G87)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.base import Frozen, Timestamp
from schemas.ids import TenantId, UserId
from schemas.people import Reviewer, Role
from schemas.problems import NotFound, ProblemCode, Refused
from streams.ports.errors import Conflict
from streams.ports.records import Change, Position, Record, RecordKind, Records
from streams.reviewers.context import People
from streams.reviewers.members import MEMBERS_INDEX

DEPARTING_OWNERS: Final = "owners"
"""The id of the record, beside a tenant's settings, that serialises owners who leave."""

MAY_LEAVE: Final = timedelta(seconds=30)
"""How long a departing owner's change may take to be stored."""

COUNTS_AS_GONE: Final = timedelta(seconds=120)
"""How long a departing owner is not counted; the rest allows for clock differences."""

_PAGE: Final = 100


class DepartingOwners(Frozen):
    """Owners about to leave, and until when they are not counted."""

    until: Mapping[UserId, Timestamp]


@dataclass(frozen=True, slots=True)
class Departure:
    """Permission for one owner to leave, valid until `before`."""

    before: datetime


def is_owner(reviewer: Reviewer) -> bool:
    """Return whether the member counts as an owner: of that role, and not suspended."""
    return reviewer.active and reviewer.role is Role.OWNER


async def let_go(people: People, tenant_id: TenantId, reviewer_id: UserId, pointer: str) -> Departure:
    """Permit an owner to leave if another active owner stays.

    Of two owners who leave concurrently the record's version orders them, and the second sees the first.

    Raises:
        Refused: VALIDATION_FAILED at the pointer; it is the last one.
    """
    while True:
        stored, version = await _load(people.records, tenant_id)
        now = people.clock()
        gone = {one: until for one, until in stored.until.items() if until > now and one != reviewer_id}
        if not await _owners(people.records, tenant_id) - gone.keys() - {reviewer_id}:
            message = "The last active owner can neither be suspended nor get another role."
            raise Refused.at(pointer, ProblemCode.VALIDATION_FAILED, message)
        leavers = DepartingOwners(until={**gone, reviewer_id: now + COUNTS_AS_GONE})
        record = Record(
            tenant_id, RecordKind.SETTINGS, DEPARTING_OWNERS, leavers.to_bytes(), now, version=version + 1
        )
        try:
            if (await people.commit(Change(tenant_id, (record,)))).won:
                return Departure(now + MAY_LEAVE)
        except Conflict:
            continue  # another owner leaves concurrently: check again


async def _load(records: Records, tenant_id: TenantId) -> tuple[DepartingOwners, int]:
    try:
        record = await records.get(tenant_id, RecordKind.SETTINGS, DEPARTING_OWNERS)
    except NotFound:
        return DepartingOwners(until={}), 0
    return DepartingOwners.from_bytes(record.body), record.version


async def _owners(records: Records, tenant_id: TenantId) -> set[UserId]:
    """Return the tenant's current owners."""
    found: set[UserId] = set()
    before: Position | None = None
    while True:
        page = await records.page(tenant_id, RecordKind.REVIEWER, MEMBERS_INDEX, limit=_PAGE, before=before)
        members = [Reviewer.from_bytes(record.body) for record in page]
        found |= {member.reviewer_id for member in members if is_owner(member)}
        if len(page) < _PAGE:
            return found
        before = Position(page[-1].created_at, page[-1].id)
