"""Enrol, confirm and remove a reviewer's second factor, and replace recovery codes (G29, G95)."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from schemas.audit import Actor, AuditAction
from schemas.ids import derive_id
from schemas.people import Factor, PendingFactor, Reviewer, ReviewerCaller, ReviewerSession
from schemas.problems import ProblemCode, Refused
from schemas.sign_in import FactorConfirmed, FactorMethod, FactorStanding, RecoveryCodes
from streams.reviewers.context import People
from streams.reviewers.members import Amended, amend
from streams.sign_in.cookies import issue_device
from streams.sign_in.factor_check import (
    WrongCode,
    attempt,
    factor_row,
    hash_recovery_code,
    nothing_there,
    open_seed,
    seal_seed,
)
from streams.sign_in.session_cookies import session_record
from streams.sign_in.sessions import rotate, session_of, show, with_rotated
from streams.sign_in.totp import SEED_BYTES, accepted_step, draw_recovery_codes, otpauth_uri, secret_of

FRESH: Final = timedelta(minutes=10)
"""How long a given password and a verified factor allow changes of the factor (S25)."""

PENDING: Final = timedelta(minutes=15)
"""How long an enrolment waits for its first code."""


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A new seed in two forms; None when the request was answered before (G82)."""

    otpauth_uri: str | None = field(repr=False)
    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The result of a confirmed factor, with the session's new cookie."""

    answer: FactorConfirmed
    cookie: str = field(repr=False)
    device: str = field(repr=False)
    """A new device cookie."""


async def standing(people: People, caller: ReviewerCaller) -> FactorStanding:
    """Return the state of the caller's factor."""
    reviewer, session = await session_of(people, caller)
    factor = reviewer.factor
    return FactorStanding(
        enrolled=factor is not None,
        satisfied=session.satisfied,
        pending=_pending(people, reviewer) is not None,
        method=FactorMethod.TOTP if factor is not None else None,
        confirmed_at=None if factor is None else factor.confirmed_at,
        recovery_codes_remaining=0 if factor is None else len(factor.recovery_hashes),
    )


def _pending(people: People, reviewer: Reviewer) -> PendingFactor | None:
    pending = reviewer.pending_factor
    waiting = pending is not None and people.clock() < pending.created_at + PENDING
    return pending if waiting else None


async def begin(people: People, caller: ReviewerCaller, key: str | None) -> Enrolment:
    """Create a seed that waits for its first code; a factor in use stays until then.

    Raises:
        Refused: UNAUTHENTICATED, the password was not given recently; MFA_REQUIRED, another factor is in use
            and was not verified recently.
    """
    named = (caller.tenant_id, caller.reviewer_id, key or "")
    made = people.new_id("mfa") if key is None else derive_id("mfa", *named)
    seed = people.draw(SEED_BYTES)
    _, session = await session_of(people, caller)
    sealed = await seal_seed(people, caller, seed)
    pending = PendingFactor(factor_id=made, sealed_seed=sealed, created_at=people.clock())

    async def with_pending(reviewer: Reviewer) -> Amended:
        if made in {one.factor_id for one in (reviewer.factor, reviewer.pending_factor) if one is not None}:
            raise _BegunAlready
        require_recent_password(people, session)
        require_right_to_enrol(people, reviewer, session)
        return Amended(reviewer.model_copy(update={"pending_factor": pending}))

    try:
        reviewer = await amend(people, caller.tenant_id, caller.reviewer_id, with_pending)
    except _BegunAlready:
        return Enrolment(None, None)
    return Enrolment(otpauth_uri(seed, reviewer.email), secret_of(seed))


async def confirm(people: People, caller: ReviewerCaller, code: str, actor: Actor) -> Confirmed:
    """Confirm the pending factor with its first code, which also verifies the session (G95).

    Every other session of the member ends. One row.

    Raises:
        TooManyAttempts: Of this member or in this session.
        Refused: MFA_CODE_INVALID; NOT_FOUND, nothing waits to be confirmed; another factor is in use, and
            UNAUTHENTICATED or MFA_REQUIRED as for `begin`.
    """
    _, session = await session_of(people, caller)
    now, row_id, codes = people.clock(), people.new_id("aud"), draw_recovery_codes(people.draw)
    hashes = tuple(hash_recovery_code(people, caller.reviewer_id, one) for one in codes)
    renewed = rotate(people, session, satisfied=True, factor_at=now)

    async def with_factor(reviewer: Reviewer) -> Amended:
        require_right_to_enrol(people, reviewer, session)
        pending = _pending(people, reviewer)
        if pending is None:
            raise nothing_there("No enrolment waits to be confirmed.")
        seed = await open_seed(people, reviewer, pending.sealed_seed)
        step = accepted_step(seed, code, now, drift_steps=people.totp_drift_steps, after=0)
        if step is None:
            raise WrongCode
        factor = Factor(
            factor_id=pending.factor_id, sealed_seed=pending.sealed_seed, confirmed_at=now, last_step=step,
            recovery_hashes=hashes,
        )  # fmt: skip
        enrolled = reviewer.model_copy(update={"factor": factor, "pending_factor": None})
        row = factor_row(
            row_id, AuditAction.MFA_ENROLLED, caller, actor, now, "A second factor was put in use."
        )
        return Amended(
            with_rotated(enrolled, renewed.session, alone=True), (row,), (session_record(renewed.session, 1),)
        )

    reviewer = await attempt(people, caller, actor, with_factor)
    answer = FactorConfirmed(session=show(people, reviewer, renewed.session), recovery_codes=codes)
    return Confirmed(answer, renewed.cookie, issue_device(people, reviewer))


