"""Reset a member's second factor on the request of two colleagues (G29)."""

from datetime import timedelta
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.ids import UserId
from schemas.people import PERMISSIONS_OF, FactorResetRequest, Permission, Reviewer, ReviewerCaller, Role
from schemas.problems import NotFound, ProblemCode, Refused
from streams.audit.rows import write_row
from streams.reviewers.context import People
from streams.reviewers.member_changes import require_may_make, waiting_reset
from streams.reviewers.members import Amended, amend, load_member
from streams.sign_in.factor_check import forget_failures

SECOND_WITHIN: Final = timedelta(hours=24)
"""How long a request to reset a factor waits for the second person."""


async def reset_factor(people: People, caller: ReviewerCaller, reviewer_id: UserId, actor: Actor) -> None:
    """Reset a colleague's second factor; two people other than the member must request it (G29).

    The first call records the request; the call of a second person within a day executes it: factor and
    sessions are removed, the password stays, the next sign-in enrols anew. One row for each call. A member
    without a factor has nothing to reset.

    Raises:
        NotFound: The tenant has no such member.
        Refused: SECOND_REVIEWER_MUST_DIFFER, one's own factor or one's own request; PERMISSION_DENIED, an
            owner's is for owners.
    """
    row_id = people.new_id("aud")

    async def reset(reviewer: Reviewer) -> Amended:
        _require_colleague(caller, reviewer)
        now = people.clock()
        if reviewer.factor is None and reviewer.pending_factor is None:
            return Amended(reviewer)
        pending = waiting_reset(reviewer, now)
        if pending is None or not await _still_counts(people, reviewer, pending):
            requested = FactorResetRequest(
                asked_by=caller.reviewer_id, asked_at=now, expires_at=now + SECOND_WITHIN
            )
            said = "The reset of a second factor was asked for; a second person must confirm it."
            return Amended(reviewer.model_copy(update={"factor_reset": requested}), (_reset_row(said),))
        if pending.asked_by == caller.reviewer_id:
            raise _second_must_differ("A second person must confirm the reset.")
        gone = {"factor": None, "pending_factor": None, "factor_reset": None, "open_sessions": ()}
        said = "A second factor was reset by two people; every session ended."
        return Amended(reviewer.model_copy(update=gone), (_reset_row(said, asked_by=pending.asked_by),))

    def _reset_row(said: str, **changes: Any) -> AuditEvent:
        now = people.clock()
        return write_row(row_id, AuditAction.MFA_RESET, actor, reviewer_id, now, detail=said, changes=changes)

    reviewer = await amend(people, caller.tenant_id, reviewer_id, reset)
    if reviewer.factor is None:
        await forget_failures(people, reviewer_id)


def _require_colleague(caller: ReviewerCaller, reviewer: Reviewer) -> None:
    if caller.reviewer_id == reviewer.reviewer_id:
        raise _second_must_differ("Nobody resets their own second factor; ask two colleagues.")
    require_may_make(caller, reviewer.role)


async def _still_counts(people: People, reviewer: Reviewer, pending: FactorResetRequest) -> bool:
    """Return whether the requester still has the permission to request the reset."""
    try:
        requester = (await load_member(people.records, reviewer.tenant_id, pending.asked_by)).reviewer
    except NotFound:
        return False
    may = requester.active and Permission.MEMBERS_MANAGE in PERMISSIONS_OF[requester.role]
    return may and (reviewer.role is not Role.OWNER or requester.role is Role.OWNER)


def _second_must_differ(message: str) -> Refused:
    return Refused.because(ProblemCode.SECOND_REVIEWER_MUST_DIFFER, message)
