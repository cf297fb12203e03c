"""Change a member's role, suspension or preferences, withdraw invitations, remove members (G87, P21)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.ids import TenantId, UserId
from schemas.members import Member
from schemas.people import FactorResetRequest, Preferences, Reviewer, ReviewerCaller, Role
from schemas.problems import ProblemCode, Refused, VeristreamError
from streams.audit.rows import write_row
from streams.reviewers.addresses import email_record, read_email
from streams.reviewers.context import People
from streams.reviewers.members import Amended, amend, find_in_tenant, load_member
from streams.reviewers.roles import Departure, is_owner, let_go

_NOTHING: Final = {
    "password_hash": None, "factor": None, "pending_factor": None, "factor_reset": None, "token_id": None,
    "open_sessions": (),
}  # fmt: skip
"""The credentials of a removed member."""


@dataclass(frozen=True, slots=True)
class MemberChanges:
    """Changes to a member; None leaves a field unchanged."""

    role: Role | None = None
    active: bool | None = None

    def of(self, reviewer: Reviewer) -> dict[str, Any]:
        """Return the fields that differ from the member's current values."""
        wanted = {"role": self.role, "active": self.active}
        return {
            name: value
            for name, value in wanted.items()
            if value is not None and value != getattr(reviewer, name)
        }


class _IsOwnerMeanwhile(VeristreamError):
    """The change would end an ownership without a valid permission to leave."""


def show_member(reviewer: Reviewer, now: datetime) -> Member:
    """Return the member as shown to colleagues, without hash, factor and sessions."""
    return Member(
        reviewer_id=reviewer.reviewer_id,
        email=reviewer.email,
        name=reviewer.name,
        role=reviewer.role,
        active=reviewer.active,
        password_set=reviewer.password_hash is not None,
        mfa_enrolled=reviewer.factor is not None,
        factor_reset=waiting_reset(reviewer, now),
        created_at=reviewer.created_at,
        updated_at=reviewer.updated_at,
    )


def waiting_reset(reviewer: Reviewer, now: datetime) -> FactorResetRequest | None:
    """Return the pending request to reset the second factor, or None."""
    reset = reviewer.factor_reset
    return reset if reset is not None and now < reset.expires_at else None


def require_may_make(caller: ReviewerCaller, role: Role) -> None:
    """Raise unless the caller may make a member of this role: only owners make owners (G48).

    Raises:
        Refused: PERMISSION_DENIED.
    """
    if role is Role.OWNER and caller.role is not Role.OWNER:
        raise _denied("Only an owner makes or changes an owner.")


async def change_member(
    people: People, caller: ReviewerCaller, reviewer_id: UserId, changes: MemberChanges, actor: Actor
) -> Reviewer:
    """Change role or suspension; a suspension ends every session and token. One audit row for each change.

    Raises:
        NotFound: The tenant has no such member.
        Refused: PERMISSION_DENIED; VALIDATION_FAILED, no active owner would be left.
    """
    rows = _Rows(people, actor)
    while True:
        standing = (await load_member(people.records, caller.tenant_id, reviewer_id)).reviewer
        _require_may_change(caller, standing, changes)
        leave = None
        if _ceases(standing, changes):
            pointer = "/active" if changes.active is False else "/role"
            leave = await let_go(people, caller.tenant_id, reviewer_id, pointer)
        try:
            change = _change(people, caller, changes, leave, rows)
            return await amend(people, caller.tenant_id, reviewer_id, change)
        except _IsOwnerMeanwhile:
            continue


def _change(
    people: People, caller: ReviewerCaller, changes: MemberChanges, leave: Departure | None, rows: "_Rows"
) -> Callable[[Reviewer], Any]:
    async def changed(reviewer: Reviewer) -> Amended:
        _require_may_change(caller, reviewer, changes)
        differs, now = changes.of(reviewer), people.clock()
        if not differs:
            return Amended(reviewer)
        if _ceases(reviewer, changes) and (leave is None or now >= leave.before):
            raise _IsOwnerMeanwhile
        if differs.get("active") is False:
            ended = {"open_sessions": (), "token_id": None, "factor_reset": None}
            return Amended(
                reviewer.model_copy(update={**differs, **ended, "updated_at": now}),
                rows.of(reviewer, differs),
            )
        return Amended(reviewer.model_copy(update={**differs, "updated_at": now}), rows.of(reviewer, differs))

    return changed


class _Rows:
    """Create the audit rows of a change, with the same ids in every retry."""

    def __init__(self, people: People, actor: Actor) -> None:
        self._people = people
        self._actor = actor
        self._ids = people.new_id("aud"), people.new_id("aud")

    def of(self, reviewer: Reviewer, differs: dict[str, Any]) -> tuple[AuditEvent, ...]:
        """Return a row for a suspension, and one for another role or a reactivation."""
        suspended = differs.get("active") is False
        rest = {name: value for name, value in differs.items() if not (name == "active" and suspended)}
        rows: list[AuditEvent] = []
        if suspended:
            said = "A member was suspended; every session ended."
            rows.append(self._row(0, AuditAction.MEMBER_SUSPENDED, reviewer, said, {"active": False}))
        if rest:
            said = "A member got another role." if "role" in rest else "A member was let in again."
            before = {"previous_role": reviewer.role} if "role" in rest else {}
            rows.append(self._row(1, AuditAction.MEMBER_ROLE_CHANGED, reviewer, said, {**rest, **before}))
        return tuple(rows)

    def _row(
        self, number: int, action: AuditAction, reviewer: Reviewer, said: str, changes: dict[str, Any]
    ) -> AuditEvent:
        now, subject = self._people.clock(), reviewer.reviewer_id
        return write_row(self._ids[number], action, self._actor, subject, now, detail=said, changes=changes)


