"""Add members: by invitation with a one-time token, or with a password from the command line (G87, S28)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.ids import ALPHABET, TenantId, UserId, derive_id
from schemas.people import Reviewer, Role, TokenPurpose
from schemas.problems import NotFound, ProblemCode, Refused
from streams.audit.rows import write_row
from streams.ports.records import Record, RecordKind
from streams.reviewers.addresses import normal_email
from streams.reviewers.context import People
from streams.reviewers.members import Amended, add_member, amend, find_in_tenant, load_member
from streams.reviewers.tokens import IssuedToken, issue_token
from streams.tenants.handler import RequestName

PASSWORD_GROUPS: Final = 5
GROUP_CHARS: Final = 5
"""25 characters of five random bits: 125 bits, in groups so that it can be read aloud."""


@dataclass(frozen=True, slots=True)
class NewMember:
    """The member to add."""

    tenant_id: TenantId
    email: str
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invited member, with the token that is shown once."""

    reviewer: Reviewer
    token: str | None = field(repr=False)
    """None: the request was answered before (G82)."""
    expires_at: datetime | None

    @property
    def replayed(self) -> bool:
        """Whether this was answered before."""
        return self.token is None


async def invite(people: People, member: NewMember, request: RequestName, actor: Actor) -> Invitation:
    """Add a member without a password, and create the token to set one with.

    The answer is the same whether or not a member of another tenant has the address: only when the
    invitation is redeemed the address is bound.

    Raises:
        Refused: MEMBER_EXISTS, in this tenant; IDEMPOTENCY_KEY_REUSED.
    """
    first = await _answered(people, member.tenant_id, request)
    if first is not None:
        return first
    reviewer_id = UserId(derive_id("usr", request.id, normal_email(member.email)))
    issued = issue_token(people, _reviewer(people, member, reviewer_id), TokenPurpose.INVITATION)
    reviewer = issued.reviewer
    marker = Record(
        member.tenant_id, RecordKind.TOKEN, request.id, reviewer_id.encode(), reviewer.created_at,
        fingerprint=request.fingerprint,
    )  # fmt: skip
    row = _invited(people, reviewer, actor, "A member was invited.")
    if await add_member(people, reviewer, (row,), (issued.record, marker)):
        return Invitation(reviewer, issued.text, issued.expires_at)
    first = await _answered(people, member.tenant_id, request)
    return first or await _first(people, member.tenant_id, reviewer_id)


async def _answered(people: People, tenant_id: TenantId, request: RequestName) -> Invitation | None:
    """Return the member the same request added, as first answered, or None.

    Raises:
        Refused: IDEMPOTENCY_KEY_REUSED.
    """
    try:
        marker = await people.records.get(tenant_id, RecordKind.TOKEN, request.id)
    except NotFound:
        return None
    request.require_same(marker.fingerprint)
    return await _first(people, tenant_id, UserId(marker.body.decode()))


async def _first(people: People, tenant_id: TenantId, reviewer_id: UserId) -> Invitation:
    added = await people.records.get(tenant_id, RecordKind.REVIEWER, reviewer_id)
    return Invitation(Reviewer.from_bytes(added.first_body), None, None)


async def add_with_password(people: People, member: NewMember, actor: Actor) -> tuple[Reviewer, str]:
    """Add a member with a random password, and return both; the password is shown once.

    Raises:
        Refused: MEMBER_EXISTS.
        Overloaded: Too many passwords are being hashed.
    """
    password = draw_password(people)
    reviewer = _reviewer(people, member, UserId(people.new_id("usr"))).model_copy(
        update={
            "password_hash": await people.passwords.hash(password),
            "password_changed_at": people.clock(),
        }
    )
    row = _invited(people, reviewer, actor, "A member was added with a password.")
    await add_member(people, reviewer, (row,))
    return reviewer, password


def draw_password(people: People) -> str:
    """Return a random password."""
    drawn = people.draw(PASSWORD_GROUPS * GROUP_CHARS)
    text = "".join(ALPHABET[byte & 31] for byte in drawn)
    return "-".join(text[start : start + GROUP_CHARS] for start in range(0, len(text), GROUP_CHARS))


async def give_reset_token(people: People, tenant_id: TenantId, email: str, actor: Actor) -> IssuedToken:
    """Create a token to set a new password with; until then the current password stays valid.

    Raises:
        NotFound: The tenant has no member with this address.
        Refused: VALIDATION_FAILED; the member is suspended.
    """
    found = await find_in_tenant(people, tenant_id, email)
    row_id, drawn = people.new_id("aud"), issue_token(people, found.reviewer, TokenPurpose.PASSWORD_RESET)

    async def with_token(reviewer: Reviewer) -> Amended:
        if not reviewer.active:
            raise Refused.because(ProblemCode.VALIDATION_FAILED, "The member is suspended.")
        changed = reviewer.model_copy(update={"token_id": drawn.reviewer.token_id})
        row = write_row(
            row_id, AuditAction.MEMBER_INVITED, actor, reviewer.reviewer_id, people.clock(),
            detail="A one-time token to set a new password was given out.",
            changes={"purpose": TokenPurpose.PASSWORD_RESET},
        )  # fmt: skip
        return Amended(changed, (row,), (drawn.record,))

    await amend(people, tenant_id, found.reviewer.reviewer_id, with_token)
    stored = await load_member(people.records, tenant_id, found.reviewer.reviewer_id)
    return IssuedToken(stored.reviewer, drawn.record, drawn.expires_at, drawn.text)


def _reviewer(people: People, member: NewMember, reviewer_id: UserId) -> Reviewer:
    now = people.clock()
    return Reviewer(
        reviewer_id=reviewer_id,
        tenant_id=member.tenant_id,
        email=normal_email(member.email),
        name=member.name,
        role=member.role,
        created_at=now,
        updated_at=now,
    )


def _invited(people: People, reviewer: Reviewer, actor: Actor, said: str) -> AuditEvent:
    return write_row(
        people.new_id("aud"), AuditAction.MEMBER_INVITED, actor, reviewer.reviewer_id, reviewer.created_at,
        detail=said, changes={"role": reviewer.role},
    )  # fmt: skip
