"""Verify the second factor: each code once, limited failures, a new cookie (G28, S10, S19-S23)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.ids import SubjectId, UserId
from schemas.people import Factor, Reviewer, ReviewerCaller
from schemas.problems import ProblemCode, Refused, Unauthenticated, VeristreamError
from schemas.sign_in import FactorAccepted, FactorMethod
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.reviewers.context import People, keyed_hash
from streams.reviewers.members import Amend, Amended, amend
from streams.sign_in.attempt_limits import (
    CountedAttempt,
    Limit,
    TooManyAttempts,
    TooSoon,
    clear,
    give_back,
    take,
)
from streams.sign_in.cookies import issue_device
from streams.sign_in.session_cookies import session_record
from streams.sign_in.sessions import rotate, session_of, show, with_rotated
from streams.sign_in.totp import accepted_step, normal_recovery_code, without_code

WINDOW: Final = timedelta(minutes=15)
FIRST_PAUSE: Final = timedelta(seconds=1)
PER_REVIEWER: Final = Limit("factor-reviewer", 5, WINDOW, FIRST_PAUSE)
PER_SESSION: Final = Limit("factor-session", 5, WINDOW, FIRST_PAUSE)
"""G28, with pauses of 1, 2, 4 and 8 s between the five. Only callers with the password are counted, so nobody
else can lock a member out (S22)."""

IN_A_ROW: Final = Limit("factor-in-a-row", 100, timedelta(days=3650))
"""NIST SP 800-63B section 5.2.2: no more than 100 failures in a row; then a colleague resets the factor."""

_SEED_LABEL: Final = "totp"


class WrongCode(VeristreamError):
    """The code is not the member's, or was used."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A presented code: of the authenticator, or a recovery code."""

    method: FactorMethod
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FactorVerified:
    """The result of a verified factor, with the session's new cookie."""

    answer: FactorAccepted
    cookie: str = field(repr=False)
    device: str = field(repr=False)
    """A new device cookie."""


async def verify_factor(
    people: People, caller: ReviewerCaller, presented: Presented, actor: Actor
) -> FactorVerified:
    """Verify the factor in the caller's session; a recovery code ends every other session. One audit row.

    Raises:
        TooManyAttempts: Of this member or in this session.
        Refused: MFA_CODE_INVALID; wrong, used, or no factor is in use.
    """
    _, session = await session_of(people, caller)
    now, row_id = people.clock(), people.new_id("aud")
    renewed = rotate(people, session, satisfied=True, factor_at=now)

    async def with_factor_verified(reviewer: Reviewer) -> Amended:
        used = await _use(people, reviewer, presented, now)
        alone = presented.method is FactorMethod.RECOVERY_CODE
        changes = {"method": presented.method, "recovery_codes_remaining": len(used.recovery_hashes)}
        said = "The second factor was met."
        row = factor_row(row_id, AuditAction.MFA_VERIFIED, caller, actor, now, said, **changes)
        changed = reviewer.model_copy(update={"factor": used})
        record = session_record(renewed.session, 1)
        return Amended(with_rotated(changed, renewed.session, alone=alone), (row,), (record,))

    reviewer = await attempt(people, caller, actor, with_factor_verified)
    left = 0 if reviewer.factor is None else len(reviewer.factor.recovery_hashes)
    answer = FactorAccepted(
        session=show(people, reviewer, renewed.session),
        method=presented.method,
        recovery_codes_remaining=left,
    )
    return FactorVerified(answer, renewed.cookie, issue_device(people, reviewer))


async def _use(people: People, reviewer: Reviewer, presented: Presented, now: datetime) -> Factor:
    """Return the factor with the code marked as used, or raise `WrongCode`."""
    factor = reviewer.factor
    if factor is None:
        raise WrongCode
    if presented.method is FactorMethod.RECOVERY_CODE:
        hashed = hash_recovery_code(people, reviewer.reviewer_id, presented.text)
        left = without_code(factor.recovery_hashes, hashed)
        if left is None:
            raise WrongCode
        return factor.model_copy(update={"recovery_hashes": left})
    seed = await open_seed(people, reviewer, factor.sealed_seed)
    drift, after = people.totp_drift_steps, factor.last_step
    step = accepted_step(seed, presented.text, now, drift_steps=drift, after=after)
    if step is None:
        raise WrongCode
    return factor.model_copy(update={"last_step": step})