def _ceases(reviewer: Reviewer, changes: MemberChanges) -> bool:
    """Return whether the changes would end the member's ownership."""
    return is_owner(reviewer) and not is_owner(reviewer.model_copy(update=changes.of(reviewer)))


def _require_may_change(caller: ReviewerCaller, reviewer: Reviewer, changes: MemberChanges) -> None:
    require_may_make(caller, reviewer.role)
    if changes.role is None or changes.role is reviewer.role:
        return
    require_may_make(caller, changes.role)
    if caller.reviewer_id == reviewer.reviewer_id and caller.role is not Role.OWNER:
        raise _denied("Nobody but an owner gives themselves another role.")


async def withdraw_invitation(
    people: People, caller: ReviewerCaller, reviewer_id: UserId, actor: Actor
) -> None:
    """Withdraw an unredeemed invitation: void the token, free the address, remove the member. One audit row.

    Raises:
        NotFound: The tenant has no such member.
        Refused: MEMBER_EXISTS, the invitation was redeemed; PERMISSION_DENIED, an owner's is for owners.
    """
    row_id = people.new_id("aud")
    while True:
        standing = (await load_member(people.records, caller.tenant_id, reviewer_id)).reviewer
        _require_open_invitation(caller, standing)
        leave = await let_go(people, caller.tenant_id, reviewer_id, "") if is_owner(standing) else None
        _, version = await read_email(people, caller.tenant_id, standing.email)

        async def withdrawn(
            reviewer: Reviewer, leave: Departure | None = leave, version: int = version
        ) -> Amended:
            _require_open_invitation(caller, reviewer)
            if is_owner(reviewer) and (leave is None or people.clock() >= leave.before):
                raise _IsOwnerMeanwhile
            said = "An invitation was withdrawn before it was redeemed."
            return _gone(people, reviewer, version, row_id, actor, said)

        try:
            await amend(people, caller.tenant_id, reviewer_id, withdrawn)
        except _IsOwnerMeanwhile:
            continue
        return


async def remove_member(people: People, tenant_id: TenantId, email: str, actor: Actor) -> Reviewer:
    """Remove a member for the operator, for example to free an address. One audit row.

    Every session ends, and another member invited with the address may redeem. Whether an owner stays is the
    operator's business.

    Raises:
        NotFound: The tenant has no member with this address.
    """
    found, row_id = (await find_in_tenant(people, tenant_id, email)).reviewer, people.new_id("aud")
    _, version = await read_email(people, tenant_id, email)

    async def removed(reviewer: Reviewer) -> Amended:
        said = "A member was removed by the operator; every session ended."
        return _gone(people, reviewer, version, row_id, actor, said)

    await amend(people, tenant_id, found.reviewer_id, removed)
    return found


def _gone(people: People, reviewer: Reviewer, version: int, row_id: str, actor: Actor, said: str) -> Amended:
    """Return the member removed; `version` is that of the tenant's record of the address."""
    now = people.clock()
    gone = reviewer.model_copy(update={**_NOTHING, "withdrawn": True, "active": False, "updated_at": now})
    changes = {"active": False, "withdrawn": True}
    row = write_row(
        row_id, AuditAction.MEMBER_SUSPENDED, actor, reviewer.reviewer_id, now, detail=said, changes=changes
    )
    freed = email_record(gone, people.key, version + 1)
    return Amended(gone.model_copy(update={"email": "", "name": ""}), (row,), (freed,))


def _require_open_invitation(caller: ReviewerCaller, reviewer: Reviewer) -> None:
    require_may_make(caller, reviewer.role)
    if reviewer.password_hash is not None:
        message = "The invitation was redeemed; suspend the member instead."
        raise Refused.because(ProblemCode.MEMBER_EXISTS, message)


def _denied(message: str) -> Refused:
    return Refused.because(ProblemCode.PERMISSION_DENIED, message)


async def change_preferences(
    people: People, caller: ReviewerCaller, changes: Mapping[str, Any], actor: Actor
) -> Preferences:
    """Change what is named of the caller's preferences; what stays as it was writes nothing.

    Raises:
        NotFound: The caller is no member any more.
    """
    row_id = people.new_id("aud")

    async def changed(member: Reviewer) -> Amended:
        chosen = member.preferences.model_copy(update=dict(changes))
        if chosen == member.preferences:
            return Amended(member)
        row = write_row(
            row_id,
            AuditAction.REVIEWER_PREFERENCES_CHANGED,
            actor,
            member.reviewer_id,
            people.clock(),
            detail="A reviewer changed their preferences.",
            changes=dict(changes),
        )
        return Amended(member.model_copy(update={"preferences": chosen}), (row,))

    return (await amend(people, caller.tenant_id, caller.reviewer_id, changed)).preferences
