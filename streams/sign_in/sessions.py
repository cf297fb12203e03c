"""Open, rotate, show, list and end reviewer sessions (G49, S10-S15)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from schemas.audit import Actor, AuditAction
from schemas.ids import PLATFORM, ReviewerSessionId
from schemas.people import OpenSession, Permission, Reviewer, ReviewerCaller, ReviewerSession
from schemas.problems import NotFound, ProblemCode, Refused, Unauthenticated
from schemas.sign_in import (
    FactorOfSession,
    ListedSession,
    ReviewerSessionList,
    SignedInReviewer,
    SignedInSession,
)
from streams.audit.rows import write_row
from streams.ports.records import RecordKind
from streams.reviewers.context import People
from streams.reviewers.members import Amended, amend, load_member
from streams.sign_in.cookies import draw_cookie, hash_cookie
from streams.sign_in.session_cookies import is_fresh

MOST_SESSIONS: Final = 5
"""Largest number of open sessions of a member; a sixth ends the oldest (G49, G95)."""

SESSION_PREFIX: Final = "rs"


@dataclass(frozen=True, slots=True)
class CookiedSession:
    """A session and its current cookie value."""

    session: ReviewerSession
    cookie: str = field(repr=False)


def open_session(people: People, reviewer: Reviewer, session_id: ReviewerSessionId) -> CookiedSession:
    """Return a new session of a member; its first cookie's look-up part derives from its id."""
    now = people.clock()
    cookie, lookup = draw_cookie(people.draw, first_lookup(session_id))
    session = ReviewerSession(
        session_id=session_id,
        lookup=lookup,
        secret_hash=hash_cookie(cookie, people.cookie_pepper),
        tenant_id=reviewer.tenant_id,
        reviewer_id=reviewer.reviewer_id,
        created_at=now,
        seen_at=now,
        expires_at=now + people.session_lifetime,
    )
    return CookiedSession(session, cookie)


def first_lookup(session_id: ReviewerSessionId) -> str:
    """Return the look-up part of a session's first cookie, the id of its first record."""
    return session_id.removeprefix(f"{SESSION_PREFIX}_")


def rotate(people: People, session: ReviewerSession, **changes: Any) -> CookiedSession:
    """Return the session with a new cookie; the old one is void once the member's record names the new."""
    cookie, lookup = draw_cookie(people.draw)
    hashed = hash_cookie(cookie, people.cookie_pepper)
    renewed = {"lookup": lookup, "secret_hash": hashed, "seen_at": people.clock(), **changes}
    return CookiedSession(session.model_copy(update=renewed), cookie)


def opened(session: ReviewerSession) -> OpenSession:
    """Return the entry of the session in a member's record."""
    return OpenSession(session_id=session.session_id, lookup=session.lookup)


def with_rotated(reviewer: Reviewer, session: ReviewerSession, *, alone: bool = False) -> Reviewer:
    """Return the member with the session under its new cookie; `alone`: with every other session ended.

    Raises:
        Unauthenticated: The session was ended just now.
    """
    if all(one.session_id != session.session_id for one in reviewer.open_sessions):
        raise Unauthenticated("the session is over")
    stored = [
        opened(session) if one.session_id == session.session_id else one
        for one in reviewer.open_sessions
        if one.session_id == session.session_id or not alone
    ]
    return reviewer.model_copy(update={"open_sessions": tuple(stored)})


async def load_session(people: People, lookup: str) -> ReviewerSession:
    """Return the session stored under the look-up part, or raise `NotFound`."""
    record = await people.records.get(PLATFORM, RecordKind.REVIEWER_SESSION, lookup)
    return ReviewerSession.from_bytes(record.body)


async def fresh_sessions(people: People, reviewer: Reviewer) -> Sequence[ReviewerSession]:
    """Return the member's sessions that have neither ended nor expired, oldest first."""
    now, found = people.clock(), []
    for one in reviewer.open_sessions:
        with suppress(NotFound):  # its record is still being written
            found.append(await load_session(people, one.lookup))
    return [session for session in found if is_fresh(session, now, people.session_idle)]