async def attempt(people: People, caller: ReviewerCaller, actor: Actor, change: Amend) -> Reviewer:
    """Change the member if a code is right; the attempt is counted before the code is checked.

    Raises:
        TooManyAttempts: Of this member or in this session; audited once per window, and not when
            only the pause after the previous attempt is not over.
        Refused: MFA_CODE_INVALID for `WrongCode`, with an audit row; and whatever the change raises.
    """
    taken = await _count(people, caller, actor)
    try:
        reviewer = await amend(people, caller.tenant_id, caller.reviewer_id, change)
    except WrongCode:
        said = "A code of the second factor was wrong."
        row_id, now = people.new_id("aud"), people.clock()
        row = factor_row(row_id, AuditAction.MFA_FAILED, caller, actor, now, said)
        await people.commit(act(caller.tenant_id, row))
        raise Refused.because(ProblemCode.MFA_CODE_INVALID, "The code is not valid.") from None
    except (Refused, Unauthenticated):
        await _uncount(people, taken)  # no code was checked
        raise
    await _uncount(people, taken)
    await clear(people, IN_A_ROW, caller.reviewer_id)
    return reviewer


async def _count(people: People, caller: ReviewerCaller, actor: Actor) -> list[CountedAttempt]:
    taken: list[CountedAttempt] = []
    whose = (
        (PER_REVIEWER, caller.reviewer_id),  # first: a refusal then costs one read
        (PER_SESSION, caller.session_id),
        (IN_A_ROW, caller.reviewer_id),
    )
    for limit, one in whose:
        try:
            taken.append(await take(people, limit, one))
        except TooManyAttempts as full:
            await _uncount(people, taken)
            if isinstance(full, TooSoon):
                raise
            said, changes = "The second factor is refused for a while.", {"limit": limit.name}
            now = people.clock()
            row = factor_row(full.row_id, AuditAction.MFA_FAILED, caller, actor, now, said, **changes)
            await people.commit(act(caller.tenant_id, row))
            raise
    return taken


async def _uncount(people: People, taken: list[CountedAttempt]) -> None:
    for one in taken:
        await give_back(people, one)


def factor_row(
    row_id: str,
    action: AuditAction,
    caller: ReviewerCaller,
    actor: Actor,
    now: datetime,
    said: str,
    **changes: Any,
) -> AuditEvent:
    """Return the audit row of a change of a member's own factor."""
    named = {"session_id": caller.session_id, **changes}
    return write_row(row_id, action, actor, caller.reviewer_id, now, detail=said, changes=named)


def vault_name(reviewer_id: UserId) -> SubjectId:
    """Return the vault subject of a member's seed; no subject of a tenant can have this id."""
    return SubjectId(f"reviewer/{reviewer_id}")


async def seal_seed(people: People, caller: ReviewerCaller, seed: bytes) -> str:
    """Return the seed sealed for the caller alone (S24)."""
    return await people.vault.seal(caller.tenant_id, vault_name(caller.reviewer_id), _SEED_LABEL, seed)


async def open_seed(people: People, reviewer: Reviewer, sealed: str) -> bytes:
    """Return a member's seed."""
    return await people.vault.open(reviewer.tenant_id, vault_name(reviewer.reviewer_id), _SEED_LABEL, sealed)


def hash_recovery_code(people: People, reviewer_id: UserId, code: str) -> str:
    """Return the keyed hash that is stored of a recovery code."""
    return keyed_hash(people.key, "recovery", reviewer_id, normal_recovery_code(code))


def nothing_there(detail: str) -> Refused:
    """Return the refusal for a factor that does not exist."""
    return Refused.because(ProblemCode.NOT_FOUND, detail)


async def forget_failures(people: People, reviewer_id: UserId) -> None:
    """Clear the failed attempts of a member whose factor was reset."""
    for limit in (IN_A_ROW, PER_REVIEWER):
        await clear(people, limit, reviewer_id)