async def replace_recovery_codes(people: People, caller: ReviewerCaller, actor: Actor) -> RecoveryCodes:
    """Create new recovery codes; the old ones are void. One audit row.

    Raises:
        Refused: UNAUTHENTICATED, MFA_REQUIRED: password or factor were not given recently; NOT_FOUND, there
            is none.
    """
    _, session = await session_of(people, caller)
    require_fresh(people, session)
    row_id, codes = people.new_id("aud"), draw_recovery_codes(people.draw)
    hashes = tuple(hash_recovery_code(people, caller.reviewer_id, one) for one in codes)

    async def with_codes(reviewer: Reviewer) -> Amended:
        factor = _factor_of(reviewer).model_copy(update={"recovery_hashes": hashes})
        said = "The recovery codes were replaced."
        row = factor_row(row_id, AuditAction.MFA_RESET, caller, actor, people.clock(), said)
        return Amended(reviewer.model_copy(update={"factor": factor}), (row,))

    await amend(people, caller.tenant_id, caller.reviewer_id, with_codes)
    return RecoveryCodes(recovery_codes=codes)


async def remove(people: People, caller: ReviewerCaller, actor: Actor) -> str:
    """Remove the factor and return the new cookie, of a session without a verified second factor.

    Every other session of the member ends. One row.

    Raises:
        Refused: UNAUTHENTICATED, MFA_REQUIRED: password or factor were not given recently; NOT_FOUND, there
            is none.
    """
    _, session = await session_of(people, caller)
    require_fresh(people, session)
    row_id, renewed = people.new_id("aud"), rotate(people, session, satisfied=False, factor_at=None)

    async def without_factor(reviewer: Reviewer) -> Amended:
        _factor_of(reviewer)
        bare = reviewer.model_copy(update={"factor": None, "pending_factor": None})
        said = "A second factor was taken out of use."
        row = factor_row(row_id, AuditAction.MFA_RESET, caller, actor, people.clock(), said)
        return Amended(
            with_rotated(bare, renewed.session, alone=True), (row,), (session_record(renewed.session, 1),)
        )

    await amend(people, caller.tenant_id, caller.reviewer_id, without_factor)
    return renewed.cookie


class _BegunAlready(Exception):
    """The request was answered before."""


def require_right_to_enrol(people: People, reviewer: Reviewer, session: ReviewerSession) -> None:
    """Raise unless the member has no factor, or it and the password were given recently.

    Raises:
        Refused: UNAUTHENTICATED, MFA_REQUIRED.
    """
    if reviewer.factor is not None:
        require_fresh(people, session)


def require_fresh(people: People, session: ReviewerSession) -> None:
    """Raise unless password and factor were given within `FRESH` (ASVS 5.0 7.5.1).

    Raises:
        Refused: UNAUTHENTICATED, MFA_REQUIRED.
    """
    require_recent_password(people, session)
    verified_at = session.factor_at
    if not session.satisfied or verified_at is None or people.clock() >= verified_at + FRESH:
        message = "The second factor must have been met within ten minutes; see POST /v1/control/mfa/verify."
        raise Refused.because(ProblemCode.MFA_REQUIRED, message)


def require_recent_password(people: People, session: ReviewerSession) -> None:
    """Raise unless the session was opened, and so its password given, within `FRESH`.

    Raises:
        Refused: UNAUTHENTICATED.
    """
    if people.clock() >= session.created_at + FRESH:
        message = "The password must have been given within ten minutes; sign in again."
        raise Refused.because(ProblemCode.UNAUTHENTICATED, message)


def _factor_of(reviewer: Reviewer) -> Factor:
    if reviewer.factor is None:
        raise nothing_there("No second factor is in use.")
    return reviewer.factor