async def session_of(people: People, caller: ReviewerCaller) -> tuple[Reviewer, ReviewerSession]:
    """Return the member and the session behind a caller.

    Raises:
        Unauthenticated: The session was ended just now.
    """
    stored = await load_member(people.records, caller.tenant_id, caller.reviewer_id)
    found = [one for one in stored.reviewer.open_sessions if one.session_id == caller.session_id]
    for one in found:
        with suppress(NotFound):
            return stored.reviewer, await load_session(people, one.lookup)
    raise Unauthenticated("the session is over")


def show(people: People, reviewer: Reviewer, session: ReviewerSession) -> SignedInSession:
    """Return the session as its owner sees it."""
    return SignedInSession(
        session_id=session.session_id,
        reviewer=SignedInReviewer(
            id=reviewer.reviewer_id,
            email=reviewer.email,
            name=reviewer.name,
            role=reviewer.role,
            tenant_id=reviewer.tenant_id,
        ),
        mfa=_factor_of(reviewer, session),
        idle_expires_at=_idle_end(people, session),
        expires_at=session.expires_at,
    )


def _factor_of(reviewer: Reviewer, session: ReviewerSession) -> FactorOfSession:
    return FactorOfSession(enrolled=reviewer.factor is not None, satisfied=session.satisfied)


def _idle_end(people: People, session: ReviewerSession) -> datetime:
    return min(session.seen_at + people.session_idle, session.expires_at)


async def list_sessions(people: People, caller: ReviewerCaller) -> ReviewerSessionList:
    """Return the caller's own open sessions, newest first."""
    stored = await load_member(people.records, caller.tenant_id, caller.reviewer_id)
    sessions = await fresh_sessions(people, stored.reviewer)
    rows = [_listed(people, stored.reviewer, session, caller) for session in reversed(sessions)]
    return ReviewerSessionList(sessions=tuple(rows))


def _listed(
    people: People, reviewer: Reviewer, session: ReviewerSession, caller: ReviewerCaller
) -> ListedSession:
    return ListedSession(
        session_id=session.session_id,
        current=session.session_id == caller.session_id,
        mfa=_factor_of(reviewer, session),
        created_at=session.created_at,
        last_seen_at=session.seen_at,
        idle_expires_at=_idle_end(people, session),
        expires_at=session.expires_at,
    )


async def end_session(
    people: People, caller: ReviewerCaller, session_id: ReviewerSessionId, actor: Actor
) -> None:
    """End one's own session, or a colleague's with MEMBERS_MANAGE, at once; one audit row.

    Raises:
        NotFound: No open session of this tenant has the id.
        Refused: PERMISSION_DENIED; it is a colleague's.
    """
    first = await load_session(people, first_lookup(session_id))
    if first.tenant_id != caller.tenant_id:
        raise NotFound(session_id)
    if first.reviewer_id != caller.reviewer_id and not caller.may(Permission.MEMBERS_MANAGE):
        message = f"The role {caller.role} lacks the permission {Permission.MEMBERS_MANAGE}."
        raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
    row_id = people.new_id("aud")

    async def without(reviewer: Reviewer) -> Amended:
        stored = tuple(one for one in reviewer.open_sessions if one.session_id != session_id)
        if stored == reviewer.open_sessions:
            raise NotFound(session_id)
        row = write_row(
            row_id, AuditAction.REVIEWER_SIGNED_OUT, actor, reviewer.reviewer_id, people.clock(),
            detail="A reviewer session was ended.", changes={"session_id": session_id},
        )  # fmt: skip
        return Amended(reviewer.model_copy(update={"open_sessions": stored}), (row,))

    await amend(people, first.tenant_id, first.reviewer_id, without)
