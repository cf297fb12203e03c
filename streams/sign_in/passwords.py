"""Change a member's password, or set it with a one-time token (G50, G87, S14)."""

from dataclasses import dataclass, field
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType
from schemas.people import Reviewer, ReviewerCaller
from schemas.problems import Overloaded, StoreUnavailable
from streams.audit.rows import write_row
from streams.reviewers.addresses import bind_address, email_id, require_unbound
from streams.reviewers.context import People
from streams.reviewers.members import Amended, amend, load_member
from streams.reviewers.tokens import read_token, refused_token, require_outstanding
from streams.sign_in.attempt_limits import SignInLimits, clear, give_back, take
from streams.sign_in.cookies import issue_device
from streams.sign_in.password_rules import NEW_PASSWORD, require_acceptable
from streams.sign_in.session_cookies import session_record
from streams.sign_in.sessions import rotate, session_of, with_rotated
from streams.sign_in.sign_in import credentials_invalid


@dataclass(frozen=True, slots=True)
class Changed:
    """The new cookies after a password change."""

    cookie: str = field(repr=False)
    """Of the caller's session."""
    device: str = field(repr=False)
    """A device cookie; the earlier ones are void."""


class ChangePassword:
    """Change the caller's own password; every other session ends."""

    def __init__(self, people: People, limits: SignInLimits) -> None:
        self._people = people
        self._limits = limits

    async def __call__(self, caller: ReviewerCaller, current: str, new: str, actor: Actor) -> Changed:
        """Change the password and return the caller's new cookies.

        Raises:
            TooManyAttempts: Failed ones for this account, sign-ins included.
            Refused: CREDENTIALS_INVALID, the current password is another; VALIDATION_FAILED, the new one is
                not allowed.
            Overloaded: Too many passwords are being checked.
        """
        people = self._people
        reviewer, session = await session_of(people, caller)
        require_acceptable(new, reviewer.email, NEW_PASSWORD)
        await self._check(reviewer, current)
        hashed = await people.passwords.hash(new)
        renewed, now, row_id = rotate(people, session), people.clock(), people.new_id("aud")

        async def with_password(standing: Reviewer) -> Amended:
            if standing.password_hash != reviewer.password_hash:
                raise credentials_invalid()  # changed while it was checked
            changed = with_rotated(_with(standing, hashed, now), renewed.session, alone=True)
            row = _row_of(row_id, reviewer, actor, now, "A password was changed; every other session ended.")
            return Amended(changed, (row,), (session_record(renewed.session, 1),))

        changed = await amend(people, caller.tenant_id, caller.reviewer_id, with_password)
        return Changed(renewed.cookie, issue_device(people, changed))

    async def _check(self, reviewer: Reviewer, current: str) -> None:
        """Raise for a wrong password, counted as a failed sign-in, so a stolen session guesses no faster."""
        people, account = self._people, email_id(reviewer.email, self._people.key)
        counted = self._limits.attempts is not None
        taken = await take(people, self._limits.by_account(), account) if counted else None
        try:
            genuine = await people.passwords.verify(reviewer.password_hash, current)
        except Overloaded:
            genuine = None
        if taken is not None and genuine is not False:
            await give_back(people, taken)
        if genuine is None:
            raise Overloaded("too many passwords are being checked")
        if not genuine:
            raise credentials_invalid()


class ResetPassword:
    """Set a password with a one-time token; every session ends."""

    def __init__(self, people: People, limits: SignInLimits) -> None:
        self._people = people
        self._limits = limits

    async def __call__(self, token: str, new: str, actor: Actor) -> None:
        """Set the password; a second factor in use stays in use.

        Raises:
            Refused: CREDENTIALS_INVALID, the token is not good; VALIDATION_FAILED, the password is not
                allowed, and the token stays good; MEMBER_EXISTS, a member of another tenant signs in with
                the address, and the token stays good.
            Overloaded: Too many passwords are being hashed.
        """
        people = self._people
        presented = await read_token(people, token)
        member = presented.token.tenant_id, presented.token.reviewer_id
        reviewer = (await load_member(people.records, *member)).reviewer
        require_acceptable(new, reviewer.email, NEW_PASSWORD)
        await require_unbound(people, reviewer)  # before computing a hash that may not be needed
        hashed = await people.passwords.hash(new)
        binding = await bind_address(people, reviewer)
        now, row_id = people.clock(), people.new_id("aud")
        if now >= presented.token.expires_at:
            raise refused_token()

        async def with_password(standing: Reviewer) -> Amended:
            require_outstanding(standing, presented.token_id)
            if binding.before is not None and people.clock() >= binding.before:
                raise StoreUnavailable("the store took too long")
            changed = _with(standing, hashed, now).model_copy(update={"open_sessions": (), "token_id": None})
            who = {"actor_type": ActorType.REVIEWER, "actor_id": standing.reviewer_id}
            said = "A password was set with a one-time token; every session ended."
            row = _row_of(row_id, standing, actor.model_copy(update=who), now, said)
            return Amended(changed, (row,))

        await amend(people, *member, with_password)
        await clear(people, self._limits.by_account(), email_id(reviewer.email, people.key))


def _with(reviewer: Reviewer, hashed: str, now: datetime) -> Reviewer:
    return reviewer.model_copy(update={"password_hash": hashed, "password_changed_at": now})


def _row_of(row_id: str, reviewer: Reviewer, actor: Actor, now: datetime, said: str) -> AuditEvent:
    """Return the audit row of a new password."""
    changes = {"password_changed": True}
    action = AuditAction.REVIEWER_PASSWORD_CHANGED
    return write_row(row_id, action, actor, reviewer.reviewer_id, now, detail=said, changes=changes)
